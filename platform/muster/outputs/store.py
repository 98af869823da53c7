"""The store of the files that jobs leave: slots for what agents name, chunks by offset, digests in the end.

A file's bytes lie under its row's number in its job's folder, and the platform never parses them. All files that are
stored or on their way count against what a job may keep; a later attempt replaces the files of earlier ones when there
is not enough room. The bytes of a dropped file are removed after the transaction commits; what a crash leaves of them
goes with the job's folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q, Sum

from muster.common.errors import Conflict, Invalid
from muster.common.models import DatabaseNow
from muster.common.rows import require_first
from muster.common.stored import StoredFile
from muster.events.room import Room
from muster.events.services import record
from muster.jobs.models import Allocation, Job
from muster.outputs.models import HELD, Collection, FileState, OutputFile

MAX_FILES = 1000
"""The most files that are kept of a job."""
MAX_ROWS = 2 * MAX_FILES
"""The most files of a rank that get a row each, left-out ones included; others are counted."""
MAX_PATH_BYTES = 1024
LEFT_FREE = 0.05
"""The part of the disk that files of jobs leave to the rest of the platform."""
ROOM = Room(
    "outputs",
    what="the store of the files that jobs leave",
    so="Files wait on their nodes until there is room, and take up the disks there meanwhile.",
)

_TOLD_BY_AGENTS = {
    FileState.TOO_LARGE,
    FileState.OVER_LIMIT,
    FileState.CHANGED,
    FileState.VANISHED,
    FileState.BAD_NAME,
    FileState.NOT_A_FILE,
    FileState.NOT_OWNED,
    FileState.TOO_DEEP,
    FileState.UNREADABLE,
}


@dataclass(frozen=True, slots=True)
class Named:
    """A file as an agent names it; `reason` says why it does not come, and is empty for one that could."""

    path: str
    size: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a file: how much of it is here, and whether more is wanted."""

    id: int
    size: int
    wanted: bool


class Gap(Exception):
    """The chunk starts behind what is stored; `size` says where the next one must start."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes")
        self.size = size


@dataclass(slots=True)
class _Use:
    """The files and bytes that a job keeps, while its row is locked."""

    files: int
    bytes: int

    def has_room_for(self, size: int) -> bool:
        return self.files < MAX_FILES and self.bytes + size <= settings.OUTPUTS_MAX_BYTES


def name_files(allocation: Allocation, files: Sequence[Named]) -> list[Slot]:
    """A slot for each of the files, in their order.

    1. A file that was named before, with the same size, has the slot that it had.
    2. A new one is wanted if it fits into what the job may keep; files of earlier attempts make room, oldest first.
    3. Why one is not wanted is kept in its row.

    What could never fit on the disk is not wanted; what only does not fit now is, and waits when it comes.
    """
    for position, file in enumerate(files):
        _require_path(f"files[{position}].path", file.path)
        _require_size(f"files[{position}].size", file.size)
    with ROOM.needed(Path(settings.STATE_FOLDER)), transaction.atomic():
        job = _locked_job(allocation)
        collection, _ = Collection.objects.get_or_create(allocation=allocation)
        known = {row.path: row for row in OutputFile.objects.filter(allocation=allocation)}
        use = _use_of(job)
        fresh: list[OutputFile] = []
        for file in files:
            row = known.get(file.path)
            if row is not None and row.size == file.size:
                continue
            if collection.finished_at is not None or (row is None and len(known) >= MAX_ROWS):
                continue
            if row is not None:  # it is not the file that it was
                _let_go([row], use)
            state = _state_for(file.size, job, allocation, use)
            row = row or OutputFile(job=job, allocation=allocation, path=file.path)
            row.size, row.stored, row.sha256, row.state = file.size, 0, "", state
            if state in HELD:
                use.files, use.bytes = use.files + 1, use.bytes + file.size
            known[file.path] = row
            fresh.append(row)
        _store(fresh)
    return [_slot(known.get(file.path)) for file in files]


def append(allocation: Allocation, file_id: int, *, offset: int, body: bytes, sha256: str | None) -> int:
    """Store a chunk and return how much of the file is here; the last chunk comes with the digest of the whole.

    Bytes that are here already may come again: what counts in the end is the digest, of all that is stored. A file
    that is no longer wanted is answered as if it were whole, so that its agent goes on to the next.

    Raises: NoRoom while there is no room for the rest of the file; the agent sends the chunk again later.
    """
    with ROOM.needed(Path(settings.STATE_FOLDER)), transaction.atomic():
        rows = OutputFile.objects.select_for_update(no_key=True).filter(pk=file_id, allocation=allocation)
        row = require_first(rows, "this rank has no such file")
        if row.state != FileState.ARRIVING:
            return row.size
        if offset > row.stored:
            raise Gap(row.stored)
        end = offset + len(body)
        if not body or end > row.size:
            raise Invalid.field("Content-Range", f"the file has {row.size} bytes")
        if (sha256 is not None) != (end == row.size):
            raise Invalid.field("X-Muster-Sha256", "send it with the last chunk, and with no other")
        ROOM.require(Path(settings.STATE_FOLDER), row.size - offset, left_free=LEFT_FREE)
        _write(place_of(row), offset, body)
        found = OutputFile.objects.filter(pk=row.pk)
        if sha256 is None:
            found.update(stored=max(row.stored, end))
            return max(row.stored, end)
        if _digest(place_of(row)) == sha256.lower():
            found.update(stored=row.size, sha256=sha256.lower(), state=FileState.KEPT)
        else:
            found.update(state=FileState.CHANGED)
            _remove_after_commit([row])
        return row.size


def finish(allocation: Allocation, *, left_out: Sequence[Named], more: int, cut_short: bool) -> None:
    """Close the files of a rank: what was left out has its reason, and what has not come whole will not."""
    for position, file in enumerate(left_out):
        _require_path(f"left_out[{position}].path", file.path, whole=False)
        _require_size(f"left_out[{position}].size", file.size)
    if not 0 <= more < 1 << 31:
        raise Invalid.field("more", "it must be a number of files")
    with transaction.atomic():
        job = _locked_job(allocation)
        collection, _ = Collection.objects.get_or_create(allocation=allocation)
        if collection.finished_at is not None:
            return
        known = {row.path: row for row in OutputFile.objects.filter(allocation=allocation)}
        changed: list[OutputFile] = []
        for file in left_out:
            row = known.get(file.path)
            if row is None and len(known) >= MAX_ROWS:
                more += 1
                continue
            row = row or OutputFile(job=job, allocation=allocation, path=file.path, size=file.size)
            if row.state != FileState.KEPT:
                known[file.path] = row
                row.state = _reason(file.reason)
                changed.append(row)
        late = [row for row in known.values() if row.state == FileState.ARRIVING]
        for row in late:
            row.state = FileState.INCOMPLETE
        _store([*changed, *late])
        _remove_after_commit([row for row in (*changed, *late) if row.pk])
        Collection.objects.filter(pk=collection.pk).update(finished_at=DatabaseNow(), more=more, cut_short=cut_short)
        _tell(job, allocation, known.values(), more)


def forget(job_ids: Iterable[int]) -> int:
    """Remove all files of these jobs, and say so in their rows; returns how many there were."""
    count = 0
    for job_id in job_ids:
        # The bytes go first: a row that says that a file is here when it is not is put right by the next round.
        shutil.rmtree(_folder(job_id), ignore_errors=True)
        rows = OutputFile.objects.filter(job_id=job_id, state__in=HELD)
        count += rows.update(state=FileState.EXPIRED)
    return count


def stored_files() -> Iterator[StoredFile]:
    """The files of jobs that are here, whole or in part."""
    held = OutputFile.objects.filter(Q(state=FileState.KEPT) | Q(state=FileState.ARRIVING, stored__gt=0))
    for row in held.order_by("pk").iterator():
        place = PurePosixPath(place_of(row).relative_to(settings.STATE_FOLDER))
        yield StoredFile(place, row.stored, row.sha256)


def state_missing_files() -> int:
    """Let no row refer to a file that the state folder lacks, as after a restore, and return how many did."""
    rows = [row for row in OutputFile.objects.filter(state__in=HELD) if row.stored and not place_of(row).is_file()]
    ids = [row.pk for row in rows]
    OutputFile.objects.filter(pk__in=ids, state=FileState.ARRIVING).update(stored=0)
    OutputFile.objects.filter(pk__in=ids, state=FileState.KEPT).update(state=FileState.EXPIRED)
    return len(ids)


def place_of(file: OutputFile) -> Path:
    """The path of the file's bytes."""
    return _folder(file.job_id) / str(file.pk)


def _locked_job(allocation: Allocation) -> Job:
    """The allocation's job under lock, so that two ranks do not both take the last of its room."""
    if allocation.claimed_at is None:
        raise Conflict("the allocation was never claimed, so it has left no files")
    job = Job.objects.select_for_update(no_key=True).only("spec", "tenant_id").get(pk=allocation.attempt.job_id)
    if not job.spec.get("outputs"):
        raise Conflict("the job names no files that are kept")
    return job


def _use_of(job: Job) -> _Use:
    held = OutputFile.objects.filter(job=job, state__in=HELD).aggregate(files=Count("pk"), bytes=Sum("size"))
    return _Use(held["files"], held["bytes"] or 0)


def _state_for(size: int, job: Job, allocation: Allocation, use: _Use) -> FileState:
    """The state for a new file of this size."""
    if size > settings.OUTPUTS_MAX_BYTES:
        return FileState.TOO_LARGE
    while not use.has_room_for(size):
        earlier = OutputFile.objects.filter(job=job, state__in=HELD, allocation__attempt_id__lt=allocation.attempt_id)
        oldest = earlier.order_by("allocation__attempt_id").values_list("allocation__attempt_id", flat=True).first()
        if oldest is None:
            return FileState.OVER_LIMIT
        rows = list(earlier.filter(allocation__attempt_id=oldest))
        _let_go(rows, use)
        OutputFile.objects.filter(pk__in=[row.pk for row in rows]).update(state=FileState.MADE_ROOM)
    if size > shutil.disk_usage(settings.STATE_FOLDER).total * (1 - LEFT_FREE):
        return FileState.NO_SPACE
    return FileState.ARRIVING


def _let_go(rows: list[OutputFile], use: _Use) -> None:
    for row in rows:
        if row.state in HELD:
            use.files, use.bytes = use.files - 1, use.bytes - row.size
    _remove_after_commit(rows)


def _remove_after_commit(rows: list[OutputFile]) -> None:
    for row in rows:
        transaction.on_commit(partial(place_of(row).unlink, missing_ok=True))


def _store(rows: list[OutputFile]) -> None:
    """Insert what is new and update the rest. Nothing will come of an empty file, so it is whole from the beginning."""
    for row in rows:
        if row.state == FileState.ARRIVING and row.size == 0:
            row.state, row.sha256 = FileState.KEPT, hashlib.sha256().hexdigest()
    OutputFile.objects.bulk_create([row for row in rows if row.pk is None])
    for row in rows:
        if row.state == FileState.KEPT and row.size == 0:
            _write(place_of(row), 0, b"")
    OutputFile.objects.bulk_update([row for row in rows if row.pk], ["size", "stored", "sha256", "state"])


def _slot(row: OutputFile | None) -> Slot:
    if row is None:
        return Slot(0, 0, wanted=False)
    return Slot(row.pk, row.stored, wanted=row.state == FileState.ARRIVING)


def _reason(text: str) -> FileState:
    """The reason as an agent tells it; one that only a newer agent knows is none that we could explain."""
    return next((state for state in _TOLD_BY_AGENTS if state == text), FileState.INCOMPLETE)


def _require_path(field: str, path: str, *, whole: bool = True) -> None:
    """Return if the path can be shown; and, of a file that comes as a whole, be made below a folder."""
    parts = path.split("/")
    sound = bool(path) and path.isprintable() and len(path.encode(errors="replace")) <= MAX_PATH_BYTES
    if not sound or (whole and any(part in {"", ".", ".."} for part in parts)):
        raise Invalid.field(field, "it must be a printable path below the working folder")


def _require_size(field: str, size: int) -> None:
    if not 0 <= size < 1 << 63:
        raise Invalid.field(field, "it must be a number of bytes")


def _tell(job: Job, allocation: Allocation, rows: Iterable[OutputFile], more: int) -> None:
    kept = [row.size for row in rows if row.state == FileState.KEPT]
    left_out = more + sum(row.state != FileState.KEPT for row in rows)
    record(
        "attempt.outputs",
        actor="agent",
        tenant_id=job.tenant_id,
        job_id=job.pk,
        data={
            "attempt": allocation.attempt.number,
            "rank": allocation.rank,
            "files": len(kept),
            "bytes": sum(kept),
            "left_out": left_out,
        },
    )


def _write(path: Path, offset: int, body: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(body)
        while view:
            written = os.pwrite(descriptor, view, offset)
            offset, view = offset + written, view[written:]
    finally:
        os.close(descriptor)


def _digest(path: Path) -> str:
    """The digest of what is stored, which is durable from here on: a row is about to say that it is there."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _folder(job_id: int) -> Path:
    return Path(settings.STATE_FOLDER) / "outputs" / f"{job_id % 1000:03d}" / str(job_id)
