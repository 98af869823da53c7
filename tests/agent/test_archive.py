"""Unpacking of code: plain files arrive, everything else is refused and leaves nothing outside."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.archive import UnsafeArchive, unpack


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def test_files_and_folders_arrive_with_plain_modes(tmp_path: Path) -> None:
    source = packed(
        (entry("a", tarfile.DIRTYPE), b""),
        (entry("a/run.sh", mode=0o4755), b"#!/bin/sh\n"),
        (entry("./deep/er/x.txt", mode=0o600), b"x"),
        (entry("n" * 150 + ".txt"), b"long"),
        (entry("a/run.sh", mode=0o4755), b"#!/bin/bash\n"),
    )
    assert unpack(source, str(tmp_path)) == 5
    assert (tmp_path / "a/run.sh").read_bytes() == b"#!/bin/bash\n"
    assert stat.S_IMODE((tmp_path / "a/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "deep/er/x.txt").stat().st_mode) == 0o644
    assert (tmp_path / ("n" * 150 + ".txt")).read_bytes() == b"long"


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("/etc/evil", tarfile.REGTYPE, ""),
        ("../evil", tarfile.REGTYPE, ""),
        ("a/../../evil", tarfile.REGTYPE, ""),
        ("..", tarfile.DIRTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("link", tarfile.SYMTYPE, "inside"),
        ("link", tarfile.LNKTYPE, "inside"),
        ("device", tarfile.CHRTYPE, ""),
        ("device", tarfile.BLKTYPE, ""),
        ("fifo", tarfile.FIFOTYPE, ""),
        ("", tarfile.REGTYPE, ""),
    ],
)
def test_what_is_not_a_plain_file_inside_is_refused(tmp_path: Path, name: str, kind: bytes, link: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.raises(UnsafeArchive):
        unpack(packed((entry(name, kind, link), b"")), str(folder))
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive):
        unpack(packed((entry("a"), b"x"), (entry("a/b"), b"y")), str(tmp_path))


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive, match="more than 2 entries"):
        unpack(packed(*((entry(str(i)), b"") for i in range(3))), str(tmp_path), max_entries=2)


def test_too_many_bytes_are_refused_before_they_are_written(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchive, match="more than 100 bytes"):
        unpack(packed((entry("a"), b"x" * 60), (entry("b"), b"x" * 60)), str(tmp_path), max_bytes=100)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "spoil",
    [lambda data: b"", lambda data: b"no archive", lambda data: data[: len(data) // 2]],
    ids=["empty", "text", "cut"],
)
def test_a_broken_archive_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    whole = packed((entry("a"), b"content" * 1000)).getvalue()
    with pytest.raises(UnsafeArchive):
        unpack(io.BytesIO(spoil(whole)), str(tmp_path))
