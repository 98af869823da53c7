"""Code archives: checked, and stored once by the SHA-256 of their bytes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.db import transaction

from muster.accounts.models import User
from muster.common.errors import Invalid, NoRoom, NotFound, TooLarge
from muster.common.stored import StoredFile
from muster.events.room import Room
from muster.jobs.models import CodeArchive
from nodeagent.protocol.archives import TooMuchInArchive, UnsafeArchive, members

MAX_ARCHIVE_BYTES = 100 << 20
ROOM = Room(
    "uploads",
    what="the store of uploaded code",
    so="Jobs with code that is new here cannot be submitted; all others can.",
)
MAX_UNPACKED_BYTES = 1 << 30
MAX_FILES = 50_000


def store_code(*, user: User, draft: Path, sha256: str, private: bool = False) -> tuple[CodeArchive, bool]:
    """Keep an uploaded file as an archive of the user's; returns it and whether its bytes are new here.

    `private`: clones of a job by other users do not get it.

    The file is checked whole before anything is stored, and moved into its place by a rename. `NoRoom` if the disk is
    full.
    """
    size = draft.stat().st_size
    if size > MAX_ARCHIVE_BYTES:
        raise TooLarge(f"a code archive may have {MAX_ARCHIVE_BYTES >> 20} MiB at most")
    actual = _digest(draft)
    if actual != sha256.lower():
        raise Invalid.field("X-Content-SHA256", f"the body has the digest {actual}")
    check_archive(draft)
    place = code_path(actual)
    with ROOM.needed(Path(settings.STATE_FOLDER)):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The file must be durable before a row says that it is there.
        with draft.open("rb") as handle:
            os.fsync(handle.fileno())
        draft.replace(place)
    with transaction.atomic():
        archive, created = CodeArchive.objects.get_or_create(sha256=actual, defaults={"size": size, "private": private})
        archive.owners.add(user)
    return archive, created


def shared_with(user: User, code: CodeArchive) -> bool:
    """True if the user may run this code of a job that they see; they may from then on, unless it is private.

    Who may see a job may run its code: it stands readable in the job's own work folder.
    """
    if not code.owners.filter(pk=user.pk).exists():
        if code.private:
            return False
        code.owners.add(user)
    return True


def has_code(user: User, sha256: str) -> bool:
    """Whether the user has uploaded this archive; what only others uploaded looks as if it were not there."""
    return CodeArchive.objects.filter(sha256=sha256, owners=user).exists()


def open_code(sha256: str) -> Path:
    """The path of the archive's bytes; raises `NotFound` if they are gone."""
    path = code_path(sha256)
    if not path.is_file():
        raise NotFound("there is no such archive")
    return path


def code_path(sha256: str) -> Path:
    """The file of an archive, by its digest."""
    return Path(settings.STATE_FOLDER) / "code" / sha256[:2] / f"{sha256}.tar.gz"


def stored_files() -> Iterator[StoredFile]:
    """All archives of code."""
    for sha256, size in CodeArchive.objects.order_by("pk").values_list("sha256", "size").iterator():
        yield StoredFile(PurePosixPath(code_path(sha256).relative_to(settings.STATE_FOLDER)), size, sha256)


def new_draft() -> Path:
    """An empty file on the same file system as the archives, for an upload to be written to."""
    folder = Path(settings.STATE_FOLDER) / "code" / "incoming"
    with ROOM.needed(Path(settings.STATE_FOLDER)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
    os.close(handle)
    return Path(name)


def no_room(error: OSError) -> NoRoom | None:
    """The refusal of an upload for a full disk's error; None for any other error."""
    return ROOM.refusal(Path(settings.STATE_FOLDER), error)


def check_archive(path: Path) -> None:
    """Refuse what is not a plain folder of files: links, devices, absolute paths, `..`, or far too much."""
    try:
        with path.open("rb") as packed:
            for member in members(packed, max_entries=MAX_FILES, max_bytes=MAX_UNPACKED_BYTES):
                if not member.name.isprintable():
                    raise UnsafeArchive(f"the path {member.name[:200]!r} is not printable")
    except TooMuchInArchive as error:
        raise TooLarge(f"more than {MAX_FILES} files or {MAX_UNPACKED_BYTES >> 20} MiB when unpacked") from error
    except UnsafeArchive as error:
        raise Invalid.field("code", f"the archive cannot be used: {error}") from error


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
