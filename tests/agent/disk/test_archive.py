"""Unpacking of code: plain files arrive, everything else is refused and leaves nothing outside."""

from __future__ import annotations

import io
import stat
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.launch.archive import unpack
from nodeagent.protocol import archives
from nodeagent.protocol.archives import MAX_HEADERS_BEFORE_ENTRY, UnsafeArchive, safe_parts
from tests import hostile


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
    source = packed((entry("a"), b"x" * 600), (entry("b"), b"x" * 600))
    with pytest.raises(UnsafeArchive, match="more than 2048 bytes"):
        unpack(source, str(tmp_path), max_bytes=2048)
    assert (tmp_path / "a").stat().st_size == 600
    assert not (tmp_path / "b").exists()


def test_what_stands_between_and_after_the_files_counts_too(tmp_path: Path) -> None:
    padding = hostile.zipped(hostile.block("a", tarfile.REGTYPE), hostile.LARGE)
    with pytest.raises(UnsafeArchive, match="more than 1048576 bytes"):
        unpack(io.BytesIO(padding), str(tmp_path), max_bytes=1 << 20)


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_format_is_read(tmp_path: Path, kind: int) -> None:
    files = {"a.txt": b"a", "folder/": b"", f"{'d' * 80}/{'e' * 90}.txt": b"long" * 5000}
    if kind != tarfile.USTAR_FORMAT:
        files |= {f"{'ü' * 100}/{'n' * 251}.txt": b"longer", hostile.deep(63): b"deep"}
    unpack(io.BytesIO(hostile.tar(*files.items(), kind=kind)), str(tmp_path))
    for name, content in files.items():
        assert (tmp_path / name).is_dir() if name.endswith("/") else (tmp_path / name).read_bytes() == content


def test_the_size_in_a_header_before_is_the_size(tmp_path: Path) -> None:
    sized = hostile.pax(hostile.record("size", "3"), hostile.record("mtime", "1.5"))
    source = hostile.zipped(sized, hostile.block("a", tarfile.REGTYPE), hostile.padded(b"abc"), 1024)
    unpack(io.BytesIO(source), str(tmp_path))
    assert (tmp_path / "a").read_bytes() == b"abc"


def test_a_folder_of_the_oldest_format_is_one(tmp_path: Path) -> None:
    old = hostile.block("old/", tarfile.AREGTYPE)
    # The short name that goes with a long one may be cut just after a slash.
    long_name = b"l" * 99 + b"/file\0"
    cut = hostile.block("long", tarfile.GNUTYPE_LONGNAME, len(long_name)) + hostile.padded(long_name)
    source = hostile.zipped(old, cut, hostile.block("l" * 99 + "/", tarfile.AREGTYPE), 1024)
    assert unpack(io.BytesIO(source), str(tmp_path)) == 2
    assert (tmp_path / "old").is_dir()
    assert (tmp_path / ("l" * 99) / "file").is_file()


def test_headers_that_say_nothing_of_an_entry_are_passed_over(tmp_path: Path) -> None:
    for_all = hostile.pax(hostile.record("comment", "0" * 40), kind=tarfile.XGLTYPE)
    source = hostile.zipped(for_all * MAX_HEADERS_BEFORE_ENTRY, hostile.block("a", tarfile.REGTYPE), 1024)
    assert unpack(io.BytesIO(source), str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("most", "what"), [("MAX_RECORDS", "records"), ("MAX_TOTAL_HEADER_BYTES", "bytes")], ids=["records", "bytes"]
)
def test_headers_are_counted_in_the_whole_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: str, what: str
) -> None:
    header = hostile.pax(hostile.record("mtime", "1.5"), hostile.record("atime", "1.5"))
    source = hostile.zipped(*((header + hostile.block(name, tarfile.REGTYPE)) for name in "abc"), 1024)
    cost = 2 if most == "MAX_RECORDS" else 1024
    monkeypatch.setattr(archives, most, 3 * cost)
    assert unpack(io.BytesIO(source), str(tmp_path)) == 3
    monkeypatch.setattr(archives, most, 3 * cost - 1)
    with pytest.raises(UnsafeArchive, match=f"headers have more than .* {what}"):
        unpack(io.BytesIO(source), str(tmp_path))


@pytest.mark.parametrize("body", hostile.COSTLY.values(), ids=hostile.COSTLY)
def test_headers_that_cost_too_much_together_are_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(UnsafeArchive, match=r"headers have more than \d+"):
        unpack(io.BytesIO(body), str(tmp_path))


@pytest.mark.parametrize("body", hostile.HEADERS.values(), ids=hostile.HEADERS)
def test_headers_that_cost_too_much_are_refused_in_little_memory(tmp_path: Path, body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UnsafeArchive):
            unpack(io.BytesIO(body), str(tmp_path))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < hostile.MEMORY_BYTES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("body", hostile.PATHS.values(), ids=hostile.PATHS)
def test_what_lies_too_deep_is_refused_by_its_name(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(UnsafeArchive, match=r"'(a/|n)+.*(deeper than 64 folders|longer than)"):
        unpack(io.BytesIO(body), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_dots_and_doubled_slashes_are_no_levels() -> None:
    assert safe_parts("./a//" + "./" * 100 + "b") == ("a", "b")


def test_a_bomb_is_refused_in_little_memory(tmp_path: Path) -> None:
    bomb = hostile.zipped(hostile.block("a", tarfile.REGTYPE, hostile.LARGE), hostile.LARGE, 1024)
    assert len(bomb) < hostile.LARGE // 500
    tracemalloc.start()
    try:
        with pytest.raises(UnsafeArchive, match="more than"):
            unpack(io.BytesIO(bomb), str(tmp_path), max_bytes=hostile.LARGE)
        assert unpack(io.BytesIO(bomb), str(tmp_path)) == 1
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < hostile.MEMORY_BYTES
    assert (tmp_path / "a").stat().st_size == hostile.LARGE


@pytest.mark.parametrize(
    "after",
    [packed((entry("b"), b"")).getvalue(), b"x", bytes(70_000) + b"x"],
    ids=["a second one", "a byte", "a byte far behind"],
)
def test_nothing_may_follow_the_stream(tmp_path: Path, after: bytes) -> None:
    whole = packed((entry("a"), b"")).getvalue()
    with pytest.raises(UnsafeArchive, match="something follows"):
        unpack(io.BytesIO(whole + after), str(tmp_path))
    unpack(io.BytesIO(whole + bytes(70_000)), str(tmp_path))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"no archive",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
        lambda data: hostile.zipped(),
        lambda data: hostile.zipped(b"no tar" * 100),
        lambda data: hostile.zipped(b"short"),
        lambda data: hostile.zipped(hostile.block("a", tarfile.REGTYPE, 1000), 600),
    ],
    ids=["empty", "text", "cut", "cut short", "another checksum", "nothing in it", "no tar", "no block", "half a file"],
)
def test_a_broken_archive_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    whole = packed((entry("a"), b"content" * 1000)).getvalue()
    with pytest.raises(UnsafeArchive):
        unpack(io.BytesIO(spoil(whole)), str(tmp_path))
