"""Finish-time fairness of applications, on records short enough to be worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sim.application_metrics import applications_of
from scheduler.sim.metrics import rho_cluster, summarize
from scheduler.sim.report import Row, grids
from tests.profiles import examples
from tests.sim.records import record, result
from tests.sim.stories import job, play


def test_a_group_is_one_application_from_its_first_submission_to_its_last_end() -> None:
    (sweep,) = applications_of([
        record(1, took=50, gpus=2, group="a", alone_s=40.0),
        record(2, took=90, gpus=1, group="a", alone_s=30.0),
        record(3, at=10, took=70, gpus=4, group="a", alone_s=20.0),
    ])  # fmt: skip
    assert (sweep.name, sweep.jobs, sweep.submitted_s, sweep.ended_s, sweep.taken_s) == ("a", 3, 0, 90, 90)
    assert (sweep.total_gpu_s, sweep.demand_gpus, sweep.longest_s) == (2 * 40 + 30 + 4 * 20, 3, 40)
    assert sweep.contention == 1
    # Alone on 4 GPUs it uses the 3 that it asked for; on 1 GPU it takes as long as its work.
    assert sweep.isolated_s(4) == 190 / 3
    assert sweep.isolated_s(1) == 190
    assert sweep.rho(4) == pytest.approx(90 / (190 / 3))


def test_the_longest_job_bounds_the_time_alone() -> None:
    (sweep,) = applications_of([record(1, group="a", alone_s=90.0), *(record(n, group="a") for n in (2, 3))])
    assert sweep.isolated_s(4) == 90


def test_groups_of_one_name_in_two_virtual_clusters_are_two_and_lone_jobs_are_one_each() -> None:
    found = applications_of([record(1, vc="x", group="a"), record(2, vc="y", group="a"), record(3), record(4)])
    assert [(each.name, each.vc) for each in found] == [
        ("a", "x"),
        ("a", "y"),
        ("job3", "default"),
        ("job4", "default"),
    ]


def test_contention_is_the_mean_number_of_applications_meanwhile() -> None:
    found = applications_of([
        record(1, took=50, group="a"),
        record(2, took=100, group="a"),
        record(3, at=50, took=100),
        record(4, at=50, took=25),
        record(5, at=300, took=10),
        record(6, at=305, took=None),
        record(7, at=500, took=0),
    ])  # fmt: skip
    assert [each.contention for each in found] == [(50 + 2 * 50 + 25) / 100, (3 * 25 + 2 * 25 + 50) / 100, 3, 1.5, 1, 1]


def test_an_application_with_an_unfinished_job_has_no_ratio() -> None:
    (sweep,) = applications_of([record(1, group="a", alone_s=10.0), record(2, took=None, group="a", alone_s=10.0)])
    assert (sweep.ended_s, sweep.taken_s, sweep.rho(4)) == (None, None, None)


@pytest.mark.parametrize(("took", "alone_s"), [(0.0, 10.0), (10.0, 0.0)])
def test_an_application_without_time_or_work_has_no_ratio(took: float, alone_s: float) -> None:
    (sweep,) = applications_of([record(1, took=took, alone_s=alone_s)])
    assert sweep.rho(4) is None


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 4), st.floats(1, 500)), min_size=1, max_size=12))
def test_without_groups_applications_have_the_ratios_of_their_jobs(jobs: list[tuple[float, int, float]]) -> None:
    jobs.sort()
    played = play([job(n, at=at, gpus=gpus, runs=runs) for n, (at, gpus, runs) in enumerate(jobs, start=1)])
    for record_of_job, application in zip(played.records, applications_of(played.records), strict=True):
        assert application.rho(4) == pytest.approx(rho_cluster(record_of_job, 4), rel=1e-6)


def test_the_summary_has_the_figures_of_applications_and_the_table_has_them_for_groups() -> None:
    alone = summarize(result([record(1, alone_s=100.0), record(2, alone_s=100.0)]))
    assert (alone.applications, alone.application_rho_max, alone.application_jain) == (2, 1.0, 1.0)
    assert alone.application_time_mean_s == 100
    grouped = summarize(result([record(1, group="a", alone_s=100.0), record(2, took=150, group="a", alone_s=100.0)]))
    assert (grouped.applications, grouped.application_rho_mean) == (1, 1.5)
    titles = [[line[0] for line in next(grids([Row("run", one)])).rows] for one in (alone, grouped)]
    assert ["rho of applications, max" in found for found in titles] == [False, True]


def test_nothing_has_no_figures() -> None:
    nothing = summarize(result([record(took=None, outcome="infeasible")]))
    assert (nothing.applications, nothing.application_rho_mean, nothing.application_jain) == (0, None, None)
