"""The log store: bytes in segment files by offset, their order in Postgres.

A rank's log is a run of offsets. Segment N of it holds the offsets from N times `segment_bytes` on, so that any part
can be read with one seek and old parts can be dropped by removing files. The segment size depends on the log: the first
and the last segment are never dropped, so a log with a small cap has small segments. The row of the log is locked while
bytes are appended; bytes whose transaction did not commit are written again by the next try.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from zlib import crc32

from django.conf import settings
from django.db import connection, transaction

from muster.common.errors import Conflict, Invalid
from muster.common.models import DatabaseNow
from muster.common.rows import part_of
from muster.common.stored import StoredFile
from muster.events.redis import log_channel, publish
from muster.events.room import Room
from muster.jobs.models import Allocation
from muster.logs.models import LogChunk, LogFile

MAX_SEGMENT_BYTES = 4 << 20
MIN_SEGMENT_BYTES = 4 << 10
ROOM = Room(
    "logs",
    what="the log store",
    so="Jobs go on; what they print waits on their nodes, as far as the spools there reach, and is lost beyond that.",
)

_LOCK = "SELECT size, holes, segment_bytes, finished_at FROM logs_logfile WHERE allocation_id = %s FOR NO KEY UPDATE"
_MAKE = (
    "INSERT INTO logs_logfile (allocation_id, size, holes, segment_bytes) VALUES (%s, 0, '[]', %s)"
    " ON CONFLICT DO NOTHING RETURNING size, holes, segment_bytes, finished_at"
)
_CLOSE_EMPTY = (
    "INSERT INTO logs_logfile (allocation_id, size, holes, segment_bytes, finished_at, complete)"
    " VALUES (%s, 0, '[]', %s, clock_timestamp(), %s) ON CONFLICT DO NOTHING"
)
_DIGEST_OF_NOTHING = hashlib.sha256().hexdigest()

# `position` of the head is where the next bytes of any rank begin. A hole has its places in the order, so that a reader
# sees that bytes are missing, and the order is as long as the logs of all ranks together.
_INDEX = """
WITH grown AS (
    UPDATE logs_logfile SET size = %s, holes = %s WHERE allocation_id = %s),
head AS (
    INSERT INTO logs_loghead AS head (attempt_id, position) VALUES (%s, %s)
    ON CONFLICT (attempt_id) DO UPDATE SET position = head.position + excluded.position RETURNING position)
INSERT INTO logs_logchunk (allocation_id, attempt_id, position, "offset", size, crc32)
SELECT %s, %s, head.position - told.size, told."offset", told.size, told.crc32
FROM head, (VALUES (%s::bigint, %s::bigint, %s::bigint)) AS told ("offset", size, crc32)
"""
_LENGTHEN = """
INSERT INTO logs_loghead AS head (attempt_id, position) VALUES (%s, %s)
ON CONFLICT (attempt_id) DO UPDATE SET position = head.position + excluded.position
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to append at an offset; `dropped` = the range [from, to) before it that the agent gave up."""

    offset: int
    body: bytes
    crc32: int
    dropped: tuple[int, int] | None = None

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.body)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log: its size and its digest, the holes in it, and the rest that was not sent before."""

    size: int
    sha256: str
    holes: Sequence[tuple[int, int]] = ()
    rest: Chunk | None = None


class Gap(Exception):
    """The chunk starts behind what is stored; `size` says where the next one must start."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the log has {size} bytes")
        self.size = size


def append(allocation: Allocation, chunk: Chunk) -> int:
    """Store the chunk and return the log's size; `NoRoom` while the disk is full.

    1. Bytes that are stored already must be the same bytes: a resend is fine, a rewrite is a `Conflict`.
    2. A chunk behind the end is a `Gap`, unless the bytes between were given up.
    3. New bytes go to the segment files, then the index; readers are told after the commit.
    4. A job that prints more than its pool allows loses what is oldest behind the first eighth. So a rank never has
       more stored than its part of what is allowed and the chunk that just came.
    """
    with finds_room(), transaction.atomic():
        return _append(allocation, _locked(allocation), chunk)


def finds_room() -> AbstractContextManager[None]:
    """Turns the error of a full disk into `NoRoom`; outside any transaction."""
    return ROOM.needed(_root())


def _append(allocation: Allocation, log: LogFile, chunk: Chunk) -> int:
    if chunk.offset < log.size:
        _require_same(allocation, log, chunk)
        if chunk.end <= log.size:
            return log.size
    if log.finished_at is not None:
        raise Conflict("the log is finished: its digest has been compared, and it grows no more")
    if chunk.offset < log.size:
        rest = chunk.body[log.size - chunk.offset :]
        chunk = Chunk(log.size, rest, crc32(rest))
    holes = [tuple(hole) for hole in log.holes]
    if chunk.offset > log.size:
        if chunk.dropped is None or chunk.dropped[0] > log.size or chunk.dropped[1] != chunk.offset:
            raise Gap(log.size)
        holes.append((log.size, chunk.offset))
    if not chunk.body:
        return log.size
    _write(_folder(allocation), log.segment_bytes, chunk)
    holes = merged(holes)
    _index(allocation, chunk, holes, grown_bytes=chunk.end - log.size)
    left = _give_up_oldest(allocation, log.segment_bytes, chunk.end, holes)
    if left != holes:
        LogFile.objects.filter(pk=allocation.pk).update(holes=left)
    log.size, log.holes = chunk.end, left
    transaction.on_commit(lambda: publish(log_channel(allocation.attempt_id)))
    return chunk.end


def finish(allocation: Allocation, end: LogEnd, *, savepoint: bool = True) -> None:
    """Append the rest and close the log; whether it is complete is found out by comparing digests, and only recorded.

    What is refused is refused before the log changes. With a rest the caller is within `finds_room`, or handles the
    error of a full disk.
    """
    if end.size < 0 or any(not 0 <= start < stop <= end.size for start, stop in end.holes):
        raise Invalid.field("holes", "each hole must lie within the log")
    if end.size == 0 and _close_empty(allocation, complete=end.sha256.lower() in {"", _DIGEST_OF_NOTHING}):
        return
    with transaction.atomic(savepoint=savepoint):
        log = _locked(allocation)
        if end.rest is not None:
            _append(allocation, log, end.rest)
        if log.finished_at is not None:
            return
        all_holes = merged([*(tuple(hole) for hole in log.holes), *end.holes])
        if log.size < end.size:
            all_holes = merged([*all_holes, (log.size, end.size)])
            with connection.cursor() as cursor:
                cursor.execute(_LENGTHEN, [allocation.attempt_id, end.size - log.size])
        # Only a whole log can be complete. The bytes are read only if they decide it, and never because of a size or
        # holes that an agent claims. An agent that restarted inside a log larger than its spool cannot send its digest.
        whole = not all_holes and log.size == end.size
        complete = whole and (not end.sha256 or _digest(allocation, end.size) == end.sha256.lower())
        LogFile.objects.filter(pk=allocation.pk).update(
            finished_at=DatabaseNow(), complete=complete, holes=all_holes, size=max(end.size, log.size)
        )
        transaction.on_commit(lambda: publish(log_channel(allocation.attempt_id)))


def _close_empty(allocation: Allocation, *, complete: bool) -> bool:
    """Close a log to which nothing was ever appended, as most that stay empty are; False if it has a row already."""
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.execute(_CLOSE_EMPTY, [allocation.pk, _segment_bytes(allocation), complete])
        if not cursor.rowcount:
            return False
        transaction.on_commit(lambda: publish(log_channel(allocation.attempt_id)))
    return True


def _segment_bytes(allocation: Allocation) -> int:
    return max(MIN_SEGMENT_BYTES, min(_cap(allocation) // 8, MAX_SEGMENT_BYTES))


def _locked(allocation: Allocation) -> LogFile:
    """The log's row under lock, made if there is none. Every chunk passes here: so one statement, and it is our own."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [allocation.pk])
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_MAKE, [allocation.pk, _segment_bytes(allocation)])
            row = cursor.fetchone()
        if row is None:  # another transaction was faster
            cursor.execute(_LOCK, [allocation.pk])
            row = cursor.fetchone()
    size, holes, segment_bytes, finished_at = row
    log = part_of(
        LogFile,
        allocation_id=allocation.pk,
        size=size,
        holes=json.loads(holes),
        segment_bytes=segment_bytes,
        finished_at=finished_at,
    )
    # The allocation knows it from here on: who reads bytes must know how large the segments are.
    log.allocation = allocation
    return log


def _index(allocation: Allocation, chunk: Chunk, holes: list[tuple[int, int]], *, grown_bytes: int) -> None:
    """Let the log grow by the chunk and the hole in front of it, and give them the next places in the common order of
    the attempt's ranks, in one statement for all three tables.
    """
    size = len(chunk.body)
    grown = (chunk.end, json.dumps(holes), allocation.pk)
    told = (allocation.pk, allocation.attempt_id, chunk.offset, size, chunk.crc32)
    with connection.cursor() as cursor:
        cursor.execute(_INDEX, [*grown, allocation.attempt_id, grown_bytes, *told])


def read(allocation: Allocation, *, start: int, end: int) -> bytes:
    """The stored bytes of [start, end); bytes that were given up are left out, so compare with the holes."""
    return b"".join(_pieces(_folder(allocation), allocation.log_file.segment_bytes, start, end))


def read_to_hole(allocation: Allocation, log: LogFile, *, offset: int, limit: int) -> tuple[int, bytes]:
    """The offset of the first stored byte at or after `offset`, and up to `limit` bytes from there to the next hole."""
    end = min(offset + limit, log.size)
    for hole_start, hole_end in sorted(tuple(hole) for hole in log.holes):
        if hole_start <= offset < hole_end:
            offset, end = hole_end, min(hole_end + limit, log.size)
        elif offset < hole_start:
            end = min(end, hole_start)
            break
    return offset, read(allocation, start=offset, end=end) if offset < end else b""


def stored_files() -> Iterator[StoredFile]:
    """The segments that the database refers to, each up to its last byte that is in no hole."""
    for _, segments in _segments():
        yield from (StoredFile(path, stored[-1][1] - start) for path, start, stored in segments)


def state_missing_segments() -> int:
    """State as holes what the database refers to and the state folder lacks, and return how many bytes that is.

    A segment that was given up while a backup was made is missing in it. Nothing else may use the logs meanwhile.
    """
    missing_bytes = 0
    for allocation_id, segments in _segments():
        lost = []
        for path, start, stored in segments:
            file = Path(settings.STATE_FOLDER) / path
            length = file.stat().st_size if file.is_file() else 0
            lost += [(max(low, start + length), high) for low, high in stored if high > start + length]
        if not lost:
            continue
        missing_bytes += _total(lost)
        with transaction.atomic():
            allocation = Allocation.objects.select_related("attempt__job__pool").get(pk=allocation_id)
            log = LogFile.objects.get(pk=allocation_id)
            allocation.log_file = log
            LogFile.objects.filter(pk=allocation_id).update(holes=merged([*map(tuple, log.holes), *lost]))
            for low, high in merged(lost):
                _leave_out(allocation, low, high)
    return missing_bytes


_Segment = tuple[PurePosixPath, int, list[tuple[int, int]]]
"""A file, the offset of its first byte, and the ranges of offsets in it that are stored."""


def _segments() -> Iterator[tuple[int, list[_Segment]]]:
    """The segments of each log that have anything stored, by the id of the allocation."""
    columns = ("pk", "size", "holes", "segment_bytes", "allocation__rank", "allocation__attempt_id")
    rows = LogFile.objects.order_by("pk").values_list(*columns, "allocation__attempt__job_id")
    for allocation_id, size, holes, segment_bytes, rank, attempt_id, job_id in rows.iterator():
        folder = PurePosixPath("logs", f"{job_id % 1000:03d}", str(job_id), str(attempt_id), str(rank))
        by_segment: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        position = 0
        for start, end in [*merged([tuple(hole) for hole in holes]), (size, size)]:
            while position < start:
                number = position // segment_bytes
                stop = min(start, (number + 1) * segment_bytes)
                by_segment[number].append((position, stop))
                position = stop
            position = end
        yield (
            allocation_id,
            [
                (folder / f"{number:08d}", number * segment_bytes, stored)
                for number, stored in sorted(by_segment.items())
            ],
        )


def merged(holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order, with those that touch made one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(holes):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _require_same(allocation: Allocation, log: LogFile, chunk: Chunk) -> None:
    end = min(chunk.end, log.size)
    stored = LogChunk.objects.filter(allocation=allocation, offset=chunk.offset).values("size", "crc32").first()
    if stored and stored["size"] == len(chunk.body) and stored["crc32"] == chunk.crc32:
        return
    if any(start < end and chunk.offset < stop for start, stop in log.holes):
        return  # given up in the meantime: there is nothing left to compare with
    if read(allocation, start=chunk.offset, end=end) != chunk.body[: end - chunk.offset]:
        raise Conflict(f"other bytes are stored at {chunk.offset}")


def _cap(allocation: Allocation) -> int:
    """The most bytes that are kept of this rank: the ranks of a job share what its pool allows."""
    attempt = allocation.attempt
    return attempt.job.pool.log_max_bytes_per_job // int(attempt.request.nodes)


def _give_up_oldest(
    allocation: Allocation, segment_bytes: int, size: int, holes: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    cap = _cap(allocation)
    kept = size - _total(holes)
    if kept <= cap:
        return holes
    head_segments = -(-(cap // 8) // segment_bytes)
    last = size // segment_bytes
    given_up: list[tuple[int, int]] = []
    for path in sorted(_folder(allocation).iterdir(), key=lambda path: int(path.name)):
        number = int(path.name)
        if number < head_segments or number >= last or kept <= cap:
            continue
        start, end = number * segment_bytes, (number + 1) * segment_bytes
        given_up.append((start, end))
        holes = merged([*holes, (start, end)])
        kept = size - _total(holes)
        # Not before the hole is stated for good.
        transaction.on_commit(partial(path.unlink, missing_ok=True))
    # One chunk may be many small segments; those that lie side by side leave the index together.
    for start, end in merged(given_up):
        _leave_out(allocation, start, end)
    return holes


def _leave_out(allocation: Allocation, start: int, end: int) -> None:
    """Take [start, end) out of the index. A chunk that reaches into it keeps what it has outside."""
    chunks = LogChunk.objects.filter(allocation=allocation)
    before = chunks.filter(offset__lt=start).order_by("-offset").first()
    for chunk in [*([before] if before else []), *chunks.filter(offset__gte=start, offset__lt=end)]:
        stop = chunk.offset + chunk.size
        if stop > end:
            LogChunk.objects.create(
                attempt_id=chunk.attempt_id,
                position=chunk.position + end - chunk.offset,
                allocation=allocation,
                offset=end,
                size=stop - end,
                crc32=crc32(read(allocation, start=end, end=stop)),
            )
        if chunk.offset >= start:
            chunks.filter(pk=chunk.pk).delete()
        elif stop > start:
            rest = read(allocation, start=chunk.offset, end=start)
            chunks.filter(pk=chunk.pk).update(size=len(rest), crc32=crc32(rest))


def _total(holes: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in merged(holes))


def _write(folder: Path, segment_bytes: int, chunk: Chunk) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    offset, body = chunk.offset, memoryview(chunk.body)
    while body:
        number, within = divmod(offset, segment_bytes)
        piece = body[: segment_bytes - within]
        path = folder / f"{number:08d}"
        with path.open("r+b" if path.exists() else "w+b") as handle:
            handle.seek(within)
            handle.write(piece)
        offset, body = offset + len(piece), body[len(piece) :]


def _pieces(folder: Path, segment_bytes: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        number, within = divmod(start, segment_bytes)
        length = min(end - start, segment_bytes - within)
        path = folder / f"{number:08d}"
        if path.exists():
            with path.open("rb") as handle:
                handle.seek(within)
                yield handle.read(length)
        start += length


def _digest(allocation: Allocation, size: int) -> str:
    digest = hashlib.sha256()
    for start in range(0, size, MAX_SEGMENT_BYTES):
        digest.update(read(allocation, start=start, end=min(start + MAX_SEGMENT_BYTES, size)))
    return digest.hexdigest()


def _folder(allocation: Allocation) -> Path:
    return _attempt_folder(allocation.attempt.job_id, allocation.attempt_id) / str(allocation.rank)


def _attempt_folder(job_id: int, attempt_id: int) -> Path:
    return _root() / f"{job_id % 1000:03d}" / str(job_id) / str(attempt_id)


def _root() -> Path:
    return Path(settings.STATE_FOLDER) / "logs"
