"""Unpacking of a job's code: plain files and folders below one folder, or nothing at all.

An archive comes from a member and is unpacked before any process of the job exists, possibly by root.
`nodeagent.protocol.archives` has the rules for its contents; the platform has checked it by the same ones.
"""

from __future__ import annotations

import os
from typing import BinaryIO

from nodeagent.protocol.archives import Member, UnsafeArchive, members

MAX_ENTRIES = 50_000
MAX_BYTES = 4 << 30


def unpack(source: BinaryIO, folder: str, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> int:
    """Unpack a tar.gz into `folder`, which no one else writes to, and return the number of entries."""
    entries = 0
    try:
        for member in members(source, max_entries=max_entries, max_bytes=max_bytes):
            entries += 1
            _unpack_member(member, folder)
    except OSError as error:
        raise UnsafeArchive("cannot be unpacked: {}".format(error)) from error
    return entries


def _unpack_member(member: Member, folder: str) -> None:
    folders = member.parts if member.is_folder else member.parts[:-1]
    os.makedirs(os.path.join(folder, *folders), mode=0o755, exist_ok=True)
    if member.is_folder:
        return
    mode = 0o755 if member.executable else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(os.path.join(folder, *member.parts), flags, mode), "wb") as target:
        for data in member.content():
            target.write(data)
