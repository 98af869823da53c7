"""Resizes that do not come back: the job goes on in its former size, and is not resized again for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.common.clock import database_now
from muster.dispatch.models import PolicyState
from muster.dispatch.reaper import reap
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.attempt.resizes import BACK_OFF_S, FailedResize, failed_resize_from
from muster.jobs.models import Attempt, Job
from muster.jobs.services import cancel_job
from muster.samples.models import Speed
from scheduler.model.reasons import Reason
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    kinds,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    ranks,
    run,
    start,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

ELASTIC: dict[str, Any] = {
    "gpus": "A100:2",
    "elastic": {"min": 1, "max": 4},
    "checkpoint": {"grace": "20s"},
    "expected": "10h",
    "retry": {"max": 0},
}
BROKEN = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"


@pytest.fixture
def world() -> World:
    """One node with four GPUs, whose policy resizes jobs."""
    return make_world(gpus=4, policy="optimus")


@pytest.fixture
def grown(world: World) -> Attempt:
    """The placed attempt of a job that grows from 2 to 4 GPUs."""
    other = start(world, gpus=2)
    attempt = start(world, **ELASTIC)
    end(ranks(other)[0])
    cycle(world)
    end(ranks(attempt)[0], Reason.PREEMPTED)
    cycle(world)
    return live_attempt(attempt.job)


def runs(attempt: Attempt) -> Attempt:
    """The attempt, which its agents have started."""
    for allocation in ranks(attempt):
        run(claim(allocation))
    attempt.refresh_from_db()
    return attempt


def progress(attempt: Attempt, *, grew: bool, step_s: float = 1.0) -> None:
    """The attempt has told a number, which has grown in four steps or not at all."""
    now = database_now()
    Speed.objects.create(
        attempt=attempt,
        gpu_type="A100",
        gpus=attempt.gpus_total,
        at=now,
        count=5.0,
        beside=[],
        since=now - timedelta(seconds=4 * step_s) if grew else None,
        first=1.0,
        steps=4 if grew else 0,
    )


def former(grown: Attempt) -> Attempt:
    return Attempt.objects.get(job=grown.job, number=grown.number - 1)


def failed(job: Job) -> FailedResize:
    return failed_resize_from(now_of(job).failed_resize)


@pytest.mark.parametrize(
    ("reason", "started", "because"),
    [
        (Reason.LAUNCH_FAILED, False, "Could not be started: no such file"),
        (Reason.EXIT_NONZERO, True, "Exit code 1: no such file"),
    ],
)
def test_a_job_that_fails_before_its_first_progress_goes_on_in_its_former_size(
    world: World, grown: Attempt, reason: Reason, started: bool, because: str
) -> None:
    job = grown.job
    if started:
        runs(grown)
    else:
        claim(ranks(grown)[0])
    end(ranks(grown)[0], reason, started=started, detail="no such file")
    assert (now_of(job).state, now_of(job).retries_used) == ("queued", 0)
    assert "job.resize_failed" in kinds(job)
    told = failed(job)
    assert (told.before, told.wanted, told.because, told.count) == (2, 4, because, 1)
    assert told.until - told.at == BACK_OFF_S
    cycle(world)
    assert live_attempt(job).request.first.gpus == 2
    runs(live_attempt(job))
    cycle(world)
    assert live_attempt(job).state == "running"
    assert pool_snapshot(world.pool, seed=0).running_by_job[job.pk].job.request.elastic is None
    assert pool_snapshot(world.pool, seed=0).running_by_job[job.pk].job.fixed_until == told.until
    assert PolicyState.objects.get(pool=world.pool).wake_at == datetime.fromtimestamp(told.until, UTC)
    Job.objects.filter(pk=job.pk).update(failed_resize={**told.stored(), "until": told.at})
    cycle(world)
    assert live_attempt(job).reason_detail == "its size changes from 2 to 4 GPUs"


def test_a_job_that_fails_at_once_in_a_size_that_it_did_not_ask_for_gets_the_one_that_it_asks_for(world: World) -> None:
    attempt = start(world, **ELASTIC)
    assert attempt.gpus_total == 4
    end(ranks(attempt)[0], Reason.EXIT_NONZERO)
    assert (failed(attempt.job).before, failed(attempt.job).wanted) == (2, 4)
    cycle(world)
    second = runs(live_attempt(attempt.job))
    assert second.gpus_total == 2
    end(ranks(second)[0], Reason.EXIT_NONZERO)
    assert (now_of(attempt.job).state, failed(attempt.job).count) == ("failed", 1)


def test_a_job_over_its_gang_goes_on_on_its_former_number_of_nodes() -> None:
    world = make_world(nodes=2, gpus=4, policy="optimus")
    other = start(world, gpus=3)
    gang = {**ELASTIC, "elastic": {"min": 1, "max": 8, "over": "gang"}}
    attempt = start(world, **gang)
    assert (attempt.gpus_total, attempt.request.nodes) == (4, 1)
    end(ranks(other)[0])
    cycle(world)
    end(ranks(attempt)[0], Reason.PREEMPTED)
    cycle(world)
    grown = live_attempt(attempt.job)
    assert (grown.gpus_total, grown.request.nodes) == (8, 2)
    for allocation in ranks(runs(grown)):
        end(allocation, Reason.EXIT_NONZERO)
    told = failed(attempt.job)
    assert (told.before, told.nodes, told.wanted) == (4, 1, 8)
    cycle(world)
    third = live_attempt(attempt.job)
    assert (third.number, third.gpus_total, third.request.nodes) == (3, 4, 1)


def test_each_failed_resize_doubles_the_pause(grown: Attempt) -> None:
    job = grown.job
    before = FailedResize(before=2, wanted=4, at=0.0, because="x", until=0.0, count=3)
    Job.objects.filter(pk=job.pk).update(failed_resize=before.stored())
    end(ranks(runs(grown))[0], Reason.EXIT_NONZERO)
    told = failed(job)
    assert (told.count, told.until - told.at) == (4, 8 * BACK_OFF_S)


def test_a_broken_checkpoint_is_the_failure_of_the_job(grown: Attempt) -> None:
    job = grown.job
    end(ranks(runs(grown))[0], Reason.EXIT_NONZERO, tail=f"{BROKEN}\n")
    assert (now_of(job).state, now_of(job).failed_resize) == ("failed", None)
    assert (now_of(job).failure or {})["class"] == "checkpoint_error"


def test_what_fails_after_its_first_progress_fails_as_any_job(grown: Attempt) -> None:
    progress(former(grown), grew=True)
    progress(runs(grown), grew=True)
    end(ranks(grown)[0], Reason.EXIT_NONZERO)
    assert (now_of(grown.job).state, now_of(grown.job).failed_resize) == ("failed", None)


def test_a_job_that_reports_no_progress_has_come_back_after_ten_minutes(grown: Attempt) -> None:
    let_pass(700, runs(grown), "running_at", "starting_at", "placed_at")
    end(ranks(grown)[0], Reason.EXIT_NONZERO)
    assert now_of(grown.job).state == "failed"


def test_a_node_that_is_lost_says_nothing_of_the_size(grown: Attempt) -> None:
    end(ranks(runs(grown))[0], Reason.TIME_LIMIT)
    assert now_of(grown.job).failed_resize is None


def test_a_cancelled_job_stays_cancelled(world: World, grown: Attempt) -> None:
    runs(grown)
    cancel_job(user=world.user, job=grown.job)
    end(ranks(grown)[0], Reason.EXIT_NONZERO)
    assert (now_of(grown.job).state, now_of(grown.job).failed_resize) == ("cancelled", None)


@pytest.mark.parametrize(("step_s", "state"), [(1.0, "stopping"), (400.0, "running")], ids=["quick", "slow"])
def test_a_resized_job_that_makes_no_progress_is_stopped_for_its_former_size(
    world: World, grown: Attempt, step_s: float, state: str
) -> None:
    progress(former(grown), grew=True, step_s=step_s)
    progress(runs(grown), grew=False)
    reap(world.pool)
    grown.refresh_from_db()
    assert grown.state == "running"
    let_pass(700, grown, "running_at", "starting_at", "placed_at")
    reap(world.pool)
    grown.refresh_from_db()
    assert grown.state == state
    if state == "stopping":
        end(ranks(grown)[0], Reason.KILLED_BY_SIGNAL)
        told = failed(grown.job)
        assert (told.before, told.because) == (2, "it made no progress in 12 minutes")
        assert (now_of(grown.job).state, now_of(grown.job).retries_used) == ("queued", 0)


def test_a_job_that_never_reported_progress_is_not_stopped(world: World, grown: Attempt) -> None:
    let_pass(7000, runs(grown), "running_at", "starting_at", "placed_at")
    reap(world.pool)
    grown.refresh_from_db()
    assert grown.state == "running"
