"""Arrays as JSON."""

from __future__ import annotations

from collections.abc import Iterable

from muster.common.clock import hours, moment
from muster.jobs.groups.progress import GroupProgress, held_gpu_s, progress_of
from muster.jobs.models import JobGroup
from muster.jobs.spec.spec_order import in_order
from muster_client.answers.arrays import Array, ArrayInList


def array_list(groups: Iterable[JobGroup]) -> list[ArrayInList]:
    """The arrays as lists show them; two more queries for all of them."""
    groups = list(groups)
    ids = [group.pk for group in groups]
    found, held = progress_of(ids), held_gpu_s(ids, by="job__group")
    return [_array(group, found[group.pk], held.get(group.pk, 0.0)) for group in groups]


def array_document(group: JobGroup) -> Array:
    """The array with its spec and its progress."""
    (document,) = array_list([group])
    return {**document, "spec": in_order(group.spec)}


def _array(group: JobGroup, progress: GroupProgress, held_gpu_s: float) -> ArrayInList:
    counts = progress.members
    return {
        "id": group.pk,
        "name": group.name,
        "tenant": group.tenant.name,
        "vc": group.vc.name,
        "pool": group.pool.name,
        "owner": group.owner.username,
        "state": group.state,
        "reason": group.reason,
        "parallel": group.parallel,
        "first_index": int(group.env["MUSTER_ARRAY_MIN"]),
        "last_index": int(group.env["MUSTER_ARRAY_MAX"]),
        "members": {
            "total": group.size,
            "waiting": counts["waiting"],
            "running": counts["running"],
            "succeeded": counts["succeeded"],
            "failed": counts["failed"],
            "cancelled": counts["cancelled"],
        },
        "gpu_hours": hours(progress.gpu_s + held_gpu_s),
        "submitted_at": moment(group.submitted_at),
        "started_at": moment(progress.started_at),
        "ended_at": moment(group.ended_at),
        "cloned_from": group.cloned_from_id,
    }
