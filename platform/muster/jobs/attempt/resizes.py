"""Resizes that do not come back: the job goes on in its former size, and is not resized again for a while."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from muster.common.clock import utc_now
from muster.common.rows import first_of
from muster.jobs.models import Attempt, Job
from muster.jobs.ports import ports
from scheduler.diagnosis.failures import Verdict, title_of
from scheduler.model.codec import from_json, to_json
from scheduler.model.lifecycle import AttemptState, Desired, Stage
from scheduler.model.reasons import Reason, Retried
from scheduler.model.request import Request, interned

TRIAL_S = 600.0
"""Seconds in which a resized attempt makes its first progress; a job that reports none must run for so long."""
BACK_OFF_S, MAX_BACK_OFF_S = 600.0, 21_600.0

_BROKEN_CHECKPOINT = "checkpoint_error"


@dataclass(frozen=True, slots=True)
class FailedResize:
    """A resize that did not come back; `Job.failed_resize` stores the last one. Sizes are GPUs in all.

    The job keeps the size `before`, on `nodes`, until then. `count` counts all such resizes of the job.
    """

    before: int
    wanted: int
    at: float
    because: str
    until: float
    count: int
    nodes: int = 1

    def stored(self) -> dict[str, Any]:
        """The record as plain JSON values."""
        return to_json(self)


def failed_resize_from(stored: object) -> FailedResize:
    """The record that `FailedResize.stored` made `stored` from."""
    return from_json(FailedResize, stored)


def in_former_size(request: Request, failed: FailedResize) -> Request:
    """The request in exactly the size that the job had before a failed resize."""
    choices = tuple(request.resized(one, failed.before // failed.nodes) for one in request.choices)
    return interned(replace(request, choices=choices, nodes=failed.nodes, elastic=None))


@dataclass(frozen=True, slots=True)
class Former:
    """The size of a job before its present attempt, and the attempt that ran in it; None: none has run."""

    request: Request
    attempt: Attempt | None


def resized_from(attempt: Attempt) -> Former | None:
    """The size in which the job ran before, or that it asks for if it has not run; None if it is the present one.

    Attempts that failed do not count.
    """
    request, given = attempt.job.request, attempt.request
    asked = request.choice_of(given.first.gpu_type)
    if attempt.stage != Stage.FULL or request.elastic is None or asked is None:
        return None
    earlier = Attempt.objects.filter(job_id=attempt.job_id, stage=Stage.FULL, number__lt=attempt.number)
    before = first_of(earlier.filter(running_at__isnull=False).exclude(state=AttemptState.FAILED).order_by("-number"))
    former = request.given(asked) if before is None else before.request
    return Former(former, before) if former.gpus_total != given.gpus_total else None


def resize_that_failed(
    job: Job, attempt: Attempt, *, ended_as: AttemptState, reason: Reason, verdict: Verdict | None
) -> FailedResize | None:
    """The resize that fails with this end of its attempt; None if the end has another cause, or the resize came back.

    A checkpoint that cannot be read fails in every size: that is a failure of the job.
    """
    # An end that is never retried, or one by its time limit, is not the size's fault: another size does not help.
    not_the_size = reason.meaning.retry is Retried.NEVER or reason is Reason.TIME_LIMIT
    if ended_as is not AttemptState.FAILED or job.desired != Desired.RUN or not_the_size:
        return None
    if verdict is not None and verdict.failure == _BROKEN_CHECKPOINT:
        return None
    before = resized_from(attempt)
    if before is None or _came_back(attempt, before.attempt):
        return None
    count = 1 if job.failed_resize is None else failed_resize_from(job.failed_resize).count + 1
    now = utc_now().timestamp()
    return FailedResize(
        before=before.request.gpus_total,
        wanted=attempt.request.gpus_total,
        at=now,
        because=_because(attempt, reason, verdict)[:300],
        until=now + min(BACK_OFF_S * 2 ** min(count - 1, 16), MAX_BACK_OFF_S),
        count=count,
        nodes=before.request.nodes,
    )


def _came_back(attempt: Attempt, before: Attempt | None) -> bool:
    ids = {attempt.pk} if before is None else {attempt.pk, before.pk}
    if grown := ports.with_progress(ids):
        return attempt.pk in grown
    ended_at = attempt.stopping_at or utc_now()
    return attempt.running_at is not None and (ended_at - attempt.running_at).total_seconds() >= TRIAL_S


def _because(attempt: Attempt, reason: Reason, verdict: Verdict | None) -> str:
    if reason is Reason.RESIZE_FAILED:
        return attempt.reason_detail
    if verdict is not None and verdict.line:
        return verdict.line
    title, detail = title_of(reason, exit_code=attempt.exit_code), attempt.reason_detail
    return title if detail in {"", f"exit status {attempt.exit_code}"} else f"{title}: {detail}"
