"""Policies order jobs by what is really left with `--oracle perfect`, by what ended jobs tell with `learned`."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sim import learned
from scheduler.sim.options import Oracle
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork
from tests.profiles import examples
from tests.sim.stories import by_id, ends, job, play

# (submitted, work, GPUs); the third of a second keeps apart what sums of whole seconds would make equal.
JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 3)),
    min_size=2,
    max_size=8,
    unique_by=lambda one: one[1],
)


def worlds(drawn: list[tuple[int, int, int]], speed: float) -> list[TraceJob]:
    """The drawn jobs in a world whose GPUs and arrivals are so much slower."""
    return [
        job(number, at=(at + work / 97) / speed, gpus=gpus, work=FixedWork(float(work), {"A100": speed}))
        for number, (at, work, gpus) in enumerate(sorted(drawn), start=1)
    ]


def shortest_remaining_first(jobs: list[TraceJob], speed: float, machines: int) -> dict[int, float]:
    """The end of each job of one GPU if at any time the ones with the least work left run; by brute force."""
    left = {one.id: one.work.remaining_s(0.0) for one in jobs}
    arrivals = {one.id: one.submitted_s for one in jobs}
    now, ended = 0.0, dict[int, float]()
    while left:
        here = sorted((left[number], arrivals[number], number) for number in left if arrivals[number] <= now)[:machines]
        runs = [number for _, _, number in here]
        moments = [now + left[number] / speed for number in runs]
        moments += [at for number, at in arrivals.items() if at > now and number in left]
        following = min(moments)
        for number in runs:
            left[number] -= (following - now) * speed
            if left[number] < 1e-9:
                ended[number] = following
                del left[number]
        now = following
    return ended


@given(drawn=JOBS)
def test_srtf_on_slow_gpus_is_true_srtf(drawn: list[tuple[int, int, int]]) -> None:
    jobs = worlds([(at, work, 1) for at, work, _ in drawn], 0.1)
    expected = shortest_remaining_first(jobs, 0.1, machines=2)
    assert ends(play(jobs, "A100:1x2", policy="srtf")) == pytest.approx(expected)


@pytest.mark.parametrize("policy", ["sjf", "srtf", "srsf", "qssf", "tetris"])
@given(drawn=JOBS)
@settings(max_examples=examples(60))
def test_a_world_that_is_ten_times_slower_has_the_same_schedule(policy: str, drawn: list[tuple[int, int, int]]) -> None:
    slow, fast = (play(worlds(drawn, speed), policy=policy) for speed in (0.1, 1.0))
    assert ends(slow) == pytest.approx(
        {number: 10 * ended for number, ended in ends(fast).items() if ended is not None}
    )
    assert [one.preemptions for one in slow.records] == [one.preemptions for one in fast.records]


def test_a_job_that_is_slow_in_this_cluster_is_not_the_shorter_one() -> None:
    # On A100s the first needs 100 s and the second 20 s; on the GPUs of their predictions it is 10 s and 20 s.
    slow = job(1, gpus=4, work=FixedWork(10.0, {"A100": 0.1, "H100": 1.0}))
    jobs = [job(9, gpus=4, runs=1), slow, job(3, gpus=4, runs=20)]
    assert ends(play(jobs, policy="sjf"))[3] == 21


def test_a_job_on_slow_gpus_is_not_preempted_for_one_that_would_need_longer_there() -> None:
    # The first has 5 s of work left on an H100 when the second comes, which needs 6 s on one: nothing is gained.
    rates = {"A100": 0.1, "H100": 1.0}
    jobs = [
        job(1, runs=1000, gpu_type="H100", preemptible=False),
        job(2, work=FixedWork(10.0, rates)),
        job(3, at=50, work=FixedWork(6.0, rates)),
    ]
    result = play(jobs, "A100:1x1,H100:1x1", policy="srtf")
    assert by_id(result)[2].preemptions == 0
    assert ends(result)[2] == 100


def test_run_times_are_learned_from_the_jobs_alike_that_have_ended() -> None:
    # Three jobs come at 200, when one alike of each of the first two has ended: only their limits say otherwise.
    jobs = [
        job(1, gpus=2, runs=90, name="long"),
        job(2, gpus=2, runs=5, name="short"),
        job(3, at=100, gpus=4, runs=100, name="other"),
        job(4, at=110, gpus=2, runs=90, name="long", time_limit_s=100),
        job(5, at=111, gpus=2, runs=5, name="short", time_limit_s=1000),
    ]
    owned = [replace(one, owner=one.name) for one in jobs]
    for those in (jobs, owned):
        result = play(those, "A100:1x4", policy="sjf", oracle=Oracle.LEARNED)
        started = {one.id: one.started_s for one in result.records}
        assert (started[5], started[4]) == (200, 200)


def test_a_waiting_job_gets_a_history_when_the_first_job_alike_ends() -> None:
    # Before job 1 ends only the limits are known, by which job 3 would be before job 2.
    jobs = [
        job(1, gpus=4, runs=10, name="sweep", owner="ada", time_limit_s=1000),
        job(2, at=1, gpus=4, runs=10, name="sweep", owner="ada", time_limit_s=1000),
        job(3, at=1, gpus=4, runs=90, name="other", owner="bob", time_limit_s=100),
    ]
    assert ends(play(jobs, policy="sjf", oracle=Oracle.LEARNED)) == {1: 10, 2: 20, 3: 110}


def test_a_job_that_outlives_its_prediction_is_expected_to_take_longer() -> None:
    # Without corrections the first, expected to take 10 s, would be next to end for ever.
    jobs = [
        job(1, gpus=4, runs=1000, owner="ada", expected_s=10),
        job(2, at=490, gpus=4, runs=5, owner="bob", expected_s=5),
    ]
    assert ends(play(jobs, policy="srtf", oracle=Oracle.LEARNED)) == {1: 1005, 2: 495}


def test_of_two_jobs_the_one_that_may_take_longer_waits() -> None:
    # Both kinds have the same geometric mean.
    past = [(1, 100.0, "steady"), (2, 100.0, "steady"), (3, 100.0, "steady")]
    past += [(4, 10.0, "wild"), (5, 1000.0, "wild"), (6, 100.0, "wild")]
    jobs = [job(number, at=number, gpus=4, runs=runs, name=name, owner="ada") for number, runs, name in past]
    jobs.append(job(7, at=2000, gpus=4, runs=500, name="other", owner="bob"))
    jobs.append(job(8, at=2001, gpus=4, runs=100, name="wild", owner="ada"))
    jobs.append(job(9, at=2002, gpus=4, runs=100, name="steady", owner="ada"))
    result = play(jobs, policy="sjf", oracle=Oracle.LEARNED)
    assert ends(result)[9] < ends(result)[8]


def test_an_owner_gains_nothing_by_scaling_all_estimates() -> None:
    def jct_s(factor: float) -> float:
        return fmean(
            one.ended_s - one.submitted_s
            for one in play(shared(factor), "A100:1x4", policy="sjf", oracle=Oracle.LEARNED).records
            if one.ended_s is not None and one.owner == "owner-0"
        )

    honest = jct_s(1.0)
    for factor in (0.1, 10.0):
        assert jct_s(factor) > 0.99 * honest


def shared(factor: float) -> list[TraceJob]:
    """The jobs of four owners on a busy cluster; the first scales the estimates, which are good otherwise."""
    draw, at, jobs = Random(3), 0.0, list[TraceJob]()
    for number in range(1, 601):
        owner, at = draw.randrange(4), at + draw.expovariate(1 / 150)
        kind = draw.randrange(3)
        runs = 60.0 * 6**kind * math.exp(draw.gauss(0, 0.4))
        told_s = 60.0 * 6**kind * (factor if owner == 0 else 1.0)
        jobs.append(
            job(number, at=at, gpus=1, runs=runs, owner=f"owner-{owner}", name=f"run-{number}", expected_s=told_s)
        )
    return jobs


def test_trees_are_fitted_in_simulated_time_and_give_the_same_result_again() -> None:
    fits: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        real = learned.train
        patch.setattr(learned, "train", lambda runs, now: fits.append(len(runs)) or real(runs, now=now))
        first = play(shared(1.0), "A100:1x4", policy="srtf", oracle=Oracle.LEARNED)
    assert fits == [200, 300, 450]
    again = play(shared(1.0), "A100:1x4", policy="srtf", oracle=Oracle.LEARNED)
    assert ends(first) == ends(again)
