"""Small disks that can be filled: a tmpfs over a folder, with what was in it or empty."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_FILLER = ".filler"


@contextlib.contextmanager
def small_disk(folder: Path, size_mib: int, *, with_content: bool, inodes: int = 0) -> Iterator[None]:
    """Put the folder on a disk of its own while the block lasts; skips the test without the right to mount.

    `inodes` limits the number of files; by default the disk runs out of bytes first. No process may have files of the
    folder open before or after.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    before = folder.stat()
    aside = folder.with_name(f"{folder.name}.aside")
    if with_content:
        subprocess.run(["cp", "-a", str(folder), str(aside)], check=True)
    options = f"size={size_mib}m,mode={before.st_mode & 0o7777:o},uid={before.st_uid},gid={before.st_gid}"
    if inodes:
        options += f",nr_inodes={inodes}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        shutil.rmtree(aside, ignore_errors=True)
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        if with_content:
            subprocess.run(["cp", "-a", f"{aside}/.", str(folder)], check=True)
        yield
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filled(folder: Path, *, but_bytes: int = 0) -> Iterator[None]:
    """Fill the folder's disk but for `but_bytes` while the block lasts."""
    path = folder / _FILLER
    try:
        with path.open("wb", buffering=0) as file:
            size = 1 << 20
            while size:
                try:
                    file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2
            file.truncate(max(0, file.tell() - but_bytes))
        yield
    finally:
        path.unlink()
