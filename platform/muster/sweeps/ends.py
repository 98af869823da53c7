"""How a sweep ends: with its last member, or because it is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q

from muster.common.clock import utc_now
from muster.common.models import DatabaseNow
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.attempt.ending import cancel_for
from muster.jobs.models import Job, JobGroup
from muster.jobs.transitions import forget_reservations, move_jobs
from muster.sweeps.models import Trial
from muster.sweeps.spec import SweepSpec, sweep_of
from muster.training.models import Series
from scheduler.model.lifecycle import Desired, GroupState, JobState, Reason, require_move

FIRST_TO_END = 3
"""The number of members that may end without the metric, while no member reports it, before the sweep is stopped."""
SETTLED_AFTER = timedelta(seconds=3)
"""What a job has reported last is stored just after its end."""


def reason_to_stop(sweep: SweepSpec, members: Sequence[tuple[Job, Trial | None]]) -> str | None:
    """Why the sweep has no prospect, or None.

    1. Its first members to end have failed.
    2. Its first members to end have not reported the metric, and neither has another one.
    """
    ended = sorted(
        (job.ended_at, job.pk, job)
        for job, _ in members
        if job.state in {JobState.SUCCEEDED, JobState.FAILED} and job.ended_at is not None
    )
    first = [job for *_, job in ended[: sweep.max_failures]]
    if len(first) == sweep.max_failures and all(job.state == JobState.FAILED for job in first):
        last = first[-1]
        told = last.reason_detail or last.reason or "unknown"
        if len(first) == 1:
            return f"its first member to end failed, and max_failures is 1: member {last.member}: {told}"[:500]
        return f"its first {len(first)} members to end failed, and none succeeded; member {last.member}: {told}"[:500]
    settled = utc_now() - SETTLED_AFTER
    first = [job for ended_at, _, job in ended[:FIRST_TO_END] if ended_at < settled]
    if len(first) == FIRST_TO_END and all(trial is None for _, trial in members):
        names = Series.objects.filter(attempt__job__in=first).order_by("name").distinct().values_list("name", flat=True)
        instead = f"they reported {', '.join(names)}" if names else "they reported nothing"
        return f"its first {len(first)} members to end did not report {sweep.metric}: {instead}"[:500]
    return None


def stop_sweep(group: JobGroup, reason: str) -> None:
    """Stop the sweep for this reason: it has failed once its members have ended."""
    asked = JobGroup.objects.filter(pk=group.pk, state=GroupState.ACTIVE, desired=Desired.RUN)
    with transaction.atomic():
        if not asked.update(desired=Desired.STOP, reason=reason):
            return
        data = {"sweep": group.pk, "detail": reason}
        record("sweep.stopped", actor="platform", tenant_id=group.tenant_id, data=data)
    end_members(group, reason=Reason.STOPPED_EARLY, detail=reason, actor="platform")


def end_members(group: JobGroup, *, reason: Reason, detail: str, actor: str) -> None:
    """Cancel the members that have not ended: those that wait in one statement, the others with their grace."""
    detail = detail[:500]
    with transaction.atomic(), recorded_together():
        waiting = Job.objects.select_for_update(no_key=True).filter(group=group, state=JobState.QUEUED).order_by("pk")
        jobs = list(waiting.defer("spec"))
        if jobs:
            ids = [job.pk for job in jobs]
            Job.objects.filter(pk__in=ids).update(desired=Desired.STOP)
            forget_reservations(ids)
            told = {pk: {"sweep": group.pk, "reason": reason} for pk in ids}
            move_jobs(jobs, JobState.CANCELLED, actor=actor, data=told, reason=reason, reason_detail=detail)
            wake_pool(group.pool_id)
    active = Job.objects.filter(group=group, state=JobState.ACTIVE).order_by("pk")
    for job_id in active.values_list("pk", flat=True):
        cancel_for(job_id=job_id, reason=reason, detail=detail, actor=actor)


def end_if_over(group_id: int, *, settled: bool = False) -> bool:
    """End the sweep if all members have ended, with `settled` some seconds ago; whether it ended now."""
    with transaction.atomic():
        group = JobGroup.objects.select_for_update(no_key=True).get(pk=group_id)
        members = Job.objects.filter(group=group)
        if group.state != GroupState.ACTIVE or members.filter(state__in=[JobState.QUEUED, JobState.ACTIVE]).exists():
            return False
        if settled and members.filter(ended_at__gt=utc_now() - SETTLED_AFTER).exists():
            return False
        target, reason = _outcome(group)
        require_move("group", GroupState.ACTIVE, target)
        JobGroup.objects.filter(pk=group.pk).update(state=target, reason=reason, ended_at=DatabaseNow())
        data = {"sweep": group.pk, "state": target, "reason": reason}
        record(f"sweep.{target}", actor="platform", tenant_id=group.tenant_id, data=data)
    return True


def _outcome(group: JobGroup) -> tuple[GroupState, str]:
    """What becomes of a sweep whose members have ended, and why if there is something to say."""
    if group.desired == Desired.STOP:
        return GroupState.FAILED if group.reason else GroupState.CANCELLED, group.reason
    members = Job.objects.filter(group=group)
    with_value = Q(trial__stopped_at__isnull=False, trial__value__isnull=False)
    if members.filter(Q(state=JobState.SUCCEEDED) | with_value).exists():
        if not Trial.objects.filter(job__group=group).exists():
            return GroupState.SUCCEEDED, f"no member reported {sweep_of(group.spec).metric}, so none is the best"
        return GroupState.SUCCEEDED, ""
    if members.filter(state=JobState.FAILED).exists():
        return GroupState.FAILED, "no member succeeded"
    return GroupState.CANCELLED, "all members were cancelled"
