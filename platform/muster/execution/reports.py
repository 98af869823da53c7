"""Reports of executors about ranks: the platform's side of the port."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from muster.failures.log_watch import look_at, look_at_the_end
from muster.jobs.attempt.attempts import End, end_allocation, lose_allocations
from muster.jobs.attempt.attempts import claim_allocation as claim
from muster.jobs.attempt.attempts import note_progress as progress
from muster.jobs.attempt.attempts import report_kept as kept
from muster.jobs.attempt.attempts import report_running as running
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation
from muster.logs.store import Chunk, LogEnd, append, finds_room, finish
from muster.monitoring.store import Point, keep_points
from scheduler.model.lifecycle import AllocationState
from scheduler.model.reasons import Reason

__all__ = ["claim", "end", "end_log", "kept", "log", "look_at_closed", "lose", "progress", "report", "running"]


def end(rank: Rank, *, claimant: Claimant, end: End, points: Sequence[Point] = ()) -> None:
    """Take over the end of a rank, with its last metrics."""
    end_allocation(rank, claimant=claimant, end=end)
    if points:
        _take([(rank, points)], Allocation.objects.all())


def report(told: Sequence[tuple[Rank, Sequence[Point]]]) -> None:
    """Take over the metrics that ranks report while they run; reports of other ranks are passed over."""
    if told:
        _take(told, Allocation.objects.exclude(state=AllocationState.RELEASED))


def _take(told: Sequence[tuple[Rank, Sequence[Point]]], among: QuerySet[Allocation]) -> None:
    """The way of every metric of every rank: the metrics of a job are those of its first rank."""
    found = among.filter(pk__in=[rank.allocation_id for rank, _ in told])
    numbers = {tuple(key): number for *key, number in found.values_list("node_id", "pk", "attempt_id", "rank")}
    keep_points(
        {
            rank.fence: points
            for rank, points in told
            if numbers.get((rank.node_id, rank.allocation_id, rank.fence)) == 0
        }
    )


def lose(*, attempt_id: int, node_id: int, reason: Reason, detail: str, blame: bool = True) -> bool:
    """Let what the attempt holds on the node go; False if it held nothing there."""
    return lose_allocations(
        attempt_id=attempt_id, node_id=node_id, reason=reason, detail=detail, blame=blame, actor="platform"
    )


def log(allocation: Allocation, chunk: Chunk) -> int:
    """Store a chunk of a log, and look at it by the operators' rules; a chunk that is sent again is looked at again."""
    size = append(allocation, chunk)
    look_at(allocation, start=chunk.offset, body=chunk.body)
    return size


def end_log(allocation: Allocation, end: LogEnd) -> None:
    """Close a log with the rest of it; what it ends with is a line too."""
    with finds_room():
        finish(allocation, end)
    look_at_closed(allocation, end)


def look_at_closed(allocation: Allocation, end: LogEnd) -> None:
    """Look at the rest of a log that is closed by the operators' rules; one that is sent again is looked at again."""
    if end.rest is not None:
        look_at(allocation, start=end.rest.offset, body=end.rest.body)
    look_at_the_end(allocation)
