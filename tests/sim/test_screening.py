"""Gangs are screened on a small pool first: what that catches, saves, costs and delays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.arguments import Arguments, UsageError, prepare
from scheduler.sim.failures import FAILED, SUCCEEDED, FailureClass, Failures, attempted
from scheduler.sim.generators import generate
from scheduler.sim.metrics import Summary, summarize
from scheduler.sim.screening import Screening, screening_runs
from scheduler.sim.times import CAUSES, Cause, caught_share, cause_at
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork
from tests.sim.stories import by_id, job, play

POOL = Screening(gpus=2)
MINUTE = 60.0


def gang(number: int, minutes: float, *, failure: str = "", at: float = 0.0, **fields: Any) -> TraceJob:
    """A job of 8 GPUs that ends, or fails, after `minutes` minutes."""
    status = FAILED if failure else SUCCEEDED
    made = job(number, runs=minutes * MINUTE, gpus=8, at=at, status=status)
    return replace(made, failure=failure, **fields)


def figures(*jobs: TraceJob, pool: Screening | None = POOL, **options: Any) -> Summary:
    return summarize(play(list(jobs), "V100:2x8", failures=Failures.TRACE, screening=pool, **options))


@pytest.fixture(autouse=True)
def _classes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs fail in the class that a test sets, not in a drawn one."""
    monkeypatch.setattr("scheduler.sim.failures._classified", lambda trace, *_: trace)


def test_a_gang_that_fails_soon_never_gets_to_the_cluster() -> None:
    found = figures(gang(1, 3, failure=FailureClass.HOPELESS))
    assert (found.screened, found.caught, found.failed, found.gpu_hours) == (1, 1, 1, 0)
    assert found.screening_gpu_hours == pytest.approx(2 * 3 / 60)
    assert found.saved_gpu_hours == pytest.approx(8 * 3 / 60 * 2)  # the gang would have run twice
    assert found.jct_mean_s == 3 * MINUTE


def test_one_that_fails_late_passes_and_fails_there() -> None:
    found = figures(gang(1, 30, failure=FailureClass.HOPELESS), retries=0)
    assert (found.caught, found.failed, found.saved_gpu_hours, found.saveable_gpu_hours) == (0, 1, 0, 0)
    assert found.failed_gpu_hours == pytest.approx(8 * 30 / 60)


def test_a_job_that_passes_waits_for_its_screening_run_and_keeps_its_place() -> None:
    record = by_id(play([gang(1, 20)], "V100:1x8", screening=POOL))[1]
    assert (record.submitted_s, record.started_s, record.ended_s) == (0, 5 * MINUTE, 25 * MINUTE)
    assert record.screening_s == 5 * MINUTE


def test_a_short_job_that_succeeds_is_run_again_in_full() -> None:
    record = by_id(play([gang(1, 2)], "V100:1x8", screening=POOL))[1]
    assert (record.started_s, record.ended_s, record.screening_gpu_s) == (2 * MINUTE, 4 * MINUTE, 2 * 2 * MINUTE)


def test_a_transient_failure_that_is_caught_is_healed_by_the_next_attempt() -> None:
    found = figures(gang(1, 3, failure=FailureClass.TRANSIENT))
    assert (found.caught, found.failed, found.retries) == (1, 0, 1)
    assert found.gpu_hours == pytest.approx(8 * 3 / 60)


def test_a_class_that_needs_its_gang_is_not_seen_but_could_have_been_saved() -> None:
    found = figures(gang(1, 3, failure=FailureClass.HOPELESS, cause="mpi_error"), retries=0)
    assert (found.screened, found.caught, found.saved_gpu_hours) == (1, 0, 0)
    assert found.saveable_gpu_hours == pytest.approx(8 * 3 / 60)


def test_small_jobs_are_not_screened() -> None:
    found = figures(job(1, runs=60.0, gpus=2, status=FAILED))
    assert (found.screened, found.caught, found.screening_delay_p50_s) == (0, 0, None)


def test_the_pool_is_first_come_first_served_and_has_a_limit_of_patience() -> None:
    jobs = tuple(gang(number, 60) for number in (1, 2, 3, 4))
    found = screening_runs(Trace("four", jobs), Screening(gpus=2, max_wait_s=600))
    assert [(found[n].started_s, found[n].over_s, found[n].ranks) for n in (1, 2, 3, 4)] == [
        (0, 300, 2),
        (300, 600, 2),
        (600, 900, 2),
        (600, 600, 0),
    ]
    assert figures(*jobs).unscreened == 1


def test_where_one_gpu_is_free_one_rank_is_screened() -> None:
    found = screening_runs(Trace("two", (gang(1, 60), gang(2, 60))), Screening(gpus=3))
    assert (found[1].ranks, found[2].ranks, found[2].started_s) == (2, 1, 0)


def test_without_screening_nothing_is_told_of_it() -> None:
    found = figures(gang(1, 3), pool=None)
    assert (found.screened, found.caught, found.unscreened, found.screening_gpu_hours) == (0, 0, 0, 0)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_times_to_failure_go_through_the_published_percentiles(cause: Cause) -> None:
    for share, minutes in ((0.5, cause.p50_min), (0.9, cause.p90_min), (0.95, cause.p95_min)):
        assert cause.time_s(share) == pytest.approx(minutes * MINUTE, rel=1e-9)


@given(cause=st.sampled_from(CAUSES), low=st.floats(0, 1), high=st.floats(0, 1))
def test_times_to_failure_grow_with_the_quantile_and_are_finite(cause: Cause, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert 0 <= cause.time_s(low) <= cause.time_s(high) <= 60 * 86_400


def test_causes_are_drawn_as_often_as_they_were() -> None:
    jobs = sum(cause.jobs for cause in CAUSES)
    drawn = [cause_at(number / 10_000).name for number in range(10_000)]
    for cause in CAUSES:
        assert drawn.count(cause.name) / 10_000 == pytest.approx(cause.jobs / jobs, abs=2e-4)


def test_the_table_allows_screening_what_is_drawn_from_it() -> None:
    trace = generate("philly", {"jobs": 6_000}, 3)
    timed = attempted(trace, Failures.PHILLY_TIMES, seed=3)
    failed = [one for one in timed.jobs if one.status == FAILED]
    soon = [one for one in failed if one.work.alone_s() <= 300 and not one.cause.startswith("mpi")]
    assert len(soon) / len(failed) == pytest.approx(caught_share(300), abs=0.05)
    assert all(isinstance(one.work, FixedWork) for one in failed)


def test_the_option_is_read_and_what_is_wrong_with_it_is_named() -> None:
    asked = Arguments(generate="philly:jobs=20", cluster="V100:4x8", policies=["fifo"], screening="gpus=4,minutes=2.5")
    assert prepare(asked).runs[0][1].screening == Screening(gpus=4, minutes=2.5)
    for text, complaint in {
        "minutes=5": "--screening: give the number of GPUs of the pool",
        "gpus=0": "--screening: gpus must be at least 1, not 0",
        "gpus=1.5": "--screening: gpus must be a whole number, not 1.5",
        "gpus=2,world=3": "--screening: world cannot be 3",
        "gpus=2,minute=3": "--screening: unknown setting 'minute'; did you mean 'minutes'?",
    }.items():
        with pytest.raises(UsageError, match=complaint.replace("?", r"\?")):
            prepare(replace(asked, screening=text))
