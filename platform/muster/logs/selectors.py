"""Finding the log that a reader wants, and reading on from a place in it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from muster.common.errors import NotFound
from muster.jobs.models import Allocation, Attempt, Job
from muster.logs.models import LogChunk, LogFile
from muster.logs.store import read
from scheduler.lifecycle import ATTEMPT_TERMINAL

MOST_PIECES = 200
_FIELDS = (
    "position",
    "offset",
    "size",
    "allocation__attempt_id",
    "allocation__rank",
    "allocation__log_file__segment_bytes",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one rank; `cursor` is the place behind them in the order that the reader follows."""

    rank: int
    offset: int
    body: bytes
    cursor: int


def attempt_of(job: Job, number: int | None) -> Attempt | None:
    """The attempt with this number, or the latest; None if the job has none yet."""
    attempts = Attempt.objects.filter(job=job).order_by("-number")
    if number is None:
        return attempts.first()
    attempt = attempts.filter(number=number).first()
    if attempt is None:
        raise NotFound(f"job {job.pk} has no attempt {number}")
    return attempt


def rank_of(attempt: Attempt, rank: int) -> Allocation:
    """The allocation that holds this rank."""
    allocation = (
        Allocation.objects.filter(attempt=attempt, rank=rank).select_related("attempt__job", "log_file").first()
    )
    if allocation is None:
        raise NotFound(f"attempt {attempt.number} has no rank {rank}")
    return allocation


def log_file(allocation: Allocation) -> LogFile:
    """The rank's log; an empty one if it has printed nothing."""
    found: LogFile | None = getattr(allocation, "log_file", None)
    return found or LogFile(allocation=allocation)


def pieces(attempt: Attempt, *, cursor: int, rank: int | None, largest: int, at_border: bool = False) -> list[Piece]:
    """What was stored behind the cursor, in order, up to about `largest` bytes.

    The cursor counts accepted bytes of all ranks, or with a rank that rank's own bytes. A reader who goes on from the
    cursor of the last piece is `at_border`; any other may come back to a place in the middle of a chunk.
    """
    chunks: QuerySet[LogChunk] = LogChunk.objects.filter(attempt=attempt)
    chunks = chunks.select_related("allocation__log_file").only(*_FIELDS)
    if rank is not None:
        chunks = chunks.filter(allocation__rank=rank)
    place = "position" if rank is None else "offset"
    result: list[Piece] = []
    size = 0
    inside = None
    if cursor and not at_border:
        inside = chunks.filter(**{f"{place}__lt": cursor}).order_by(f"-{place}").first()
    if inside is not None and _place(inside, rank) + inside.size > cursor:
        result.append(_piece(attempt, inside, rank, skip=cursor - _place(inside, rank)))
        size += len(result[0].body)
    for row in chunks.filter(**{f"{place}__gte": cursor}).order_by(place)[:MOST_PIECES]:
        if size >= largest:
            break
        result.append(_piece(attempt, row, rank, skip=0))
        size += row.size
    return result


def bytes_before(attempt: Attempt, piece: Piece, count: int) -> bytes:
    """The bytes in front of the piece, at most `count` of them and none beyond a hole."""
    if piece.offset == 0:
        return b""
    allocation = rank_of(attempt, piece.rank)
    holes = [min(stop, piece.offset) for start, stop in log_file(allocation).holes if start < piece.offset]
    return read(allocation, start=max([0, piece.offset - count, *holes]), end=piece.offset)


def is_over(attempt: Attempt) -> bool:
    """Whether the attempt, as the caller has read it, has ended and all that it printed is stored."""
    if attempt.state not in ATTEMPT_TERMINAL:
        return False
    unfinished = Allocation.objects.filter(attempt=attempt, claimed_at__isnull=False).exclude(
        log_file__finished_at__isnull=False
    )
    return not unfinished.exists()


def _place(chunk: LogChunk, rank: int | None) -> int:
    return chunk.position if rank is None else chunk.offset


def _piece(attempt: Attempt, chunk: LogChunk, rank: int | None, *, skip: int) -> Piece:
    chunk.allocation.attempt = attempt
    body = read(chunk.allocation, start=chunk.offset + skip, end=chunk.offset + chunk.size)
    return Piece(chunk.allocation.rank, chunk.offset + skip, body, _place(chunk, rank) + chunk.size)
