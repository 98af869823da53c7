"""Sending jobs to their screening runs, ending these, and moving the jobs on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from muster.common.clock import database_now, utc_now
from muster.common.errors import Invalid
from muster.events.services import record, wake_pool
from muster.fleet.models import Pool
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.attempt.runs import ScreeningRun, in_its_own_queue, screening_run_of
from muster.jobs.models import Attempt, Job, Reservation
from muster.jobs.ports import ScreeningEnd
from muster.jobs.transitions import forget_reservations
from muster.screening.models import ScreeningResult
from muster.screening.outlook import digest_of, outlook_of, run_for
from muster.screening.room import fitted, reshaped, room_of
from muster.screening.selectors import screening_of
from scheduler.diagnosis.screening import ScreeningVerdict, Shape, full_gpu_s, spent_gpu_s
from scheduler.model.lifecycle import AttemptState, Desired, HoldReason, JobState, Stage
from scheduler.model.reasons import Reason

log = logging.getLogger(__name__)

# Nothing that comes free would let it run.
_NEVER_THERE = frozenset({HoldReason.INFEASIBLE, HoldReason.QUOTA_TOO_SMALL})


class Screening:
    """The screening functions that `muster.jobs` calls."""

    def require_pool(self, job: Job) -> None:
        """Return if the job's pool screens jobs, and raise `Invalid` if not."""
        if screening_of(job.pool_id) is None:
            raise Invalid.field("screening", f"pool {job.pool.name} screens no jobs; write auto or never")

    def submitted(self, job: Job) -> Callable[[], None]:
        """Let the job wait for its screening run, if any; the returned function stores why it has none."""
        outlook = outlook_of(job)
        if outlook.run is not None and outlook.screening is not None:
            job.stage, job.screening = Stage.SCREENING, outlook.run.stored()
            job.pool = outlook.screening.screening_pool

        def tell_skipped() -> None:
            if outlook.goes_on is not None:
                _write(job, outlook.goes_on, outlook.why, _Figures(), digest=outlook.digest)

        return tell_skipped

    def next_run(self, job: Job) -> dict[str, Any] | None:
        """The fields of a job that is screened again, in the pool that screens its pool now; None if there is none."""
        screening = screening_of(job.vc.pool_id)
        run = None if screening is None else run_for(job, screening)
        if screening is None or run is None:
            return None
        return {"stage": Stage.SCREENING, "screening": run.stored(), "pool": screening.screening_pool, "memo": {}}

    def ended(self, end: ScreeningEnd) -> None:
        """Store the result of a screening run."""
        found = end.judgement
        _write(end.job, found.verdict, found.why or end.attempt.reason_detail, _figures(end), end=end)


def keep_screening(pool: Pool) -> None:
    """Look after the screening runs in the pool; most pools have none, and that costs one query.

    What has run for its time, or has got to its first step, has passed. Jobs that have waited for too long, or would
    wait in vain, go on unscreened; the others are screened on what is free.
    """
    jobs = list(
        Job.objects.filter(pool=pool, stage=Stage.SCREENING, state__in=[JobState.QUEUED, JobState.ACTIVE])
        .select_related("vc")
        .defer("spec")
        .order_by("-priority", "submitted_at", "pk")
    )
    if not jobs:
        return
    _end_what_passed([job for job in jobs if job.state == JobState.ACTIVE])
    waiting = [
        job for job in jobs if job.state == JobState.QUEUED and job.desired == Desired.RUN and not job.blocked_by
    ]
    if waiting:
        _keep_waiting(pool, waiting)


def go_on_unscreened(*, job_id: int, why: str) -> bool:
    """Let a job that waits for its screening run wait in its own queue instead; False if it does not wait for one."""
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True, of=("self",)).select_related("vc").get(pk=job_id)
        run = screening_run_of(job)
        if run is None or job.state != JobState.QUEUED or job.desired != Desired.RUN:
            return False
        waited_s = max(0.0, database_now().timestamp() - run.since)
        forget_reservations([job.pk])
        Job.objects.filter(pk=job.pk).update(**in_its_own_queue(job), hold=None, hold_reason="")
        _write(job, ScreeningVerdict.UNTRIED, why, _Figures(waited_s=waited_s))
        wake_pool(job.vc.pool_id)
    return True


def _end_what_passed(jobs: Sequence[Job]) -> None:
    if not jobs:
        return
    running = Attempt.objects.filter(
        job__in=jobs, stage=Stage.SCREENING, state=AttemptState.RUNNING, unreachable_since__isnull=True
    ).select_related("job", "speed")
    now = database_now()
    for attempt in running.order_by("pk"):
        ran_s = (now - (attempt.running_at or now)).total_seconds()
        speed = getattr(attempt, "speed", None)
        if speed is not None and speed.since is not None:
            detail = f"it got to its first step after {max(ran_s, 0.0):.0f} s"
        elif ran_s >= (attempt.time_limit_s or 0.0):
            detail = f"it ran for {ran_s:.0f} s"
        else:
            continue
        stop_attempt(
            attempt_id=attempt.pk,
            outcome=AttemptState.CANCELLED,
            reason=Reason.SCREENING_PASSED,
            detail=detail,
            actor="platform",
        )


def _keep_waiting(pool: Pool, jobs: Sequence[Job]) -> None:
    room, now = room_of(pool), database_now().timestamp()
    screened = set(pool.screens.values_list("pool_id", flat=True))
    stay, smaller = [], {}
    for job, run in ((job, screening_run_of(job)) for job in jobs):
        if run is None:
            continue
        why = _why_in_vain(job, run, room_is_there=bool(room.usable), now=now)
        if job.vc.pool_id not in screened:
            why = f"jobs of its pool are not screened in {pool.name} any more"
        if why:
            go_on_unscreened(job_id=job.pk, why=why)
        elif job.hold_reason in _NEVER_THERE:
            on_one = reshaped(job, run, Shape(1, 1), kind=run.request.first.gpu_type)
            smaller[job.pk] = replace(on_one, world=1)  # and on no more from now on
        else:
            stay.append(job)
    # What is kept for a job is kept in the shape that it has.
    kept = set(Reservation.objects.filter(job__in=stay).values_list("pk", flat=True))
    changed = smaller | fitted([job for job in stay if job.pk not in kept], room)
    before = {job.pk: job.screening for job in jobs}
    for job_id, run in changed.items():
        rows = Job.objects.filter(pk=job_id, state=JobState.QUEUED, stage=Stage.SCREENING, screening=before[job_id])
        if rows.update(screening=run.stored(), hold=None, hold_reason=""):
            wake_pool(pool.pk)


def _why_in_vain(job: Job, run: ScreeningRun, *, room_is_there: bool, now: float) -> str:
    if not room_is_there:
        return "the screening pool has no healthy GPU"
    if now >= run.until:
        return f"it waited for its screening run for {now - run.since:.0f} s"
    if job.hold_reason in _NEVER_THERE and run.gpus_total == 1:
        return f"the screening pool cannot run it: {(job.hold or {}).get('detail', job.hold_reason)}"[:500]
    return ""


@dataclass(frozen=True, slots=True)
class _Figures:
    waited_s: float = 0.0
    ran_s: float = 0.0
    gpus: int = 0
    held_s: float = 0.0


def _figures(end: ScreeningEnd) -> _Figures:
    attempt, run = end.attempt, screening_run_of(end.job)
    ran_s = (utc_now() - attempt.running_at).total_seconds() if attempt.running_at else 0.0
    waited_s = 0.0 if run is None else attempt.placed_at.timestamp() - run.since
    return _Figures(waited_s=max(waited_s, 0.0), ran_s=max(ran_s, 0.0), gpus=attempt.gpus_total, held_s=end.held_s)


_KINDS = {ScreeningVerdict.UNTRIED: "skipped", ScreeningVerdict.TRUSTED: "skipped"}


def _write(
    job: Job,
    verdict: ScreeningVerdict,
    detail: str,
    figures: _Figures,
    *,
    digest: str = "",
    end: ScreeningEnd | None = None,
) -> None:
    """The row of a result, and the event that tells of it."""
    attempt = end.attempt if end is not None else None
    told = (attempt.failure or {}) if attempt is not None else {}
    failed = verdict is ScreeningVerdict.FAILED or (verdict is ScreeningVerdict.INCONCLUSIVE and bool(told))
    full = full_gpu_s(gpus_asked=job.gpus_total, failed_after_s=figures.ran_s) if failed else 0.0
    ScreeningResult.objects.create(
        job=job,
        tenant_id=job.tenant_id,
        pool_id=job.vc.pool_id,
        attempt=attempt,
        verdict=verdict,
        detail=detail[:500],
        failure=told.get("class", "")[:60],
        line=told.get("line", "")[:400],
        hint=told.get("hint", ""),
        digest=digest or digest_of(job),
        gpus_asked=job.gpus_total,
        gpus=figures.gpus,
        waited_s=figures.waited_s,
        ran_s=figures.ran_s,
        spent_gpu_s=spent_gpu_s(gpus=figures.gpus, held_s=figures.held_s),
        full_gpu_s=full,
        saved_gpu_s=full if verdict is ScreeningVerdict.FAILED else 0.0,
    )
    data: dict[str, Any] = {"verdict": verdict, "detail": detail[:500], "gpus": figures.gpus, "of": job.gpus_total}
    if attempt is not None:
        data["attempt"] = attempt.number
    if told:
        data["failure"] = told["class"]
    kind = f"job.screening_{_KINDS.get(verdict, verdict)}"
    record(kind, actor="platform", tenant_id=job.tenant_id, job_id=job.pk, data=data)
