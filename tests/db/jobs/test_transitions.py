"""The only functions that change a status: every move of the tables, no other, once, and with its event."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from muster.events.models import Event
from muster.events.services import recorded_together
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.jobs.transitions import Moves, move_allocation, move_attempt, move_job, move_jobs
from scheduler.model.lifecycle import (
    ALLOCATION_MOVES,
    ATTEMPT_MOVES,
    ATTEMPT_TERMINAL,
    JOB_MOVES,
    JOB_TERMINAL,
    AllocationState,
    AttemptState,
    JobState,
    TransitionError,
)
from tests.db.stories import make_world, now_of, place, ranks, submit

pytestmark = pytest.mark.django_db


def moves_of(table: Any) -> list[Any]:
    pairs = [(source, target) for source, targets in table.items() for target in sorted(targets)]
    return [pytest.param(source, target, id=f"{source}-{target}") for source, target in pairs]


def others_of(table: Any) -> list[Any]:
    pairs = [(source, target) for source in table for target in table if target not in table[source]]
    return [pytest.param(source, target, id=f"{source}-{target}") for source, target in pairs]


def job_in(state: JobState) -> Job:
    job = submit(make_world())
    Job.objects.filter(pk=job.pk).update(state=state, ended_at=timezone.now() if state in JOB_TERMINAL else None)
    return now_of(job)


def attempt_in(state: AttemptState) -> Attempt:
    attempt = place(make_world())
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        state=state,
        outcome="failed",
        running_at=now,
        stopping_at=now,
        ended_at=now if state in ATTEMPT_TERMINAL else None,
    )
    return now_of(attempt)


def allocation_in(state: AllocationState) -> Allocation:
    allocation = ranks(place(make_world(), gpus=0))[0]
    now = timezone.now()
    released_at = now if state is AllocationState.RELEASED else None
    Allocation.objects.filter(pk=allocation.pk).update(state=state, claimed_at=now, released_at=released_at)
    return now_of(allocation)


def events_of(job_id: int) -> list[tuple[str, str, Any, Any]]:
    """Kind, actor, source and target of the job's events that tell of a move."""
    rows = Event.objects.filter(job_id=job_id).order_by("pk")
    return [(row.kind, row.actor, row.data["from"], row.data["state"]) for row in rows if "from" in row.data]


class TestJobs:
    @pytest.mark.parametrize(("source", "target"), moves_of(JOB_MOVES))
    def test_every_move_of_the_table_is_made_with_its_event(self, source: JobState, target: JobState) -> None:
        job = job_in(source)
        assert move_job(job, target, actor="tester", data={"why": "because"}) is True
        stored = now_of(job)
        assert (stored.state, job.state) == (target, target)
        assert (stored.ended_at is not None) is (target in JOB_TERMINAL)
        assert events_of(job.pk) == [(f"job.{target}", "tester", source, target)]
        assert Event.objects.get(kind=f"job.{target}").data["why"] == "because"

    @pytest.mark.parametrize(("source", "target"), others_of(JOB_MOVES))
    def test_no_other_move_is_made(self, source: JobState, target: JobState) -> None:
        job = job_in(source)
        with pytest.raises(TransitionError):
            move_job(job, target, actor="tester")
        assert now_of(job).state == source
        assert events_of(job.pk) == []

    def test_a_caller_with_an_older_state_changes_nothing(self) -> None:
        job = job_in(JobState.QUEUED)
        late = now_of(job)
        move_job(job, JobState.CANCELLED, actor="first")
        assert move_job(late, JobState.ACTIVE, actor="late", attempt_count=9) is False
        assert (now_of(job).state, now_of(job).attempt_count) == ("cancelled", 0)
        assert late.state == "queued"
        assert [actor for _, actor, _, _ in events_of(job.pk)] == ["first"]

    def test_the_hold_goes_when_the_job_leaves_the_queue(self) -> None:
        job = job_in(JobState.QUEUED)
        Job.objects.filter(pk=job.pk).update(hold_reason="quota", hold={"reason": "quota"})
        move_job(job, JobState.CANCELLED, actor="tester")
        assert (now_of(job).hold_reason, now_of(job).hold) == ("", None)

    def test_other_fields_change_with_the_state(self) -> None:
        job = job_in(JobState.ACTIVE)
        move_job(job, JobState.FAILED, actor="tester", exit_code=3, reason="exit_nonzero")
        assert (now_of(job).exit_code, now_of(job).reason) == (3, "exit_nonzero")


class TestJobsTogether:
    def test_each_moves_with_its_own_event(self) -> None:
        jobs = [job_in(JobState.QUEUED), job_in(JobState.QUEUED)]
        told = {job.pk: {"number": number} for number, job in enumerate(jobs)}
        Job.objects.update(hold_reason="quota", hold={"reason": "quota"})
        move_jobs(jobs, JobState.ACTIVE, actor="tester", data=told, attempt_count=F("attempt_count") + 1)
        for number, job in enumerate(jobs):
            stored = now_of(job)
            assert (stored.state, job.state, stored.attempt_count, stored.hold_reason) == ("active", "active", 1, "")
            assert events_of(job.pk) == [("job.active", "tester", "queued", "active")]
            assert Event.objects.get(job_id=job.pk, kind="job.active").data["number"] == number

    def test_no_other_move_is_made(self) -> None:
        jobs = [job_in(JobState.SUCCEEDED)]
        with pytest.raises(TransitionError):
            move_jobs(jobs, JobState.ACTIVE, actor="tester", data={jobs[0].pk: {}})
        assert now_of(jobs[0]).state == "succeeded"

    def test_one_that_was_seen_in_an_older_state_is_an_error(self) -> None:
        jobs = [job_in(JobState.QUEUED), job_in(JobState.QUEUED)]
        move_job(now_of(jobs[1]), JobState.CANCELLED, actor="first")
        with pytest.raises(RuntimeError, match="2 jobs were queued under lock, and 1 of them"), transaction.atomic():
            move_jobs(jobs, JobState.ACTIVE, actor="late", data={job.pk: {} for job in jobs})
        assert [now_of(job).state for job in jobs] == ["queued", "cancelled"]
        assert events_of(jobs[0].pk) == []


class TestAttempts:
    @pytest.mark.parametrize(("source", "target"), moves_of(ATTEMPT_MOVES))
    def test_every_move_of_the_table_is_made_with_its_event(self, source: AttemptState, target: AttemptState) -> None:
        attempt = attempt_in(source)
        before = len(events_of(attempt.job_id))
        assert move_attempt(attempt, target, job=attempt.job, actor="tester") is True
        stored = now_of(attempt)
        assert (stored.state, attempt.state) == (target, target)
        assert (stored.ended_at is not None) is (target in ATTEMPT_TERMINAL)
        assert events_of(attempt.job_id)[before:] == [(f"attempt.{target}", "tester", source, target)]
        assert Event.objects.get(kind=f"attempt.{target}").data["attempt"] == 1

    @pytest.mark.parametrize(("source", "target"), others_of(ATTEMPT_MOVES))
    def test_no_other_move_is_made(self, source: AttemptState, target: AttemptState) -> None:
        attempt = attempt_in(source)
        before = events_of(attempt.job_id)
        with pytest.raises(TransitionError):
            move_attempt(attempt, target, job=attempt.job, actor="tester")
        assert now_of(attempt).state == source
        assert events_of(attempt.job_id) == before

    def test_a_caller_with_an_older_state_changes_nothing(self) -> None:
        attempt = attempt_in(AttemptState.STARTING)
        late = now_of(attempt)
        move_attempt(attempt, AttemptState.RUNNING, job=attempt.job, actor="first")
        before = events_of(attempt.job_id)
        moved = move_attempt(late, AttemptState.FAILED, job=attempt.job, actor="late", reason="unknown")
        assert moved is False
        assert (now_of(attempt).state, now_of(attempt).reason, late.state) == ("running", "", "starting")
        assert events_of(attempt.job_id) == before

    @pytest.mark.parametrize(
        ("source", "target", "moment"),
        [
            ("placed", "starting", "starting_at"),
            ("starting", "running", "running_at"),
            ("running", "failed", "ended_at"),
        ],
    )
    def test_the_moment_of_a_move_is_the_databases(self, source: str, target: str, moment: str) -> None:
        attempt = attempt_in(AttemptState(source))
        Attempt.objects.filter(pk=attempt.pk).exclude(state="running").update(running_at=None)
        started = timezone.now()
        move_attempt(attempt, AttemptState(target), job=attempt.job, actor="tester")
        assert started <= getattr(now_of(attempt), moment) <= timezone.now()


class TestAllocations:
    @pytest.mark.parametrize(("source", "target"), moves_of(ALLOCATION_MOVES))
    def test_every_move_of_the_table_is_made(self, source: AllocationState, target: AllocationState) -> None:
        allocation = allocation_in(source)
        assert move_allocation(allocation, target) is True
        assert (now_of(allocation).state, allocation.state) == (target, target)
        assert (now_of(allocation).released_at is not None) is (target is AllocationState.RELEASED)

    @pytest.mark.parametrize(("source", "target"), others_of(ALLOCATION_MOVES))
    def test_no_other_move_is_made(self, source: AllocationState, target: AllocationState) -> None:
        allocation = allocation_in(source)
        with pytest.raises(TransitionError):
            move_allocation(allocation, target)
        assert now_of(allocation).state == source

    def test_a_caller_with_an_older_state_changes_nothing(self) -> None:
        allocation = allocation_in(AllocationState.RESERVED)
        late = now_of(allocation)
        move_allocation(allocation, AllocationState.ACTIVE, boot_id="first", claimed_at=timezone.now())
        assert move_allocation(late, AllocationState.RELEASED, boot_id="late") is False
        assert (now_of(allocation).state, now_of(allocation).boot_id) == ("active", "first")

    def test_a_release_frees_the_gpus_of_this_allocation_only(self) -> None:
        attempt = place(make_world(nodes=2), nodes=2, gpus=2)
        first, second = ranks(attempt)
        move_allocation(first, AllocationState.RELEASED)
        assert not first.claims.filter(released_at__isnull=True).exists()
        assert second.claims.filter(released_at__isnull=True).count() == 2

    def test_a_late_release_frees_nothing(self) -> None:
        allocation = ranks(place(make_world()))[0]
        late = now_of(allocation)
        move_allocation(allocation, AllocationState.ACTIVE, claimed_at=timezone.now())
        assert move_allocation(late, AllocationState.RELEASED) is False
        assert allocation.claims.filter(released_at__isnull=True).count() == 1


class TestTogether:
    def test_a_row_that_moves_twice_is_written_once_with_both_events(self) -> None:
        attempt = attempt_in(AttemptState.STARTING)
        before, moves = len(events_of(attempt.job_id)), Moves()
        with CaptureQueriesContext(connection) as sent, transaction.atomic(), recorded_together():
            moves.move_attempt(attempt, AttemptState.RUNNING, job=attempt.job, actor="tester")
            moves.move_attempt(attempt, AttemptState.SUCCEEDED, job=attempt.job, actor="tester", exit_code=0)
            moves.move_allocation(ranks(attempt)[0], AllocationState.RELEASED)
            moves.change(attempt.job, started_at=timezone.now())
            moves.write()
            moves.write()
        assert len([one for one in sent if "EXECUTE" in one["sql"]]) == 1
        stored = now_of(attempt)
        assert (stored.state, stored.exit_code) == ("succeeded", 0)
        assert stored.running_at <= stored.ended_at
        assert [target for *_, target in events_of(attempt.job_id)[before:]] == ["running", "succeeded"]
        assert now_of(attempt.job).started_at is not None
        assert [one.state for one in ranks(attempt)] == ["released"]

    def test_ranks_that_move_alike_are_written_in_one_update(self) -> None:
        attempt = place(make_world(nodes=3), nodes=3, gpus=1)
        moves = Moves()
        for allocation in ranks(attempt):
            moves.move_allocation(allocation, AllocationState.RELEASED)
        with CaptureQueriesContext(connection) as sent:
            moves.write()
        assert len(sent) == 1
        assert [one.state for one in ranks(attempt)] == ["released"] * 3
        assert not GpuClaim.objects.filter(released_at__isnull=True).exists()

    def test_one_row_that_was_seen_in_an_older_state_is_an_error(self) -> None:
        attempt = attempt_in(AttemptState.RUNNING)
        late = now_of(attempt)
        move_attempt(attempt, AttemptState.FAILED, job=attempt.job, actor="first")
        moves = Moves(lambda *_, **__: None)
        moves.move_job(late.job, JobState.SUCCEEDED, actor="late")
        moves.move_attempt(late, AttemptState.SUCCEEDED, job=late.job, actor="late")
        with pytest.raises(RuntimeError, match="under lock"), transaction.atomic():
            moves.write()
        assert (now_of(attempt).state, now_of(attempt.job).state) == ("failed", "active")


def test_a_move_and_its_event_are_rolled_back_together() -> None:
    job = job_in(JobState.QUEUED)
    with transaction.atomic():
        move_job(job, JobState.CANCELLED, actor="tester")
        assert len(events_of(job.pk)) == 1
        transaction.set_rollback(True)
    assert now_of(job).state == "queued"
    assert events_of(job.pk) == []
