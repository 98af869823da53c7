"""The end of an array: with its last member, and well only if all of them have ended well."""

from __future__ import annotations

from django.db.models import Count, Exists, OuterRef

from muster.jobs.groups.ends import Outcome, end_if_over, outcome_of
from muster.jobs.models import Job, JobGroup
from scheduler.model.lifecycle import Desired, GroupKind, GroupState, JobState

_LIVING = (JobState.QUEUED, JobState.ACTIVE)
ANY_OVER = (
    f"EXISTS (SELECT FROM jobs_jobgroup grp WHERE kind = '{GroupKind.ARRAY}' AND state = '{GroupState.ACTIVE}'"  # noqa: S608
    " AND NOT EXISTS (SELECT FROM jobs_job job WHERE job.group_id = grp.id AND job.state IN "
    f"('{JobState.QUEUED}', '{JobState.ACTIVE}')))"
)
"""An SQL condition: all members of an array that goes on have ended."""


def end_arrays() -> int:
    """End the arrays whose members have all ended; returns how many."""
    living = Job.objects.filter(group=OuterRef("pk"), state__in=_LIVING)
    over = JobGroup.objects.filter(~Exists(living), kind=GroupKind.ARRAY, state=GroupState.ACTIVE).order_by("pk")
    return sum(end_if_over(group_id, outcome=outcome_of_array) for group_id in over.values_list("pk", flat=True))


def outcome_of_array(group: JobGroup) -> Outcome:
    """The outcome of an array whose members have ended: succeeded if all have, failed if one has failed."""
    counts = dict(group.members.order_by().values_list("state").annotate(Count("pk")))
    failed, cancelled = counts.get(JobState.FAILED, 0), counts.get(JobState.CANCELLED, 0)
    if group.desired == Desired.STOP or counts.get(JobState.SUCCEEDED, 0) == group.size:
        return outcome_of(group)
    if failed:
        return GroupState.FAILED, f"{_of(failed, group)} failed"
    return GroupState.CANCELLED, f"{_of(cancelled, group)} were cancelled"


def _of(count: int, group: JobGroup) -> str:
    return f"{count:,} of {group.size:,} members"
