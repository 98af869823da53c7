"""Finding the log that a reader wants, and reading on from a place in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from muster.common.rows import part_of, require_first
from muster.jobs.models import Allocation, Attempt, Job
from muster.logs.models import LogFile, LogHead
from muster.logs.store import read, read_to_hole
from scheduler.model.lifecycle import ATTEMPT_TERMINAL

MAX_PIECES = 200
# Their list is a header of an answer, and proxies accept few KiB of headers.
MAX_TURNS = 100

# Every follower reads this whenever the log has grown.
_CHUNKS = """
SELECT chunk.{place}, chunk."offset", chunk.size, allocation.id, allocation.rank, log.segment_bytes
FROM logs_logchunk AS chunk
JOIN jobs_allocation AS allocation ON allocation.id = chunk.allocation_id
JOIN logs_logfile AS log ON log.allocation_id = allocation.id
WHERE chunk.attempt_id = %(attempt)s AND {of} AND chunk.{place} {side} %(cursor)s
ORDER BY chunk.{place} {order} LIMIT %(most)s
"""
_OF_ALL = {"of": "true", "place": "position"}
_OF_RANK = {"of": "allocation.rank = %(rank)s", "place": '"offset"'}
_BEFORE, _FROM = {"side": "<", "order": "DESC"}, {"side": ">=", "order": "ASC"}


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one rank; `cursor` is the place behind them in the order that the reader follows."""

    rank: int
    offset: int
    body: bytes
    cursor: int

    @property
    def start(self) -> int:
        """The place of the first byte in that order."""
        return self.cursor - len(self.body)


class Turn(NamedTuple):
    """Bytes that one rank wrote without a byte of another between them; `offset` counts the rank's own bytes."""

    rank: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Extract:
    """Stored bytes that follow each other in an order; `size` is the order's length so far, holes included.

    `start` is the place of the first byte: behind the place that was asked for if that lies in a hole.
    """

    start: int
    body: bytes
    turns: list[Turn]
    size: int

    @property
    def end(self) -> int:
        """The place behind the last byte."""
        return self.start + len(self.body)


def attempt_of(job: Job, number: int | None) -> Attempt | None:
    """The attempt with this number, or the latest; None if the job has none yet."""
    attempts = Attempt.objects.filter(job=job).order_by("-number")
    if number is None:
        return attempts.first()
    return require_first(attempts.filter(number=number), f"job {job.pk} has no attempt {number}")


def rank_of(attempt: Attempt, rank: int) -> Allocation:
    """The allocation that holds this rank."""
    rows = Allocation.objects.filter(attempt=attempt, rank=rank).select_related("attempt__job", "log_file")
    return require_first(rows, f"attempt {attempt.number} has no rank {rank}")


def log_file(allocation: Allocation) -> LogFile:
    """The rank's log; an empty one if it has printed nothing."""
    found: LogFile | None = getattr(allocation, "log_file", None)
    return found or LogFile(allocation=allocation)


def pieces(attempt: Attempt, *, cursor: int, rank: int | None, largest: int, at_border: bool = False) -> list[Piece]:
    """Pieces stored after the cursor, in order, up to about `largest` bytes.

    The cursor counts the bytes of all ranks, or with a rank that rank's own bytes. A reader who goes on from the
    cursor of the last piece is `at_border`; any other may come back to a place in the middle of a chunk.
    """
    result: list[Piece] = []
    size = 0
    if cursor and not at_border:
        for row in _rows(attempt, rank, _BEFORE, cursor, most=1):
            if row.place + row.size > cursor:
                result.append(_piece(attempt, row, skip=cursor - row.place))
                size += len(result[0].body)
    for row in _rows(attempt, rank, _FROM, cursor, most=MAX_PIECES):
        if size >= largest:
            break
        result.append(_piece(attempt, row, skip=0))
        size += row.size
    return result


def extract(
    attempt: Attempt, *, rank: int | None, offset: int, limit: int, max_turns: int | None = MAX_TURNS
) -> Extract:
    """The stored bytes at or behind `offset`: up to `limit` bytes, the next hole, or `max_turns` turns of ranks.

    Offsets count the bytes of all ranks in the order of arrival, or with a rank that rank's own bytes. In an attempt of
    one rank these are the same.
    """
    if rank is None and int(attempt.request.nodes) > 1:
        return _extract_of_all(attempt, offset, limit, max_turns)
    allocation = rank_of(attempt, rank or 0)
    log = log_file(allocation)
    start, body = read_to_hole(allocation, log, offset=offset, limit=limit)
    return Extract(start, body, [Turn(allocation.rank, start, len(body))] if body else [], log.size)


def _extract_of_all(attempt: Attempt, offset: int, limit: int, max_turns: int | None) -> Extract:
    # The length is read before the chunks: what is missing in front of it is a hole, and not a chunk that just came.
    size = LogHead.objects.filter(attempt=attempt).values_list("position", flat=True).first() or 0
    turns: list[Turn] = []
    bodies: list[bytes] = []
    start = end = None
    for piece in _all_pieces(attempt, offset, largest=limit):
        if start is None or end is None:
            start = end = piece.start
        if piece.start != end or end - start >= limit:
            break
        body = piece.body[: start + limit - end]
        last = turns[-1] if turns else None
        if last and (last.rank, last.offset + last.size) == (piece.rank, piece.offset):
            turns[-1] = last._replace(size=last.size + len(body))
        elif len(turns) == max_turns:
            break
        else:
            turns.append(Turn(piece.rank, piece.offset, len(body)))
        bodies.append(body)
        end += len(body)
    if start is None or end is None:
        return Extract(max(offset, size), b"", [], size)
    return Extract(start, b"".join(bodies), turns, max(size, end))


def _all_pieces(attempt: Attempt, cursor: int, *, largest: int) -> Iterator[Piece]:
    """Output of all ranks from the cursor on, read by handfuls."""
    at_border = False
    while found := pieces(attempt, cursor=cursor, rank=None, largest=largest, at_border=at_border):
        yield from found
        cursor, at_border = found[-1].cursor, True


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


class _Row(NamedTuple):
    """A chunk; `place` is where it begins in the order that the reader follows."""

    place: int
    offset: int
    size: int
    allocation_id: int
    rank: int
    segment_bytes: int


def _rows(attempt: Attempt, rank: int | None, where: dict[str, str], cursor: int, *, most: int) -> list[_Row]:
    text = _CHUNKS.format(**(_OF_ALL if rank is None else _OF_RANK), **where)
    with connection.cursor() as database:
        database.execute(text, {"attempt": attempt.pk, "rank": rank, "cursor": cursor, "most": most})
        return [_Row(*row) for row in database.fetchall()]


def _piece(attempt: Attempt, row: _Row, *, skip: int) -> Piece:
    allocation = part_of(Allocation, id=row.allocation_id, attempt_id=attempt.pk, rank=row.rank)
    allocation.attempt = attempt
    allocation.log_file = part_of(LogFile, allocation_id=row.allocation_id, segment_bytes=row.segment_bytes)
    body = read(allocation, start=row.offset + skip, end=row.offset + row.size)
    return Piece(row.rank, row.offset + skip, body, row.place + row.size)
