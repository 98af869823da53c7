"""Duties of every executor, and their effects in the platform: told in the words of each."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any
from zlib import crc32

import pytest

from muster.agents.launch import launch_spec
from muster.common.errors import Conflict
from muster.dispatch.apply.apply import apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.execution.port import Port
from muster.fleet.models import Node
from muster.jobs.attempt.attempts import End
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.models import Allocation, Attempt, GpuClaim
from muster.jobs.services import cancel_job
from muster.logs.models import LogFile
from muster.logs.store import Chunk, LogEnd
from muster.monitoring.models import Series
from muster.monitoring.store import curve_of
from scheduler.model.reasons import Reason
from tests.db.execution.executors import EXECUTORS
from tests.db.stories import (
    BOOT,
    World,
    kinds,
    live_attempt,
    make_world,
    now_of,
    place,
    planned_places,
    rank_of,
    ranks,
    states,
    submit,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound", "as_committed")]

FOLDER = Claimant(BOOT, "folder-1")
DONE = End(Reason.COMPLETED, exit_code=0)
FAILED = End(Reason.EXIT_NONZERO, exit_code=3, detail="exit status 3")


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Port:
    return EXECUTORS[request.param]


@pytest.fixture
def world() -> World:
    world = make_world(nodes=3, keep_failed_max_s=1800)
    Node.objects.update(state_id=FOLDER.state_id)
    return world


def begin(executor: Port, world: World, **spec: Any) -> Attempt:
    """An attempt whose ranks run."""
    attempt = place(world, **spec)
    for allocation in ranks(attempt):
        executor.claim(rank_of(allocation), claimant=FOLDER)
        executor.running(rank_of(allocation))
    return attempt


def finish(executor: Port, allocation: Allocation, end: End = DONE, **more: Any) -> None:
    executor.end(rank_of(allocation), claimant=FOLDER, end=end, **more)


def gpus_held(attempt: Attempt) -> int:
    return GpuClaim.objects.filter(allocation__attempt=attempt, released_at__isnull=True).count()


def test_a_gang_runs_once_every_rank_does_and_frees_the_gpus_of_each_rank_as_it_ends(
    executor: Port, world: World
) -> None:
    attempt = place(world, nodes=2, gpus=2)
    first, second = ranks(attempt)
    for allocation in (first, second):
        executor.claim(rank_of(allocation), claimant=FOLDER)
    executor.running(rank_of(first))
    assert states(attempt.job) == ("active", "starting", ["active", "active"])
    executor.running(rank_of(second))
    assert states(attempt.job) == ("active", "running", ["active", "active"])
    finish(executor, first)
    assert (states(attempt.job)[1], gpus_held(attempt)) == ("running", 2)
    finish(executor, second)
    assert (states(attempt.job), gpus_held(attempt)) == (("succeeded", "succeeded", ["released", "released"]), 0)


def test_what_is_told_again_changes_nothing(executor: Port, world: World) -> None:
    attempt = place(world)
    (allocation,) = ranks(attempt)
    for _ in range(2):
        assert executor.claim(rank_of(allocation), claimant=FOLDER).pk == allocation.pk
    for _ in range(2):
        executor.running(rank_of(allocation))
    for _ in range(2):
        finish(executor, allocation)
    told = [kind for kind in kinds(attempt.job) if kind.startswith("attempt.")]
    assert told == ["attempt.placed", "attempt.starting", "attempt.running", "attempt.succeeded"]


def test_another_fencing_token_is_refused_and_changes_nothing(executor: Port, world: World) -> None:
    attempt = place(world)
    (allocation,) = ranks(attempt)
    late = rank_of(allocation, fence=attempt.pk - 1)
    with pytest.raises(Conflict, match="fence"):
        executor.claim(late, claimant=FOLDER)
    executor.claim(rank_of(allocation), claimant=FOLDER)
    with pytest.raises(Conflict, match="fence"):
        executor.running(late)
    with pytest.raises(Conflict, match="fence"):
        executor.end(late, claimant=FOLDER, end=DONE)
    assert states(attempt.job) == ("active", "starting", ["active"])


@pytest.mark.parametrize("other", [Claimant("boot-2", "folder-1"), Claimant(BOOT, "folder-2")])
def test_a_rank_is_of_the_claimant_that_was_first(executor: Port, world: World, other: Claimant) -> None:
    attempt = begin(executor, world)
    (allocation,) = ranks(attempt)
    with pytest.raises(Conflict):
        executor.claim(rank_of(allocation), claimant=other)
    with pytest.raises(Conflict):
        executor.end(rank_of(allocation), claimant=other, end=DONE)
    assert states(attempt.job) == ("active", "running", ["active"])


def test_what_was_never_claimed_cannot_have_run(executor: Port, world: World) -> None:
    attempt = place(world)
    (allocation,) = ranks(attempt)
    executor.running(rank_of(allocation))
    with pytest.raises(Conflict, match="never claimed"):
        finish(executor, allocation)
    assert states(attempt.job) == ("active", "placed", ["reserved"])


def test_the_first_rank_that_fails_stops_the_others_and_the_job_has_its_end(executor: Port, world: World) -> None:
    attempt = begin(executor, world, nodes=2)
    first, second = ranks(attempt)
    finish(executor, second, FAILED)
    assert states(attempt.job) == ("active", "stopping", ["releasing", "released"])
    finish(executor, first, End(Reason.KILLED_BY_SIGNAL, exit_code=143))
    job = now_of(attempt.job)
    assert (job.state, job.reason, job.exit_code) == ("failed", "exit_nonzero", 3)
    assert job.reason_detail == "rank 1: exit status 3"


def test_a_cancelled_job_is_not_started_any_more_and_is_over_when_its_ranks_are(executor: Port, world: World) -> None:
    attempt = place(world, nodes=2)
    first, second = ranks(attempt)
    executor.claim(rank_of(first), claimant=FOLDER)
    cancel_job(user=world.user, job=attempt.job)
    assert states(attempt.job) == ("active", "stopping", ["releasing", "released"])
    with pytest.raises(Conflict, match="must not start"):
        executor.claim(rank_of(second), claimant=FOLDER)
    finish(executor, first, End(Reason.KILLED_BY_SIGNAL, exit_code=143))
    assert states(attempt.job)[:2] == ("cancelled", "cancelled")


def test_what_failed_and_is_kept_goes_on_holding_its_gpus_and_ends_as_it_failed(executor: Port, world: World) -> None:
    attempt = begin(executor, world, keep_failed="30m")
    (allocation,) = ranks(attempt)
    for left_s in (1500.0, 1490.0):
        executor.kept(rank_of(allocation), end=FAILED, left_s=left_s)
    assert (now_of(attempt).kept_until is not None, gpus_held(attempt)) == (True, 1)
    assert kinds(attempt.job).count("attempt.kept") == 1
    finish(executor, allocation, FAILED)
    assert (states(attempt.job)[:2], gpus_held(attempt)) == (("failed", "failed"), 0)


def test_a_rank_that_is_lost_frees_its_gpus_and_a_late_end_changes_nothing(executor: Port, world: World) -> None:
    attempt = begin(executor, world)
    (allocation,) = ranks(attempt)
    rank = rank_of(allocation)
    for lost in (True, False):
        assert lost == executor.lose(
            attempt_id=rank.fence, node_id=rank.node_id, reason=Reason.UNKNOWN, detail="gone", blame=False
        )
    finish(executor, allocation)
    assert (now_of(attempt).state, gpus_held(attempt)) == ("lost", 0)


def test_how_far_a_start_is_is_told_to_people_until_the_rank_has_ended(executor: Port, world: World) -> None:
    attempt = begin(executor, world)
    (allocation,) = ranks(attempt)
    executor.progress(rank_of(allocation), text="pulls the image")
    finish(executor, allocation)
    executor.progress(rank_of(allocation), text="pulls it still")
    assert kinds(attempt.job).count("attempt.progress") == 1


def test_every_rank_has_the_values_of_its_decision_also_when_it_is_claimed_again(executor: Port, world: World) -> None:
    job = submit(world, nodes=2, env={"MINE": "job"})
    (planned,), seen = planned_places(world)
    given = (("ALGORITHM", "ring"), ("MINE", "policy"), ("MUSTER_BATCH_SIZE", "64"))
    apply_unit(world.pool, Unit((replace(planned, given=given),)), config_of(world.pool), seen)
    for _ in range(2):
        for allocation in ranks(live_attempt(job)):
            claimed = executor.claim(rank_of(allocation), claimant=FOLDER)
            env = launch_spec(allocation.node, claimed).env
            assert [env[name] for name, _ in given] == ["ring", "job", "64"]


def test_a_log_is_complete_with_its_end_and_may_be_sent_twice(executor: Port, world: World) -> None:
    (allocation,) = ranks(begin(executor, world))
    body, rest = b"epoch 1\n", b"epoch 2\n"
    for _ in range(2):
        assert executor.log(allocation, Chunk(0, body, crc32(body))) == len(body)
    whole = LogEnd(16, sha256(body + rest).hexdigest(), rest=Chunk(8, rest, crc32(rest)))
    for _ in range(2):
        executor.end_log(allocation, whole)
    log = LogFile.objects.get(pk=allocation.pk)
    assert (log.size, log.complete, log.finished_at is not None) == (16, True, True)


def test_every_rank_reports_metrics_by_its_token_until_its_end_and_those_of_the_first_rank_are_the_jobs(
    executor: Port, world: World
) -> None:
    attempt = begin(executor, world, nodes=2)
    first, second = ranks(attempt)
    report = [(rank_of(second), [("loss", 1.0, 9.0)]), (rank_of(first), [("loss", 1.0, 4.0)])]
    executor.report([*report, (rank_of(first, fence=attempt.pk - 1), [("loss", 2.0, 8.0)])])
    assert curve_of(Series.objects.get(attempt=attempt)).points() == [(1.0, 4.0)]
    finish(executor, first, points=[("loss", 2.0, 3.0)])
    executor.report(report)
    assert curve_of(Series.objects.get(attempt=attempt)).points() == [(1.0, 4.0), (2.0, 3.0)]


def test_the_metrics_that_come_with_the_end_are_those_of_the_first_rank(executor: Port, world: World) -> None:
    attempt = begin(executor, world, nodes=2)
    for allocation in ranks(attempt):
        finish(executor, allocation, points=[("loss", 1.0, float(allocation.rank))])
    assert Series.objects.get(attempt=attempt, name="loss").last_value == 0.0
