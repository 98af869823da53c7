"""Submitting and cloning groups of any kind: one member is checked for all, and all are stored or nothing is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.db import connection, transaction

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.events.services import record, wake_pool
from muster.jobs.dependents import held_by
from muster.jobs.groups.services import waits_for_turn
from muster.jobs.models import IdempotencyKey, Job, JobGroup
from muster.jobs.ports import ports
from muster.jobs.services import draft_job
from muster.jobs.submit.awaited import await_each, tie, waiting_fields
from muster.jobs.submit.desk import Desk
from muster.jobs.submit.idempotency import once
from muster.jobs.submit.uploads import shared_with
from muster.tenants.selectors import require_open
from scheduler.model.lifecycle import GroupKind, HoldReason

MAX_STORED_BYTES = 256 << 20
"""Of the specs of all members together."""

# The first member is stored already. The others are it, with what they have of their own; they get their ids in order.
_OTHERS = """
INSERT INTO jobs_job ({columns}, member, array_index, spec, hold_reason, hold)
SELECT {columns}, own.place + 1, own.array_index, first.spec || own.keys,
    CASE WHEN own.place >= %(parallel)s THEN %(later_reason)s ELSE %(reason)s END,
    CASE WHEN own.place >= %(parallel)s THEN %(later)s::jsonb ELSE %(hold)s::jsonb END
FROM jobs_job first,
    unnest(%(indices)s::integer[], %(keys)s::jsonb[]) WITH ORDINALITY AS own(array_index, keys, place)
WHERE first.id = %(first)s ORDER BY own.place
"""


@dataclass(frozen=True, slots=True)
class Own:
    """The own part of a member: keys of its spec, and in an array its index."""

    keys: Mapping[str, Any] = field(default_factory=dict)
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A group that is not stored: its first member as a checked job, and what each member has of its own."""

    kind: GroupKind
    job: Job
    spec: Mapping[str, Any]
    """As it is stored: that of a member, with the key of the group's kind."""
    members: Sequence[Own]
    parallel: int
    env: Mapping[str, str] = field(default_factory=dict)


def draft_member(
    *, user: User, data: Mapping[str, Any], kind: GroupKind, own: Own, desk: Desk | None, keeps_waiting: bool = False
) -> Job:
    """The first member of the group that the data describes, checked for all members, and not stored."""
    if data.get("screening") == "always":
        raise Invalid.field("screening", f"members of {kind}s are not screened: leave it out")
    member = {key: value for key, value in data.items() if key != kind} | dict(own.keys)
    return draft_job(user=user, data=member, desk=desk, member=True, keeps_waiting=keeps_waiting)


def submit_group(
    *,
    user: User,
    kind: GroupKind,
    data: object,
    draft: Callable[[], Draft],
    idempotency_key: str | None,
    cloned_from: JobGroup | None,
    stored: Callable[[JobGroup], object] = lambda _: None,
    sent: object = None,
) -> tuple[JobGroup, bool]:
    """The stored group and True; with a key that was used before for the same data, that group and False.

    `sent`: what the client sent with the key, if that is not the data. `stored` is called with the group in the
    transaction that stores it.
    """

    def store(note: Callable[..., object]) -> JobGroup:
        drafted = draft()
        with transaction.atomic():
            group = _store(drafted, user, cloned_from)
            stored(group)
            note(group=group)
        return group

    given = {kind.value: data} if sent is None else sent
    return once(user=user, key=idempotency_key, data=given, store=store, known=_known)


def warnings_of(member: Job) -> list[str]:
    """Warnings about a group with this member: that it waits for GPUs that do not exist."""
    found = ports.why_infeasible(member)
    return [] if found is None else [f"{found.errors[0].message}. It waits until the pool or the quota grows"]


def cloned_spec(*, user: User, group: JobGroup, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a clone by the user, with the group's code where they may run it."""
    spec = changed_spec(group, changes)
    if group.code and "code" not in changes and not shared_with(user, group.code):
        del spec["code"]
    return spec


def changed_spec(group: JobGroup, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of the group with other values; under the key of its kind only the given keys are other."""
    spec: dict[str, Any] = group.spec | dict(changes)
    if isinstance(inner := changes.get(group.kind), dict):
        merged = group.spec[group.kind] | inner
        spec[group.kind] = {key: value for key, value in merged.items() if value is not None}
    return spec


def _known(key: IdempotencyKey) -> JobGroup:
    return JobGroup.objects.select_related("tenant", "vc", "pool", "owner").get(pk=key.group_id or 0)


def _store(draft: Draft, user: User, cloned_from: JobGroup | None) -> JobGroup:
    job = draft.job
    size = max(len(orjson.dumps(job.spec)), 1)
    if size * len(draft.members) > MAX_STORED_BYTES:
        raise Invalid.field(
            draft.kind,
            f"{len(draft.members):,} members with a spec of {size >> 10:,} KiB each are too much to store: put what is "
            f"long into a file of the code, or submit at most {MAX_STORED_BYTES // size:,} members",
        )
    group = JobGroup.objects.create(
        kind=draft.kind,
        tenant=job.tenant,
        vc=job.vc,
        pool=job.pool,
        owner=user,
        name=job.name,
        spec=draft.spec,
        code=job.code,
        cloned_from=cloned_from,
        size=len(draft.members),
        parallel=draft.parallel,
        env=draft.env,
    )
    _store_members(group, job, draft.members)
    require_open(job.vc)
    if job.awaited:
        numbers = group.members.order_by("member").values_list("pk", "member", "array_index")
        ids, places = zip(*((pk, number if index is None else index) for pk, number, index in numbers), strict=True)
        tie(dict(zip(ids, await_each(job, places), strict=True)))
    data = {group.kind: group.pk, "name": group.name, "vc": job.vc.name, "members": group.size, "gpus": job.gpus_total}
    record(f"{group.kind}.submitted", actor=user.username, tenant_id=group.tenant_id, data=data)
    wake_pool(group.pool_id)
    return group


def _store_members(group: JobGroup, first: Job, members: Sequence[Own]) -> None:
    """Store the members: the first as the job that it is, and all others in one statement."""
    own = {"member", "array_index", "spec", "hold_reason", "hold"}
    first.group, first.member, first.array_index = group, 1, members[0].index
    for name, value in waiting_fields(first.awaited, before=None).items():
        setattr(first, name, value)
    later = waits_for_turn(group)
    later = waiting_fields(first.awaited, before=later).get("hold", later)
    if first.held:
        later = held_by(group.owner.username, before=later)
        first.hold, first.hold_reason = later | {"before": first.hold}, HoldReason.HELD
    first.save(force_insert=True)
    fields = [one for one in Job._meta.concrete_fields if not one.generated and not one.primary_key]
    columns = ", ".join(str(one.column) for one in fields if one.attname not in own)
    params: dict[str, Any] = {
        "first": first.pk,
        "parallel": group.parallel,
        "reason": first.hold_reason,
        "hold": None if first.hold is None else orjson.dumps(first.hold).decode(),
        "later_reason": later["reason"],
        "later": orjson.dumps(later).decode(),
        "indices": [one.index for one in members[1:]],
        "keys": [orjson.dumps(one.keys).decode() for one in members[1:]],
    }
    with connection.cursor() as cursor:
        cursor.execute(_OTHERS.format(columns=columns), params)
