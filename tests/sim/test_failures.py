"""Jobs fail and are cancelled by published statistics, and are retried where a retry can help."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sim.failures import (
    CANCELLED,
    FAILED,
    STATISTICS,
    SUCCEEDED,
    CalibrationError,
    FailureClass,
    Failures,
    PartOfWork,
    attempted,
    calibrate,
    with_outcomes,
)
from scheduler.sim.generators import generate
from scheduler.sim.metrics import summarize
from scheduler.sim.readers import read_trace
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork
from tests.profiles import examples
from tests.sim.stories import by_id, job, play

PHILLY = STATISTICS[Failures.PHILLY]
DRAWN = [Failures.PHILLY, Failures.PHILLY_PAPER]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return generate("philly", {"jobs": 8000}, 1)


def gpu_s(one: TraceJob) -> float:
    return one.gpus * one.work.alone_s()


def first_of(wanted: FailureClass) -> int:
    """The seed with which job 1 has a failure of this class."""
    trace = Trace("story", (job(1, status=FAILED),))
    return next(seed for seed in range(1000) if attempted(trace, Failures.TRACE, seed).jobs[0].failure == wanted)


def fail(wanted: FailureClass, *, runs: float = 100.0, **options: Any) -> Any:
    """The record of a job that has its run time in two attempts, and fails."""
    jobs = [job(1, runs=runs, gpus=2, status=FAILED, attempts=2)]
    result = play(jobs, failures=Failures.TRACE, seed=first_of(wanted), **options)
    return by_id(result)[1]


# Which jobs fail


@pytest.mark.parametrize("source", DRAWN)
def test_the_expected_parts_of_jobs_and_gpu_time_are_the_published_ones(trace: Trace, source: Failures) -> None:
    propensity = calibrate(trace, STATISTICS[source])
    shares = [propensity.shares(gpu_s(one)) for one in trace.jobs]
    total = sum(map(gpu_s, trace.jobs))
    for index, ending in enumerate(STATISTICS[source].endings):
        by_jobs = sum(share[index] for share in shares) / len(shares)
        by_time = sum(share[index] * gpu_s(one) for share, one in zip(shares, trace.jobs, strict=True)) / total
        assert (by_jobs, by_time) == (pytest.approx(ending.jobs, abs=2e-3), pytest.approx(ending.gpu_time, abs=2e-3))


@pytest.mark.parametrize("source", DRAWN)
def test_the_drawn_parts_of_jobs_are_near_the_published_ones(trace: Trace, source: Failures) -> None:
    drawn = with_outcomes(trace, STATISTICS[source], seed=3)
    for ending in STATISTICS[source].endings:
        # Four standard deviations at this number of draws.
        found = sum(one.status == ending.status for one in drawn.jobs) / len(drawn.jobs)
        assert found == pytest.approx(ending.jobs, abs=4 * (0.25 / len(drawn.jobs)) ** 0.5)


@pytest.mark.parametrize("source", DRAWN)
def test_the_more_gpu_time_a_job_takes_the_less_likely_it_succeeds(trace: Trace, source: Failures) -> None:
    propensity = calibrate(trace, STATISTICS[source])
    chances = [propensity.shares(10.0**power)[propensity.statuses.index(SUCCEEDED)] for power in range(9)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 2 * chances[-1]


def test_one_failed_job_in_eight_is_transient(trace: Trace) -> None:
    failed = [one for one in with_outcomes(trace, PHILLY, seed=0).jobs if one.status == FAILED]
    transient = sum(one.failure == FailureClass.TRANSIENT for one in failed)
    assert transient / len(failed) == pytest.approx(1 / 8, abs=0.03)
    assert all(one.failure for one in failed)


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 1000), kept=st.sets(st.integers(1, 300), min_size=1))
def test_jobs_that_are_added_change_no_end_that_was_drawn(trace: Trace, seed: int, kept: set[int]) -> None:
    some = replace(trace, jobs=trace.jobs[:300])
    propensity = calibrate(trace, PHILLY)
    fewer = replace(some, jobs=tuple(one for one in some.jobs if one.id in kept))
    every = {one.id: one for one in with_outcomes(some, PHILLY, seed, propensity).jobs}
    assert with_outcomes(fewer, PHILLY, seed, propensity).jobs == tuple(every[one.id] for one in fewer.jobs)


def test_another_seed_draws_other_ends(trace: Trace) -> None:
    propensity = calibrate(trace, PHILLY)
    one, other = ([each.status for each in with_outcomes(trace, PHILLY, seed, propensity).jobs] for seed in (0, 1))
    assert one != other


UNFIT = {
    "no job at all": (),
    "a single job": (job(1),),
    "jobs that are all alike": tuple(job(number) for number in range(1, 50)),
    "jobs that take no time": (job(1, runs=0.0), job(2, runs=0.0)),
}


@pytest.mark.parametrize("jobs", UNFIT.values(), ids=UNFIT)
def test_a_trace_that_cannot_come_to_the_shares_is_refused(jobs: tuple[TraceJob, ...]) -> None:
    with pytest.raises(CalibrationError, match="odd"):
        calibrate(Trace("odd", jobs), PHILLY)


def test_what_the_trace_says_is_not_drawn_again() -> None:
    statuses = [SUCCEEDED, CANCELLED, FAILED, ""]
    trace = Trace("story", tuple(job(number, status=status) for number, status in enumerate(statuses, start=1)))
    jobs = attempted(trace, Failures.TRACE, 0).jobs
    assert [one.status for one in jobs] == statuses
    assert [bool(one.failure) for one in jobs] == [False, False, True, False]


def test_without_failures_the_trace_stays_as_it_is(trace: Trace) -> None:
    assert attempted(trace, Failures.NONE, 0) is trace


@given(seconds=st.floats(0, 200), speed=st.floats(0.1, 1))
def test_an_attempt_takes_its_part_of_the_time(seconds: float, speed: float) -> None:
    part = PartOfWork(FixedWork(90.0), 3)
    done = part.advance(0.0, "A100", (1,), speed, seconds)
    assert part.alone_s() == 30.0
    assert part.seconds_left(done, "A100", (1,), speed) == pytest.approx(max(0.0, 30.0 / speed - seconds), abs=1e-6)
    assert part.remaining_s(done) == pytest.approx(max(0.0, 30.0 - seconds * speed), abs=1e-6)


# What happens to failed jobs

ATTEMPTS: dict[str, tuple[FailureClass, dict[str, Any], tuple[str, int, float, float]]] = {
    "a hopeless job fails in every attempt": (FailureClass.HOPELESS, {"retries": 1}, (FAILED, 2, 100.0, 200.0)),
    "and as often as it may": (FailureClass.HOPELESS, {"retries": 3}, (FAILED, 4, 200.0, 400.0)),
    "it is not tried again where that is known": (
        FailureClass.HOPELESS, {"retries": 3, "retry_hopeless": False}, (FAILED, 1, 50.0, 100.0),
    ),
    "a retry heals a transient failure": (FailureClass.TRANSIENT, {"retries": 3}, (SUCCEEDED, 2, 100.0, 100.0)),
    "also where hopeless ones are not retried": (
        FailureClass.TRANSIENT, {"retries": 1, "retry_hopeless": False}, (SUCCEEDED, 2, 100.0, 100.0),
    ),
    "without a retry it has failed": (FailureClass.TRANSIENT, {"retries": 0}, (FAILED, 1, 50.0, 100.0)),
    "the next attempt waits for the back-off": (
        FailureClass.TRANSIENT, {"retries": 1, "retry_after_s": 30.0}, (SUCCEEDED, 2, 130.0, 100.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "expected"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_attempts(kind: FailureClass, options: dict[str, Any], expected: tuple[str, int, float, float]) -> None:
    record = fail(kind, **options)
    assert (record.outcome, record.attempts, record.ended_s, record.failed_gpu_s) == expected


def test_what_failed_attempts_computed_is_not_counted_as_lost_in_restarts_too() -> None:
    record = fail(FailureClass.HOPELESS, retries=1, restart_s=10.0)
    assert (record.failed_gpu_s, record.overhead_gpu_s, record.service_gpu_s) == (200.0, 40.0, 240.0)


def test_a_job_that_rests_waits_for_nothing_and_lets_others_in() -> None:
    jobs = [job(1, gpus=4, status=FAILED, attempts=2), job(2, gpus=4, at=1.0, runs=100.0)]
    options = {"failures": Failures.TRACE, "seed": first_of(FailureClass.TRANSIENT), "retry_after_s": 60.0}
    records = by_id(play(jobs, **options))
    assert (records[2].started_s, records[2].ended_s) == (50.0, 150.0)
    # The job rested from 50 to 110, and waited until 150.
    assert records[1].fair_share_delay_s + records[1].fragmentation_delay_s == 40.0
    assert records[1].ended_s == 200.0


def test_the_policys_own_parameter_refuses_hopeless_retries() -> None:
    record = fail(FailureClass.HOPELESS, retries=3, policy="philly", policy_params={"no_retry_of_hopeless": True})
    assert (record.outcome, record.attempts) == (FAILED, 1)


def test_a_cancelled_job_does_its_work_and_is_not_tried_again() -> None:
    records = by_id(play([job(1, status=CANCELLED)], failures=Failures.TRACE, retries=3))
    assert (records[1].outcome, records[1].attempts, records[1].ended_s) == (CANCELLED, 1, 100.0)
    assert records[1].failed_gpu_s == 0.0


def test_nothing_fails_unless_asked() -> None:
    record = by_id(play([job(1, status=FAILED, attempts=2)]))[1]
    assert (record.outcome, record.ended_s, record.failed_gpu_s) == (FAILED, 100.0, 0.0)


def test_with_the_recorded_retries_the_gpu_time_is_that_of_the_trace() -> None:
    trace = generate("philly", {"jobs": 400}, 2)
    total = sum(map(gpu_s, trace.jobs))
    result = play(trace.jobs, "V100:64x8", failures=Failures.PHILLY, retries=PHILLY.attempts - 1)
    assert sum(record.service_gpu_s for record in result.records) == pytest.approx(total)
    saved = play(trace.jobs, "V100:64x8", failures=Failures.PHILLY, retries=1, retry_hopeless=False)
    assert sum(record.service_gpu_s for record in saved.records) < total


def test_the_summary_tells_what_failures_cost() -> None:
    jobs = [job(1, runs=7200.0, status=FAILED, attempts=2), job(2, status=CANCELLED), job(3)]
    found = summarize(play(jobs, failures=Failures.TRACE, seed=first_of(FailureClass.HOPELESS)))
    assert (found.failed, found.cancelled, found.retries, found.failed_gpu_hours) == (1, 1, 1, 2.0)


def test_a_trace_of_the_platform_says_how_many_attempts_its_run_time_is_of(tmp_path: Path) -> None:
    line = {"submitted_at": "2026-03-01T09:30:00Z", "gpus": 1, "run_s": 90.0, "status": FAILED, "attempts": 3}
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in ({"format": "muster", "version": 1}, line)))
    (found,) = attempted(read_trace(path, "muster"), Failures.TRACE, 0).jobs
    assert (found.attempts, found.work.alone_s()) == (3, 30.0)
