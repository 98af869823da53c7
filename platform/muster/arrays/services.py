"""Submitting and cloning arrays, cancelling some of their members, and running those that failed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from muster.accounts.models import User
from muster.arrays.spec import Array, names_of, parse_array, parse_indices
from muster.common.errors import Invalid, MusterError
from muster.jobs.attempt.estimates import estimate_jobs
from muster.jobs.groups.ends import end_members
from muster.jobs.groups.services import cancel_group, retry_members
from muster.jobs.groups.submit import Draft, Own, cloned_spec, draft_member, submit_group
from muster.jobs.models import Job, JobGroup
from muster.jobs.rights import require_may_act
from muster.jobs.submit.desk import Desk
from scheduler.model.lifecycle import GroupKind, JobState
from scheduler.model.reasons import Reason


def submit_array(
    *,
    user: User,
    data: object,
    idempotency_key: str | None = None,
    cloned_from: JobGroup | None = None,
    keeps_waiting: bool = False,
    sent: object = None,
) -> tuple[JobGroup, bool]:
    """The stored array and True; with a key that was used before for the same data, that array and False.

    `sent`: what the client sent with the key, if that is not the data. Members of one that `keeps_waiting` do so where
    their dependencies can never be met.
    """

    def draft() -> Draft:
        found = draft_array(user=user, data=data, keeps_waiting=keeps_waiting)
        estimate_jobs([found.job])
        return found

    return submit_group(
        user=user,
        kind=GroupKind.ARRAY,
        data=data,
        draft=draft,
        idempotency_key=idempotency_key,
        cloned_from=cloned_from,
        sent=sent,
    )


def draft_array(*, user: User, data: object, desk: Desk | None = None, keeps_waiting: bool = False) -> Draft:
    """The array that the data describes, checked against what the user may use, and not stored."""
    if not isinstance(data, dict) or "array" not in data:
        raise Invalid.field("array", "it is required here; a spec without it is one job: send it to POST /api/v1/jobs")
    if "sweep" in data:
        raise Invalid.field("array", "a spec is that of an array or of a sweep: leave one of them out")
    array = parse_array(data["array"])
    shared = data.get("params")
    shared = shared if isinstance(shared, dict) else {}
    for name in names_of(array.members):
        for key, others in (("env", data.get("env")), ("params", shared)):
            if isinstance(others, dict) and name in others:
                raise Invalid.field(f"array.params.{name}", f"{key} has this variable too: leave one of them out")
    members = [Own({"params": {**shared, **own}} if own else {}, index) for index, own in array.members]
    job = draft_member(
        user=user, data=data, kind=GroupKind.ARRAY, own=members[0], desk=desk, keeps_waiting=keeps_waiting
    )
    spec = {key: value for key, value in job.spec.items() if key != "params"} | {"array": array.spec.stored()}
    if shared:
        spec["params"] = shared
    return Draft(GroupKind.ARRAY, job, spec, members, array.parallel, _env(array))


def size_of(data: object) -> int:
    """The number of members of the array that the data describes; 1 if it describes none."""
    try:
        return len(parse_array(data["array"]).members) if isinstance(data, dict) and "array" in data else 1
    except MusterError:
        return 1


def clone_array(*, user: User, group: JobGroup, changes: Mapping[str, Any] | None = None) -> JobGroup:
    """A new array of the user's with the same spec but for `changes`; of `array` only the given keys are changed."""
    return submit_array(user=user, data=cloned_spec(user=user, group=group, changes=changes or {}), cloned_from=group)[
        0
    ]


def cancel_array(*, user: User, group: JobGroup, indices: str | None = None) -> None:
    """Cancel the members that have not ended: all of them, or those with these indices."""
    if indices is None:
        cancel_group(user=user, group=group)
        return
    require_may_act(user, group)
    end_members(
        group,
        reason=Reason.CANCELLED_BY_USER,
        detail="",
        actor=user.username,
        among=list(members_with(group, indices).values_list("pk", flat=True)),
    )


def retry_array(*, user: User, group: JobGroup, indices: str | None = None) -> int:
    """Run members again and return how many: those that have failed, or of these indices also those that were
    cancelled.

    Raises:
        Conflict: there is none, or the array is being stopped.
    """
    require_may_act(user, group)
    return len(retry_members(user=user, group=group, members=members_to_retry(group, indices)))


def members_to_retry(group: JobGroup, indices: str | None = None) -> QuerySet[Job]:
    """The members that a retry runs again."""
    if indices is None:
        return Job.objects.filter(group=group, state=JobState.FAILED)
    return members_with(group, indices)


def members_with(group: JobGroup, indices: str) -> QuerySet[Job]:
    """The members with these indices; `Invalid` names those that the array does not have."""
    wanted = parse_indices(indices, "indices")[0]
    members = Job.objects.filter(group=group, array_index__in=wanted)
    missing = sorted({*wanted} - {*members.values_list("array_index", flat=True)})
    if missing:
        raise Invalid.field("indices", f"array {group.pk} has no index {', '.join(map(str, missing[:10]))}")
    return members


def _env(array: Array) -> dict[str, str]:
    indices = [index for index, _ in array.members]
    count, first, last = len(indices), indices[0], indices[-1]
    told = {"COUNT": count, "MIN": first, "MAX": last, "STEP": array.step}
    return {f"MUSTER_ARRAY_{name}": str(value) for name, value in told.items()}
