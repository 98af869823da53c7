"""Small files that are whole or not there: written beside, synced where asked, and renamed."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import Any, Dict, Optional

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a folder in which a job makes names: it may have put a link, or anything else, in its place."""


def open_of_job(home: str, name: str) -> Optional[int]:
    """Open for reading what a job wrote into its home; None where that is no plain file of its own."""
    try:
        folder = os.open(home, FOLDER)
        try:
            # Not blocking: a FIFO would hold the agent up. Not following: a link leads out of the folder.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:  # another name of it may be anybody's
        return descriptor
    os.close(descriptor)
    return None


def write_atomic(path: str, data: bytes, mode: int = 0o600, sync: bool = False) -> None:
    """Replace `path` by `data`; a reader sees the old or the new content, never a mixture."""
    beside = "{}.{}.new".format(path, os.getpid())
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)  # on a full disk every try would leave one
        raise


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_json(path: str, value: Dict[str, Any], sync: bool = False) -> None:
    """Replace `path` by the JSON of `value`."""
    write_atomic(path, json.dumps(value, separators=(",", ":")).encode(), sync=sync)


def keep_json(path: str, value: Dict[str, Any], sync: bool = False) -> None:
    """Have `path` hold the JSON of `value`. If it does already, nothing is written: a full disk would refuse that."""
    if read_json(path) != value:
        write_json(path, value, sync=sync)


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The JSON object in `path`; None when there is no such file or no object in it."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_in_place(path: str, value: Dict[str, Any], size: int) -> None:
    """Overwrite `path` with the JSON of `value`, padded to `size`: possible on a full disk once the file exists.

    A reader may see a mixture, which is no JSON or an old value; so this is for files that are read again later.
    """
    data = json.dumps(value, separators=(",", ":")).encode().ljust(size)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, data, 0)
    finally:
        os.close(descriptor)


class ShortPath:
    """A short name of a folder while the block lasts: the path of a socket may have 107 bytes."""

    def __init__(self, folder: str) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> "ShortPath":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def path(self, name: str) -> str:
        """The name of something in the folder."""
        return "/proc/self/fd/{}/{}".format(self._descriptor, name)
