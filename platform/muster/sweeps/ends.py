"""The end of a sweep, and the conditions that stop it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from muster.common.clock import utc_now
from muster.jobs.groups.ends import Outcome, end_if_over, outcome_of
from muster.jobs.models import Job, JobGroup
from muster.monitoring.models import Series
from muster.sweeps.models import Trial
from muster.sweeps.spec import SweepSpec, sweep_of
from scheduler.model.lifecycle import Desired, GroupState, JobState

FIRST_TO_END = 3
"""The number of members that may end without the metric, while no member reports it, before the sweep is stopped."""
SETTLED_AFTER = timedelta(seconds=3)
"""The time after its end at which a job's last report is stored."""


def reason_to_stop(sweep: SweepSpec, members: Sequence[tuple[Job, Trial | None]]) -> str | None:
    """The reason why the sweep has no prospect, or None.

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


def end_sweep_if_over(group_id: int) -> bool:
    """End the sweep if all members have ended and what they reported last is stored; whether it ended now."""
    return end_if_over(group_id, settled_s=SETTLED_AFTER.total_seconds(), outcome=_outcome)


def _outcome(group: JobGroup) -> Outcome:
    """The outcome of a sweep whose members have ended: a member that was stopped for its value is a success too."""
    state, reason = outcome_of(group)
    if group.desired == Desired.STOP:
        return state, reason
    trials = Trial.objects.filter(job__group=group)
    if state != GroupState.SUCCEEDED and not trials.filter(stopped_at__isnull=False, value__isnull=False).exists():
        return state, reason
    if not trials.exists():
        return GroupState.SUCCEEDED, f"no member reported {sweep_of(group.spec).metric}, so none is the best"
    return GroupState.SUCCEEDED, ""
