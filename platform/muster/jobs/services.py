"""Actions of users on jobs: submit, cancel, requeue, clone, edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from muster.accounts.models import User
from muster.common.clock import utc_now
from muster.common.errors import Conflict, FieldError, Forbidden, Invalid, MusterError, NotFound
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.attempt.estimates import estimate_jobs
from muster.jobs.dependents import held_by, waits_again
from muster.jobs.models import Attempt, CodeArchive, Dependency, IdempotencyKey, Job
from muster.jobs.ports import ports
from muster.jobs.rights import require_may_act
from muster.jobs.spec.requests import request_of_spec
from muster.jobs.spec.spec import PRIORITIES, JobSpec, parse_spec
from muster.jobs.spec.throughput import require_known_types
from muster.jobs.submit.awaited import await_each, awaited_by, begin_of, tie, waiting_fields
from muster.jobs.submit.caps import require_within_caps
from muster.jobs.submit.desk import Desk
from muster.jobs.submit.feasibility import require_feasible
from muster.jobs.submit.idempotency import once
from muster.jobs.submit.images import require_runtime
from muster.jobs.submit.memory import with_types
from muster.jobs.submit.nodes import require_nodes
from muster.jobs.submit.uploads import shared_with
from muster.jobs.submit.volumes import require_volumes
from muster.jobs.transitions import forget_reservations, move_job, settle
from muster.tenants.caps import caps_of
from muster.tenants.models import Tenant
from muster.tenants.selectors import require_open
from scheduler.diagnosis.screening import Mode
from scheduler.model.lifecycle import (
    ATTEMPT_LIVE,
    JOB_TERMINAL,
    AttemptState,
    Desired,
    HoldReason,
    JobState,
    Stage,
)
from scheduler.model.reasons import Reason

MAX_JOBS_PER_BATCH = 1000
MAX_CANCELLED = 1000
"""Of jobs in one request, which takes some seconds."""
FURTHEST_DEADLINE = timedelta(days=3653)
EDITABLE = ("name", "priority", "time", "expected", "tags")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The jobs, whether this call stored them or an earlier one with its key, and each refused item by its index."""

    jobs: list[Job]
    errors: list[tuple[int, MusterError]]
    created: bool = True


@dataclass(frozen=True, slots=True)
class CancelResult:
    """The numbers of the jobs that were cancelled and, with the reason, of those that could not be; and how many more
    match than one call cancels."""

    cancelled: list[int]
    refused: list[tuple[int, MusterError]]
    remaining: int


def submit_job(
    *,
    user: User,
    data: object,
    idempotency_key: str | None = None,
    has_place: bool = False,
    keeps_waiting: bool = False,
    sent: object = None,
) -> tuple[Job, bool]:
    """The stored job and True; with a key that was used before for the same data, that job and False.

    `sent`: what the client sent with the key, if that is not the data. One that `has_place` already is not screened.
    One that `keeps_waiting` does so where its dependencies can never be met, and is not refused or ended.
    """

    def store(note: Callable[..., object]) -> Job:
        job = draft_job(user=user, data=data, keeps_waiting=keeps_waiting)
        estimate_jobs([job])
        with transaction.atomic():
            _store([job], user, has_place=has_place)
            # A second key of the same owner fails here, and takes its job with it.
            note(job_ids=[job.pk])
        return job

    given = data if sent is None else sent
    return once(user=user, key=idempotency_key, data=given, store=store, known=lambda key: _batch_of(key).jobs[0])


def submit_batch(*, user: User, items: list[object], idempotency_key: str | None = None) -> BatchResult:
    """The valid jobs of the batch, stored in one transaction, and what is wrong with the others."""
    if not 0 < len(items) <= MAX_JOBS_PER_BATCH:
        raise Invalid.field("jobs", f"send 1 to {MAX_JOBS_PER_BATCH} specs")

    def store(note: Callable[..., object]) -> BatchResult:
        drafts: list[Job] = []
        errors: list[tuple[int, MusterError]] = []
        desk = Desk(user)
        for index, item in enumerate(items):
            try:
                drafts.append(draft_job(user=user, data=item, desk=desk))
            except MusterError as error:
                errors.append((index, error))
        estimate_jobs(drafts)
        with transaction.atomic():
            _store(drafts, user)
            told = [_error_as_data(index, error) for index, error in errors]
            note(job_ids=[job.pk for job in drafts], errors=told)
        return BatchResult(drafts, errors)

    return once(user=user, key=idempotency_key, data=items, store=store, known=_batch_of)[0]


def warnings_of(job: Job) -> list[str]:
    """Warnings about an accepted job: that it waits for GPUs or quota that do not exist."""
    if not job.tenant.wait_for_hardware:
        return []  # it was refused, if so
    found = ports.why_infeasible(job)
    return [] if found is None else [f"{found.errors[0].message}. It waits until the pool or the quota grows"]


def draft_job(
    *, user: User, data: object, desk: Desk | None = None, member: bool = False, keeps_waiting: bool = False
) -> Job:
    """The job that the data describes, checked against what the user may use, and not stored; `member`: of a group."""
    asked = parse_spec(data)
    desk = desk or Desk(user)
    vc = desk.virtual_cluster(asked.vc)
    pool = vc.pool
    spec = with_types(asked, pool)
    if spec.grace_s > pool.max_grace_s:
        raise Invalid.field("checkpoint.grace", f"pool {pool.name} allows at most {pool.max_grace_s:g}s")
    if spec.keep_failed_s > pool.keep_failed_max_s:
        most = f"for at most {pool.keep_failed_max_s:g}s" if pool.keep_failed_max_s else "not at all"
        raise Invalid.field("keep_failed", f"pool {pool.name} keeps what failed {most}")
    _require_priority(desk, spec, vc.tenant)
    require_within_caps(spec, desk.caps(asked.vc), tenant=vc.tenant, owner=user)
    require_volumes(spec.mounts, vc)
    require_runtime(spec, pool)
    require_nodes(spec, pool)
    require_known_types(spec.throughput, spec.choices, pool)
    _require_future(spec)
    code = None
    if spec.code:
        code = CodeArchive.objects.filter(sha256=spec.code.upload, owners=user).first()
        if code is None:
            raise Invalid.field("code.upload", "you have not uploaded an archive with this digest")
    job = Job(
        tenant=vc.tenant,
        vc=vc,
        pool=pool,
        owner=user,
        name=spec.label,
        spec=asked.stored() | {"name": spec.label, "vc": vc.name},
        tags=spec.tags,
        code=code,
        request=request_of_spec(spec, desk.shares(pool)),
        time_limit_s=spec.time_s,
        deadline_at=spec.deadline_at,
        grace_s=spec.grace_s,
        priority=PRIORITIES[spec.priority],
        klass=spec.klass,
        held=spec.hold,
        preemptible=spec.preemptible,
        checkpoints=spec.checkpoints,
        relax_after_s=spec.relax_after_s,
        keeps_waiting=keeps_waiting,
    )
    require_feasible(job)
    job.awaited = awaited_by(spec, user, member=member, keeps_waiting=keeps_waiting)
    begins_at = begin_of(spec, utc_now())
    if begins_at is not None:
        job.eligible_at = begins_at
    if spec.screening is Mode.ALWAYS:
        ports.screener.require_pool(job)
    return job


def cancel_job(*, user: User, job: Job) -> Job:
    """Stop the job for good. Cancelling twice is fine; a job that ended in another way is a `Conflict`."""
    require_may_act(user, job)
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        if job.state in JOB_TERMINAL and job.state != JobState.CANCELLED:
            raise Conflict(f"job {job.pk} has {job.state} already")
        if job.state not in JOB_TERMINAL and job.desired == Desired.RUN:
            Job.objects.filter(pk=job.pk).update(desired=Desired.STOP)
            record("job.cancel_asked", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk)
            forget_reservations([job.pk])
            if job.state == JobState.QUEUED:
                move_job(job, JobState.CANCELLED, actor=user.username, reason=Reason.CANCELLED_BY_USER)
            else:
                _stop_live_attempt(job, AttemptState.CANCELLED, Reason.CANCELLED_BY_USER, user)
            wake_pool(job.pool_id)
    job.refresh_from_db()
    return job


def cancel_jobs(*, user: User, jobs: QuerySet[Job]) -> CancelResult:
    """Stop up to `MAX_CANCELLED` of the jobs for good, queued jobs first, each in a transaction of its own."""
    # "queued" sorts behind "active": a job that leaves the queue cannot start on the GPUs of the jobs that are stopped.
    found = list(jobs.order_by("-state", "pk")[: MAX_CANCELLED + 1])
    cancelled, refused = [], []
    for job in found[:MAX_CANCELLED]:
        try:
            cancelled.append(cancel_job(user=user, job=job).pk)
        except MusterError as error:
            refused.append((job.pk, error))
    remaining = max(0, jobs.count() - len(refused)) if len(found) > MAX_CANCELLED else 0
    return CancelResult(cancelled, refused, remaining)


def requeue_job(*, user: User, job: Job) -> Job:
    """Stop the running attempt and put the job back into the queue; a finished job is a `Conflict`."""
    require_may_act(user, job)
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        if job.state in JOB_TERMINAL:
            raise Conflict(f"job {job.pk} has {job.state}: run it again: `muster clone {job.pk}`")
        if job.desired == Desired.STOP:
            raise Conflict(f"job {job.pk} is being cancelled")
        if job.state == JobState.ACTIVE and not _stop_live_attempt(
            job, AttemptState.PREEMPTED, Reason.REQUEUED_BY_USER, user
        ):
            raise Conflict(f"job {job.pk} is stopping already; what becomes of it shows when it has stopped")
    job.refresh_from_db()
    return job


def clone_job(*, user: User, job: Job, changes: Mapping[str, Any] | None = None) -> Job:
    """A new job of the user's with the same spec but for the keys in `changes`; the code archive comes along."""
    spec = job.spec
    if job.code and not shared_with(user, job.code):
        spec = {key: value for key, value in spec.items() if key != "code"}
    draft = draft_job(user=user, data=spec | (changes or {}))
    draft.cloned_from = job
    estimate_jobs([draft])
    with transaction.atomic():
        _store([draft], user)
    return draft


def edit_job(*, user: User, job: Job, changes: dict[str, Any]) -> Job:
    """Change what of a job can be edited. Only its name and tags can be while it is not queued."""
    require_may_act(user, job)
    unknown = [FieldError(key, "it cannot be edited") for key in changes if key not in EDITABLE]
    if unknown:
        raise Invalid(f"only {', '.join(EDITABLE)} can be edited", errors=tuple(unknown))
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True, of=("self",)).select_related("tenant", "owner").get(pk=job.pk)
        if job.state != JobState.QUEUED and {"priority", "time", "expected"} & set(changes):
            raise Conflict(f"job {job.pk} is {job.state}: priority, time and expected can be edited while it is queued")
        # Unchanged fields were checked at submission, with the rights of the submitter.
        spec = parse_spec(job.spec | changes)
        if "priority" in changes:
            _require_priority(Desk(user), spec, job.tenant)
        if "time" in changes:
            caps = caps_of(job.tenant_id, job.owner_id)
            require_within_caps(spec, caps, tenant=job.tenant, owner=job.owner)
        stored = spec.stored() | {"name": spec.label}
        before = {key: job.spec.get(key) for key in changes}
        job.name, job.time_limit_s = spec.label, spec.time_s
        job.spec = job.spec | {key: stored.get(key) for key in changes}
        if job.state == JobState.QUEUED:
            estimate_jobs([job])
        Job.objects.filter(pk=job.pk).update(
            name=job.name,
            priority=PRIORITIES[spec.priority],
            time_limit_s=job.time_limit_s,
            expected_s=job.expected_s,
            expected_p10_s=job.expected_p10_s,
            expected_p90_s=job.expected_p90_s,
            expected_source=job.expected_source,
            tags=spec.tags,
            spec=job.spec,
        )
        record(
            "job.edited",
            actor=user.username,
            tenant_id=job.tenant_id,
            job_id=job.pk,
            data={"before": before, "after": changes},
        )
        if job.name != before.get("name", job.name):
            settle(jobs=[job.pk], former_name=before["name"])
        wake_pool(job.pool_id)
    job.refresh_from_db()
    return job


def _require_priority(desk: Desk, spec: JobSpec, tenant: Tenant) -> None:
    if spec.priority in {"high", "urgent"} and not desk.manages(tenant):
        raise Invalid.field("priority", f"{spec.priority} is for managers of {tenant.name}; write normal or low")


def _require_future(spec: JobSpec) -> None:
    if spec.deadline_at is None:
        return
    if spec.deadline_at <= utc_now():
        raise Invalid.field("deadline", f"{spec.deadline} is in the past")
    if spec.deadline_at > utc_now() + FURTHEST_DEADLINE:
        raise Invalid.field("deadline", f"{spec.deadline} is more than ten years from now")


def _store(jobs: Sequence[Job], user: User, *, has_place: bool = False) -> None:
    rows_of: dict[int, list[Dependency]] = {}
    with recorded_together():
        for job in jobs:
            tell = None if has_place else ports.screener.submitted(job)
            (rows,) = await_each(job, [None])
            for name, value in waiting_fields(rows, before=job.hold).items():
                setattr(job, name, value)
            first = waits_again(job.hold_reason, None)
            held = held_by(user.username, before=job.hold) if job.held else None
            if held is not None:
                job.hold, job.hold_reason = held, HoldReason.HELD
            job.save(force_insert=True)
            rows_of[job.pk] = rows
            data = {"name": job.name, "vc": job.vc.name, "gpus": job.gpus_total, "nodes": job.request.nodes}
            if job.stage == Stage.SCREENING:
                data["stage"] = job.stage
            data |= first
            record("job.submitted", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk, data=data)
            if held is not None:
                data = {"state": JobState.QUEUED, "reason": held["reason"], "detail": held["detail"]}
                record("job.held", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk, data=data)
            if tell is not None:
                tell()
    # Behind the jobs, whose foreign key waits for a deletion of their virtual cluster.
    for vc in {job.vc_id: job.vc for job in jobs}.values():
        require_open(vc)
    with recorded_together():
        tie(rows_of)
    for job in jobs:
        if job.awaited:
            job.refresh_from_db(
                fields=["state", "desired", "reason", "reason_detail", "blocked_by", "hold_reason", "hold"]
            )
    for pool_id in {job.pool_id for job in jobs}:
        wake_pool(pool_id)


def _stop_live_attempt(job: Job, outcome: AttemptState, reason: Reason, user: User) -> bool:
    """Whether there was an attempt to stop that nothing had begun to stop before."""
    attempt = Attempt.objects.filter(job=job, state__in=ATTEMPT_LIVE).first()
    if attempt is None:
        return False
    return stop_attempt(attempt_id=attempt.pk, outcome=outcome, reason=reason, actor=user.username) is not None


def _batch_of(known: IdempotencyKey) -> BatchResult:
    jobs = Job.objects.select_related("vc", "tenant", "owner").in_bulk(known.job_ids)
    return BatchResult(
        [jobs[pk] for pk in known.job_ids],
        [(item["index"], _error_from_data(item)) for item in known.errors],
        created=False,
    )


def _error_as_data(index: int, error: MusterError) -> dict[str, Any]:
    return {
        "index": index,
        "kind": type(error).__name__,
        "detail": error.detail,
        "errors": [[one.field, one.message] for one in error.errors],
    }


def _error_from_data(item: dict[str, Any]) -> MusterError:
    kinds: dict[str, type[MusterError]] = {kind.__name__: kind for kind in (Invalid, Forbidden, NotFound, Conflict)}
    kind = kinds.get(item["kind"], Invalid)
    return kind(item["detail"], errors=tuple(FieldError(field, message) for field, message in item["errors"]))
