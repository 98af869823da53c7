"""Unpacking of a job's code: plain files and folders below one folder, or nothing at all.

An archive comes from a member and is unpacked before any process of the job exists, possibly by root. So only regular
files and folders are taken, every path is checked before it is used, and sizes and counts are bounded. The checks are
our own: `tarfile`'s filters do not exist in every Python that an agent may run on.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from typing import BinaryIO, List

MAX_ENTRIES = 50_000
MAX_BYTES = 4 << 30
_COPY_BYTES = 1 << 16


class UnsafeArchive(Exception):
    """An archive that is broken or holds what code may not hold; the message names the entry."""


def unpack(source: BinaryIO, folder: str, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> int:
    """Unpack a tar.gz into `folder`, which no one else writes to, and return the number of entries."""
    entries, room = 0, max_bytes
    try:
        with tarfile.open(fileobj=source, mode="r|gz") as archive:
            for member in archive:
                entries += 1
                if entries > max_entries:
                    raise UnsafeArchive("more than {} entries".format(max_entries))
                room -= max(0, member.size)
                if room < 0:
                    raise UnsafeArchive("more than {} bytes".format(max_bytes))
                _unpack_member(archive, member, folder)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise UnsafeArchive("cannot be unpacked: {}".format(error)) from error
    return entries


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    parts = safe_parts(member.name)
    if member.isdir():
        os.makedirs(os.path.join(folder, *parts), mode=0o755, exist_ok=True)
        return
    if not member.isreg() or member.issparse():
        raise UnsafeArchive("{!r} is neither a file nor a folder".format(member.name[:200]))
    if not parts:
        raise UnsafeArchive("an entry without a name")
    os.makedirs(os.path.join(folder, *parts[:-1]), mode=0o755, exist_ok=True)
    content = archive.extractfile(member)
    if content is None:
        raise UnsafeArchive("{!r} has no content".format(member.name[:200]))
    mode = 0o755 if member.mode & 0o111 else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(os.path.join(folder, *parts), flags, mode), "wb") as target:
        while True:
            data = content.read(_COPY_BYTES)
            if not data:
                break
            target.write(data)


def safe_parts(name: str) -> List[str]:
    """The folders and the file that a relative path names; it may neither be absolute nor climb."""
    if name.startswith("/") or "\0" in name:
        raise UnsafeArchive("{!r} is not a relative path".format(name[:200]))
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UnsafeArchive("{!r} leads out of the folder".format(name[:200]))
    return parts
