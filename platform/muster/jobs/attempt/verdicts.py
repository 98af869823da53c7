"""Evidence of a failed attempt, for the classifier: its ranks' logs, what the platform did, what GPUs reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.events.models import Event
from muster.jobs.models import Allocation, Attempt, GpuClaim, RankTail
from muster.jobs.ports import ports
from scheduler.diagnosis.failures import GpuEvent, Tail, Verdict, classify
from scheduler.diagnosis.failures.log_excerpt import excerpt_of
from scheduler.diagnosis.failures.rules import NO_SIGNATURE
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Log, Reason

# The first ranks that end tell most; each more costs a few milliseconds while the job is locked.
MAX_TAILS = 8
_FAILED = frozenset({AttemptState.FAILED, AttemptState.LOST})
_XIDS = {"gpu_lost": 79, "ecc": 48}
"""The Xid that goes with what an agent saw by other means than the kernel's log."""


def keep_tail(allocation: Allocation, tail: str, *, of_gang: bool) -> None:
    """Remember the end of a rank's log until the gang is over; a rank that is alone needs no memory."""
    if of_gang and tail and RankTail.objects.filter(allocation__attempt_id=allocation.attempt_id).count() < MAX_TAILS:
        RankTail.objects.get_or_create(allocation=allocation, defaults={"text": tail})


def verdict_on(
    attempt: Attempt, allocations: Sequence[Allocation], *, ended_as: AttemptState, reason: Reason, last_tail: str
) -> Verdict | None:
    """The verdict on a failed attempt; None for one that did not fail, or whose cause the platform knows better.

    `last_tail` is that of the rank that ended last; those of the others were kept, and are forgotten now.
    """
    kept = RankTail.objects.filter(allocation__attempt=attempt)
    tails = dict(kept.values_list("allocation_id", "text")) if len(allocations) > 1 else {}
    if tails:
        kept.delete()
    if ended_as not in _FAILED or reason.meaning.log is Log.UNREAD:
        return None
    if len(allocations) == 1:
        tails = {allocations[0].pk: last_tail}
    verdict = classify(
        # A rank that died without a word may still have been the first.
        [_tail(one, tails.get(one.pk, "")) for one in allocations if one.end_reason != Reason.COMPLETED],
        status=attempt.exit_code,
        platform={reason.value},
        gpus=_gpu_events(attempt, [one.node_id for one in allocations]),
        rules=ports.failure_rules(),
    )
    if verdict.failure == NO_SIGNATURE and not verdict.line:
        # No rule knows this failure. The excerpt lets a user judge it, and groups jobs with the same message.
        verdict = replace(verdict, line=excerpt_of(max(tails.values(), key=len, default="")))
    return verdict


def failed_so_before(attempt: Attempt, verdict: Verdict | None, reason: Reason) -> int:
    """The number of earlier attempts of the job that failed in the same way."""
    earlier = Attempt.objects.filter(job_id=attempt.job_id, number__lt=attempt.number)
    if reason is Reason.GPU_CHECK_FAILED:
        return earlier.filter(reason=reason).count()
    return 0 if verdict is None else earlier.filter(failure__contains={"class": verdict.failure}).count()


def stored(verdict: Verdict) -> dict[str, Any]:
    """A verdict as it is kept with the attempt and the job."""
    return {
        "class": verdict.failure,
        "category": verdict.category.value,
        "retry": verdict.retry.value,
        "confidence": verdict.confidence,
        "line": _storable(verdict.line),
        "hint": verdict.hint,
        "rank": verdict.rank,
    }


def _tail(allocation: Allocation, text: str) -> Tail:
    ended_at = allocation.ended_at
    return Tail(
        data=text.encode("utf-8", errors="replace"),
        rank=allocation.rank,
        status=allocation.exit_code,
        ended_at_s=None if ended_at is None else ended_at.timestamp(),
    )


def _gpu_events(attempt: Attempt, node_ids: Collection[int]) -> list[GpuEvent]:
    """Events of the attempt's GPUs that agents reported since it was placed."""
    told = Event.objects.filter(node_id__in=list(node_ids), kind="gpu.health", at__gte=attempt.placed_at)
    rows = list(told.order_by("pk").values_list("data", flat=True)[:100])
    if not rows:
        return []
    held = set(GpuClaim.objects.filter(allocation__attempt=attempt).values_list("gpu__uuid", flat=True))
    return [_gpu_event(data) for data in rows if data["gpu"] in held]


def _gpu_event(data: Mapping[str, Any]) -> GpuEvent:
    xid = data["xid"]
    return GpuEvent(xid=_XIDS.get(data["kind"]) if xid is None else xid, message=data["detail"])


def _storable(line: str) -> str:
    """The line as Postgres and a page can have it."""
    return "".join(char if char.isprintable() else " " for char in line)[:400]
