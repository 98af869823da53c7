"""What users do with sweeps: submit, cancel, clone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, models, transaction

from muster.accounts.models import User
from muster.common.errors import Conflict, Forbidden, Invalid, MusterError
from muster.common.models import DatabaseNow
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.estimates import estimate_jobs
from muster.jobs.feasibility import why_infeasible
from muster.jobs.idempotency import check_key, known_key
from muster.jobs.models import IdempotencyKey, Job, JobGroup
from muster.jobs.services import cancel_job, draft_job
from muster.jobs.spec_values import checked_params
from muster.jobs.transitions import forget_reservations, move_jobs
from muster.sweeps.draws import params_of
from muster.sweeps.models import Progress
from muster.sweeps.spec import SweepSpec, parse_sweep
from muster.tenants.selectors import is_manager
from scheduler.model.lifecycle import Desired, GroupKind, GroupState, HoldReason, JobState, Reason, require_move
from scheduler.search.rungs import Method
from scheduler.search.space import Point


@dataclass(frozen=True, slots=True)
class Draft:
    """A sweep that is not stored: its first member, and the parameters of all of them."""

    sweep: SweepSpec
    job: Job
    params: list[Point]


def submit_sweep(
    *, user: User, data: object, idempotency_key: str | None = None, cloned_from: JobGroup | None = None
) -> tuple[JobGroup, bool]:
    """The stored sweep and True; with a key that was used before for the same data, that sweep and False.

    All members are stored with it as jobs, or nothing is. One of them is checked for all. None is screened.
    """
    digest = check_key(idempotency_key, {"sweep": data})
    if idempotency_key and (known := known_key(user, idempotency_key, digest)):
        return _stored(known), False
    draft = draft_sweep(user=user, data=data)
    estimate_jobs([draft.job])
    try:
        with transaction.atomic():
            group = _store(draft, user, cloned_from)
            if idempotency_key:
                IdempotencyKey.objects.create(owner=user, key=idempotency_key, body_digest=digest, group=group)
    except IntegrityError:
        known = known_key(user, idempotency_key, digest) if idempotency_key else None
        if known is None:
            raise
        return _stored(known), False
    return group, True


def draft_sweep(*, user: User, data: object) -> Draft:
    """The sweep that the data describes, checked against what the user may use, and not stored."""
    if not isinstance(data, dict) or "sweep" not in data:
        raise Invalid.field("sweep", "it is required here; a spec without it is one job: send it to POST /api/v1/jobs")
    if "params" in data:
        raise Invalid.field("params", "a sweep has its parameters under sweep.params")
    if data.get("screening") == "always":
        raise Invalid.field("screening", "members of a sweep are not screened: leave it out")
    sweep = parse_sweep(data["sweep"])
    params = params_of(sweep)
    env = data.get("env")
    for name in sweep.params:
        if isinstance(env, dict) and name in env:
            raise Invalid.field(f"sweep.params.{name}", "env has this variable too: leave one of them out")
    for member in params:
        try:
            checked_params(member)
        except ValueError as error:
            raise Invalid.field("sweep.params", str(error)) from error
    job = draft_job(
        user=user, data={key: value for key, value in data.items() if key != "sweep"} | {"params": params[0]}
    )
    if sweep.method is Method.HALVING and not job.checkpoints:
        raise Invalid.field(
            "checkpoint",
            "halving pauses members at rungs: name checkpoint to say that they save their work; or use asha",
        )
    return Draft(sweep, job, params)


def warnings_of(group: JobGroup) -> list[str]:
    """What the submitter should know of a sweep that was accepted: that it waits for GPUs that do not exist."""
    member = group.members.select_related("vc__pool", "tenant", "owner", "pool").order_by("member").first()
    found = None if member is None else why_infeasible(member)
    return [] if found is None else [f"{found.errors[0].message}. It waits until the pool or the quota grows"]


def cancel_sweep(*, user: User, group: JobGroup) -> JobGroup:
    """Cancel all members that have not ended. Cancelling twice is fine; a sweep that has ended is a `Conflict`."""
    require_may_act(user, group)
    with transaction.atomic():
        group = JobGroup.objects.select_for_update(no_key=True).get(pk=group.pk)
        if group.state not in {GroupState.ACTIVE, GroupState.CANCELLED}:
            raise Conflict(f"sweep {group.pk} has {group.state} already")
        if group.state == GroupState.ACTIVE and group.desired == Desired.RUN:
            JobGroup.objects.filter(pk=group.pk).update(desired=Desired.STOP)
            record("sweep.cancel_asked", actor=user.username, tenant_id=group.tenant_id, data={"sweep": group.pk})
    cancel_members(group, user=user)
    return JobGroup.objects.get(pk=group.pk)


def cancel_members(group: JobGroup, *, user: User) -> None:
    """Cancel the members: those that wait at once, the others with their grace."""
    with transaction.atomic(), recorded_together():
        waiting = Job.objects.select_for_update(no_key=True).filter(group=group, state=JobState.QUEUED).order_by("pk")
        jobs = list(waiting.defer("spec"))
        if jobs:
            ids = [job.pk for job in jobs]
            Job.objects.filter(pk__in=ids).update(desired=Desired.STOP)
            forget_reservations(ids)
            told = {pk: {"sweep": group.pk} for pk in ids}
            reason = Reason.CANCELLED_BY_USER
            move_jobs(jobs, JobState.CANCELLED, actor=user.username, data=told, reason=reason)
            wake_pool(group.pool_id)
    for job in Job.objects.filter(group=group, state=JobState.ACTIVE).order_by("pk"):
        try:
            cancel_job(user=user, job=job)
        except MusterError:  # it has ended meanwhile
            continue
    end_if_over(group.pk)


def clone_sweep(*, user: User, group: JobGroup, changes: Mapping[str, Any] | None = None) -> JobGroup:
    """A new sweep of the user's with the same spec but for `changes`; of `sweep` only the given keys are changed."""
    if group.code and not group.code.owners.filter(pk=user.pk).exists():
        # A user who may see the sweep may run its code, which stands readable in the working folders of its members.
        group.code.owners.add(user)
    changes = dict(changes or {})
    if isinstance(inner := changes.get("sweep"), dict):
        merged = group.spec["sweep"] | inner
        changes["sweep"] = {key: value for key, value in merged.items() if value is not None}
    return submit_sweep(user=user, data=group.spec | changes, cloned_from=group)[0]


def require_may_act(user: User, group: JobGroup) -> None:
    """Return if the user may change the sweep, and raise `Forbidden` with who may if not."""
    if group.owner_id != user.pk and not is_manager(user, group.tenant_id):
        owner = group.owner.username
        raise Forbidden(f"sweep {group.pk} is {owner}'s: its owner and the tenant's managers may change it")


def end_if_over(group_id: int) -> bool:
    """End the sweep if all members have ended; whether it ended now."""
    with transaction.atomic():
        group = JobGroup.objects.select_for_update(no_key=True).get(pk=group_id)
        members = Job.objects.filter(group=group)
        if group.state != GroupState.ACTIVE or members.filter(state__in=[JobState.QUEUED, JobState.ACTIVE]).exists():
            return False
        valued = models.Q(trial__stopped_at__isnull=False, trial__value__isnull=False)
        if group.desired == Desired.STOP:
            target = GroupState.FAILED if group.reason else GroupState.CANCELLED
        elif members.filter(models.Q(state=JobState.SUCCEEDED) | valued).exists():
            target = GroupState.SUCCEEDED
        else:
            target = GroupState.FAILED if members.filter(state=JobState.FAILED).exists() else GroupState.CANCELLED
        reason = group.reason
        if target is GroupState.FAILED and not reason:
            reason = "no member succeeded"
        require_move("group", GroupState.ACTIVE, target)
        JobGroup.objects.filter(pk=group.pk).update(state=target, reason=reason, ended_at=DatabaseNow())
        data = {"sweep": group.pk, "state": target, "reason": reason}
        record(f"sweep.{target}", actor="platform", tenant_id=group.tenant_id, data=data)
    return True


def _stored(known: IdempotencyKey) -> JobGroup:
    return JobGroup.objects.select_related("tenant", "vc", "pool", "owner").get(pk=known.group_id or 0)


def _store(draft: Draft, user: User, cloned_from: JobGroup | None) -> JobGroup:
    job, sweep = draft.job, draft.sweep
    group = JobGroup.objects.create(
        kind=GroupKind.SWEEP,
        tenant=job.tenant,
        vc=job.vc,
        pool=job.pool,
        owner=user,
        name=job.name,
        spec={key: value for key, value in job.spec.items() if key != "params"} | {"sweep": sweep.stored()},
        code=job.code,
        cloned_from=cloned_from,
        size=len(draft.params),
        parallel=sweep.parallel,
    )
    Progress.objects.create(group=group)
    fields = [one.attname for one in Job._meta.concrete_fields if not one.generated and not one.primary_key]
    same = {name: getattr(job, name) for name in fields} | {"group_id": group.pk}
    later = {"hold_reason": HoldReason.GROUP, "hold": waits_for_turn(group)}
    Job.objects.bulk_create(
        Job(
            **same
            | {"member": member, "spec": job.spec | {"params": params}}
            | (later if member > group.parallel else {})
        )
        for member, params in enumerate(draft.params, start=1)
    )
    data = {"sweep": group.pk, "name": group.name, "vc": job.vc.name, "members": group.size, "gpus": job.gpus_total}
    record("sweep.submitted", actor=user.username, tenant_id=group.tenant_id, data=data)
    wake_pool(group.pool_id)
    return group


def waits_for_turn(group: JobGroup) -> dict[str, Any]:
    """The pending reason of a member that its sweep's budget holds back."""
    at_once = f"{group.parallel} member{'' if group.parallel == 1 else 's'} at once"
    return {
        "reason": HoldReason.GROUP,
        "detail": f"waits for its turn: sweep {group.pk} runs at most {at_once}",
        "evidence": {"parallel": group.parallel},
        "helps": ["a member of the sweep has ended"],
    }
