"""Two jobs on one GPU in the simulator: their speeds, which jobs are paired, and how a bad pair ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sim.applications.throughputs import Throughputs
from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.result import Result
from scheduler.sim.sharing import Sharing
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import StepsWork
from tests.profiles import examples
from tests.sim.stories import by_id, ends, job, play

ALONE_ON_IT = {"gpu_memory_mib": 8_000}
NO_TURNS = {"slice_s": None, "introspect_s": None}


def gandiva(jobs: list[TraceJob], cluster: str = "A100:1x1", **params: Any) -> Result:
    options = Options(policy="gandiva", policy_params={**NO_TURNS, **params}, share=True, audit_every=1)
    return simulate(Trace("story", tuple(jobs)), parse_cluster(cluster), options)


@pytest.mark.parametrize(
    ("one", "other", "rate"),
    [(0.3, 0.5, 1.0), (0.5, 0.5, 1.0), (0.8, 0.8, 0.625), (None, None, 0.5), (None, 0.25, 0.8), (0.0, 0.0, 1.0)],
)
def test_two_jobs_slow_each_other_down_once_they_want_more_than_there_is(
    one: float | None, other: float | None, rate: float
) -> None:
    first, second = job(1, gpu_utilization=one), job(2, gpu_utilization=other)
    assert Sharing(None).rate(first, second, "A100") == rate == Sharing(None).rate(second, first, "A100")


def test_measured_speeds_precede_estimates() -> None:
    a, b = ("A", 1), ("B", 1)
    table = Throughputs(
        {a: {"V100": 10.0}, b: {"V100": 4.0}}, {}, {(a, b): {"V100": (6.0, 3.0)}, (b, a): {"V100": (3.0, 6.0)}}
    )
    first, second = job(1, model="A"), job(2, model="B", gpu_utilization=0.2)
    assert Sharing(table).rate(first, second, "V100") == 0.6
    assert Sharing(table).rate(second, first, "V100") == 0.75
    assert Sharing(table).rate(first, second, "P100") == 1 / 1.2  # not measured there


STORIES: Mapping[str, tuple[list[TraceJob], dict[str, Any], dict[int, float]]] = {
    "two that leave room for each other run at full speed": (
        [job(1, runs=100, gpu_utilization=0.4, **ALONE_ON_IT), job(2, at=10, gpu_utilization=0.5, **ALONE_ON_IT)],
        {},
        {1: 100, 2: 110},
    ),
    "two that do not, but get more done together, are slower together": (
        # From 10 on both run at 1 / 1.6; 1 has 90 s of work left, done at 10 + 144, when 2 has done 90 of its 100.
        [job(1, gpu_utilization=0.8, **ALONE_ON_IT), job(2, at=10, gpu_utilization=0.8, **ALONE_ON_IT)],
        {},
        {1: 154, 2: 164},
    ),
    "without sharing one waits for the other": (
        [job(1, gpu_utilization=0.4, **ALONE_ON_IT), job(2, at=10, gpu_utilization=0.5, **ALONE_ON_IT)],
        {"trial_s": None},
        {1: 100, 2: 200},
    ),
    "two whose memory does not fit into one GPU are no pair": (
        [job(1, gpu_utilization=0.1, gpu_memory_mib=9_000), job(2, at=10, gpu_utilization=0.1, gpu_memory_mib=9_000)],
        {},
        {1: 100, 2: 200},
    ),
    "a pair that is no better than turns is undone after its trial, for good": (
        # 10-70 both run at half their speed. Then 2 goes, and begins again where it was when 1 is done:
        # 1 has done 10 + 30 by 70 and ends at 130; 2 has 70 s left.
        [job(1, **ALONE_ON_IT), job(2, at=10, **ALONE_ON_IT)],
        {},
        {1: 130, 2: 200},
    ),
    "the trial is as long as it is told to be": (
        [job(1, **ALONE_ON_IT), job(2, at=10, **ALONE_ON_IT)],
        {"trial_s": 20},
        {1: 110, 2: 200},
    ),
    "a third one takes the place of one that has ended": (
        [
            job(1, runs=50, gpu_utilization=0.4, **ALONE_ON_IT),
            job(2, runs=100, gpu_utilization=0.4, **ALONE_ON_IT),
            job(3, runs=100, gpu_utilization=0.4, **ALONE_ON_IT),
        ],
        {},
        {1: 50, 2: 100, 3: 150},
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_when_jobs_end_that_share_a_gpu(story: tuple[list[TraceJob], dict[str, Any], dict[int, float]]) -> None:
    jobs, params, expected = story
    assert ends(gandiva(jobs, **params)) == pytest.approx(expected)


def test_the_partner_is_the_job_with_the_lowest_utilisation() -> None:
    busy = job(1, runs=1000, gpu_utilization=0.9, **ALONE_ON_IT)
    idle = job(2, runs=1000, gpu_utilization=0.3, **ALONE_ON_IT)
    joins = job(3, at=10, runs=100, gpu_utilization=0.7, **ALONE_ON_IT)
    assert ends(gandiva([busy, idle, joins], "A100:1x2"))[3] == 110


def test_the_later_of_a_pair_goes_to_gpus_of_its_own_once_they_are_idle() -> None:
    pair = [
        job(1, runs=1000, gpu_utilization=0.9, **ALONE_ON_IT),
        job(3, runs=1000, gpu_utilization=0.9, **ALONE_ON_IT),
    ]
    result = gandiva([pair[0], job(2, runs=100, gpu_utilization=1.0), pair[1]], "A100:1x2")
    # Until 100 the two share a GPU, at 1 / 1.8 each; then each has one.
    assert ends(result) == pytest.approx({1: 100 + (1000 - 100 / 1.8), 2: 100, 3: 100 + (1000 - 100 / 1.8)})
    assert by_id(result)[3].moves == 1


def test_a_gpu_that_two_jobs_share_is_busy_once() -> None:
    jobs = [job(number, gpus=2, gpu_utilization=0.4, **ALONE_ON_IT) for number in (1, 2)]
    result = gandiva(jobs, "A100:1x2")
    assert result.busy_gpu_s == 2 * 100
    assert [record.service_gpu_s for record in result.records] == [200, 200]


def test_jobs_share_only_if_the_simulation_allows_it() -> None:
    jobs = [job(number, gpu_utilization=0.4, **ALONE_ON_IT) for number in (1, 2)]
    assert ends(play(jobs, "A100:1x1", policy="gandiva", policy_params=NO_TURNS)) == {1: 100, 2: 200}


def test_a_pair_that_was_never_seen_to_fit_gets_nowhere_until_it_is_undone() -> None:
    a, b = ("A", 1), ("B", 1)
    table = Throughputs(
        {a: {"A100": 1.0}, b: {"A100": 1.0}}, {}, {(a, b): {"A100": (0.0, 0.0)}, (b, a): {"A100": (0.0, 0.0)}}
    )
    jobs = tuple(
        replace(job(number, model=model), work=StepsWork(100, 1, {"A100": 1.0}))
        for number, model in ((1, "A"), (2, "B"))
    )
    options = Options(policy="gandiva", policy_params=NO_TURNS, share=True, audit_every=1)
    result = simulate(Trace("story", jobs, throughputs=table), parse_cluster("A100:1x1"), options)
    assert ends(result) == {1: 160, 2: 260}


@settings(max_examples=examples(40))
@given(
    drawn=st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(1, 3),
            st.integers(1, 400),
            st.sampled_from([None, 0.2, 0.6, 1.0]),
            st.sampled_from([None, 4_000, 9_000]),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    params=st.fixed_dictionaries(
        {
            "slice_s": st.sampled_from([None, 60]),
            "introspect_s": st.sampled_from([None, 50]),
            "trial_s": st.sampled_from([0, 30, 60]),
        }
    ),
    grace_s=st.sampled_from([0.0, 7.0]),
)
def test_all_jobs_end_whichever_share_gpus(
    drawn: list[tuple[Any, ...]], params: dict[str, Any], grace_s: float
) -> None:
    jobs = [
        job(number, at=at, gpus=gpus, runs=runs, gpu_utilization=used, gpu_memory_mib=memory, checkpoints=saves)
        for number, (at, gpus, runs, used, memory, saves) in enumerate(sorted(drawn, key=lambda one: one[0]), start=1)
    ]
    result = play(jobs, "A100:2x2", policy="gandiva", policy_params=params, share=True, grace_s=grace_s, audit_every=1)
    assert not result.unfinished
    assert all(record.ended_s is not None and record.ended_s >= record.submitted_s for record in result.records)
