"""The figures of a run, on records whose figures can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.metrics import INFEASIBLE, SIZES, isolated_s, jain, rho_cluster, rho_quota, summarize
from scheduler.sim.result import JobRecord
from tests.sim.records import record, result


def test_completion_times_have_a_mean_a_median_and_a_99th_percentile() -> None:
    summary = summarize(result([record(number, at=50 * number, took=number) for number in range(1, 102)]))
    assert summary.jct_mean_s == 51
    assert summary.jct_p50_s == 51
    assert summary.jct_p99_s == 100  # of 1 … 101, by linear interpolation between ranks


def test_utilization_is_the_time_that_gpus_were_held_over_the_time_that_there_was() -> None:
    assert summarize(result([record()], gpus=4, busy_gpu_s=200.0, makespan_s=100.0)).utilization == 0.5


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"contention": 1.0}, 100, id="alone in the cluster: as long as its work"),
        pytest.param({"contention": 2.0}, 100, id="half of 8 GPUs are all of the 4 that it asks for"),
        pytest.param({"contention": 8.0}, 400, id="an eighth of 8 GPUs is a quarter of what it asks for"),
        pytest.param({"contention": 1.0, "gpus": 16}, 200, id="it asks for twice the cluster"),
    ],
)
def test_alone_a_job_has_its_share_of_the_cluster(fields: dict[str, Any], expected: float) -> None:
    assert isolated_s(record(**({"gpus": 4, "alone_s": 100.0} | fields)), cluster_gpus=8) == expected


def test_rho_is_the_completion_time_over_that_alone() -> None:
    slowed = record(took=300.0, gpus=4, alone_s=100.0, contention=1.0)
    helped = record(took=300.0, gpus=4, alone_s=100.0, contention=12.0)
    assert rho_cluster(slowed, 8) == 3
    assert rho_cluster(helped, 8) == 0.5
    summary = summarize(result([slowed, helped], gpus=8))
    assert (summary.rho_mean, summary.rho_max) == (1.75, 3)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"quota_gpus": 8}, 3, id="its quota has room for it"),
        pytest.param({"quota_gpus": 8, "vc_contention": 4.0}, 1.5, id="it shares its quota with three jobs"),
        pytest.param({"quota_gpus": 2}, 1.5, id="it asks for twice its quota"),
        pytest.param({"quota_gpus": 1, "contention": 9.0}, 0.75, id="it gained by what others left"),
        pytest.param({"quota_gpus": 0}, None, id="it has no quota"),
        pytest.param({"quota_gpus": 8, "took": None}, None, id="not ended"),
    ],
)
def test_rho_of_the_quota_knows_only_the_own_virtual_cluster(fields: dict[str, Any], expected: float | None) -> None:
    assert rho_quota(record(**({"took": 300.0, "gpus": 4, "alone_s": 100.0} | fields))) == expected


def test_each_virtual_cluster_has_both_ratios() -> None:
    slow = record(1, took=300.0, alone_s=100.0, vc="b", quota_gpus=1)
    fast = record(2, took=100.0, alone_s=100.0, vc="a", quota_gpus=1, vc_contention=2.0)
    summary = summarize(result([slow, fast], gpus=4))
    ratios = [
        (one.vc, one.jobs, one.rho_cluster_mean, one.rho_cluster_max, one.rho_quota_mean, one.rho_quota_max)
        for one in summary.by_vc
    ]
    assert ratios == [("a", 1, 1, 1, 0.5, 0.5), ("b", 1, 3, 3, 3, 3)]
    assert (summary.rho_quota_mean, summary.rho_quota_max) == (1.75, 3)


def test_a_short_job_does_not_dominate_the_ratios_with_a_floor() -> None:
    """Jobs of one second, and of ten minutes, each after a wait of ten minutes."""
    short, long = record(1, took=601.0, alone_s=1.0), record(2, took=1200.0, alone_s=600.0)
    summary = summarize(result([short, long], gpus=8))
    assert (summary.rho_mean, summary.rho_max) == (301.5, 601)
    ratios = (summary.rho_bounded_mean, summary.rho_bounded_p50, summary.rho_bounded_max)
    assert ratios == (pytest.approx(6.0, abs=0.01), pytest.approx(6.0, abs=0.01), pytest.approx(601 / 60))


def test_each_virtual_cluster_has_its_delays_and_its_use() -> None:
    ended = record(1, took=100.0, gpus=2, quota_gpus=4, fair_share_delay_s=30.0, fragmentation_delay_s=10.0)
    runs_on = record(2, took=None, gpus=2, quota_gpus=4, preemptions=3)
    ended.service_gpu_s, runs_on.service_gpu_s = 120.0, 60.0
    one = result([ended, runs_on], gpus=8)
    one.makespan_s = 100.0
    (vc,) = summarize(one).by_vc
    assert (vc.jobs, vc.jct_mean_s, vc.fair_share_delay_mean_s, vc.fragmentation_delay_mean_s) == (1, 100, 30, 10)
    assert (vc.preemptions, vc.gpu_hours, vc.quota_gpus, vc.quota_use) == (3, 0.05, 4, 0.45)


@pytest.mark.parametrize(
    "without",
    [
        pytest.param({"took": None, "alone_s": 5.0}, id="not ended"),
        pytest.param({"alone_s": 0.0}, id="no work"),
        pytest.param({"took": 0.0, "alone_s": 5.0}, id="no time"),
    ],
)
def test_a_job_without_a_ratio_has_no_rho(without: dict[str, Any]) -> None:
    assert rho_cluster(record(**without), 4) is None
    assert summarize(result([record(**without)])).rho_max is None


def test_jains_index_is_over_one_by_rho() -> None:
    # 1/rho = 1 and 1/3: (4/3)² ÷ (2 · 10/9) = 0.8
    jobs = [record(1, took=100.0, alone_s=100.0), record(2, took=300.0, alone_s=100.0)]
    assert summarize(result(jobs)).jain == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("values", "index"),
    [
        pytest.param([2.0, 2.0, 2.0], 1.0, id="all have the same"),
        pytest.param([5.0, 0.0, 0.0, 0.0], 0.25, id="one has everything"),
        pytest.param([], None, id="no values"),
        pytest.param([0.0, 0.0], None, id="all zero"),
    ],
)
def test_jains_index_tells_equal_from_unequal(values: list[float], index: float | None) -> None:
    assert jain(values) == index


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=30), st.floats(0.1, 10))
def test_jains_index_is_between_one_nth_and_one_and_has_no_unit(values: list[float], factor: float) -> None:
    index = jain(values)
    assert index is not None
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert jain([factor * value for value in values]) == pytest.approx(index)


def test_delays_are_kept_apart_by_reason_and_by_size() -> None:
    sizes = [(1, 10.0, 1.0), (2, 20.0, 2.0), (4, 40.0, 4.0), (5, 0.0, 5.0), (8, 0.0, 8.0), (9, 90.0, 0.0)]
    jobs = [
        record(number, gpus=gpus, fair_share_delay_s=fair, fragmentation_delay_s=fragmented)
        for number, (gpus, fair, fragmented) in enumerate(sizes, start=1)
    ]
    summary = summarize(result(jobs))
    assert (summary.queueing.fair_share_delay_s, summary.queueing.fragmentation_delay_s) == (160, 20)
    assert [size.gpus for size in summary.by_size] == ["1", "2-4", "5-8", ">8"]
    assert [size.jobs for size in summary.by_size] == [1, 2, 2, 1]
    assert [size.fair_share_delay_mean_s for size in summary.by_size] == [10, 30, 0, 90]
    assert [size.fragmentation_delay_mean_s for size in summary.by_size] == [1, 3, 6.5, 0]


def test_a_size_without_jobs_has_no_mean() -> None:
    empty = summarize(result([record(gpus=1)])).by_size[3]
    assert (empty.jobs, empty.fair_share_delay_mean_s, empty.fragmentation_delay_mean_s) == (0, None, None)


def test_gpu_time_and_what_was_lost_of_it_are_in_hours() -> None:
    jobs = [record(1, service_gpu_s=7200.0, overhead_gpu_s=1800.0), record(2, service_gpu_s=3600.0)]
    summary = summarize(result(jobs))
    assert (summary.gpu_hours, summary.lost_gpu_hours) == (3, 0.5)


def test_preemptions_and_moves_count_for_jobs_that_have_not_ended_too() -> None:
    jobs = [record(1, preemptions=2, moves=1), record(2, took=None, preemptions=3, moves=4)]
    summary = summarize(result(jobs))
    assert (summary.preemptions, summary.moves, summary.jobs, summary.unfinished) == (5, 5, 2, 1)


def test_a_job_that_could_never_run_counts_nowhere() -> None:
    summary = summarize(result([record(1), record(2, took=None, outcome=INFEASIBLE)]))
    assert (summary.jobs, summary.unfinished, summary.infeasible) == (1, 0, 1)


def test_a_run_without_jobs_has_no_figures() -> None:
    summary = summarize(result([]))
    assert summary.jobs == 0
    assert {summary.jct_mean_s, summary.jct_p50_s, summary.jct_p99_s, summary.utilization, summary.jain} == {None}


times = st.floats(0.0, 1e6)


@st.composite
def ended(draw: st.DrawFn) -> JobRecord:
    return record(
        at=draw(times),
        took=draw(times),
        gpus=draw(st.integers(0, 20)),
        alone_s=draw(times),
        fair_share_delay_s=draw(times),
        fragmentation_delay_s=draw(times),
        contention=draw(st.floats(1, 50)),
    )


@given(st.lists(ended(), max_size=20), st.randoms())
def test_the_order_of_the_jobs_does_not_matter(records: list[JobRecord], random: Any) -> None:
    shuffled = list(records)
    random.shuffle(shuffled)
    assert summarize(result(records)) == summarize(result(shuffled))


@given(st.lists(ended(), max_size=20))
def test_every_job_has_exactly_one_size(records: list[JobRecord]) -> None:
    summary = summarize(result(records))
    assert len(summary.by_size) == len(SIZES)
    assert sum(size.jobs for size in summary.by_size) == summary.queueing.jobs == len(records)
    together = sum(size.fair_share_delay_s for size in summary.by_size)
    assert together == pytest.approx(summary.queueing.fair_share_delay_s)


@given(ended(), st.floats(1.0, 100.0))
def test_who_takes_longer_is_treated_no_fairer(job: JobRecord, more_s: float) -> None:
    before = rho_cluster(job, 8)
    later = rho_cluster(replace(job, ended_s=(job.ended_s or 0.0) + more_s), 8)
    assert before is None or (later is not None and later >= before)


def test_a_deadline_is_missed_by_a_job_that_ends_after_it_or_never() -> None:
    due = [record(number, took=100, deadline_s=at) for number, at in ((1, 100.0), (2, 99.0), (3, None))]
    summary = summarize(result([*due, replace(record(4, deadline_s=1e9), ended_s=None)]))
    assert (summary.deadlines, summary.missed_deadlines) == (3, 2)
