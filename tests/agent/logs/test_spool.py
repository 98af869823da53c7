"""The spool: every byte that is returned is the one at its offset, and the first and the newest are kept."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.runtime.shim import spool
from nodeagent.runtime.shim.spool import SpoolReader, SpoolWriter
from tests.profiles import examples

CAP = 800


def pattern(start: int, size: int) -> bytes:
    """Bytes that tell their offset."""
    return bytes((offset * 7 + offset // 256) % 256 for offset in range(start, start + size))


@settings(max_examples=examples(60))
@given(st.lists(st.one_of(st.integers(1, 300), st.just("read")), max_size=40))
def test_a_reader_sees_the_bytes_of_their_offsets_and_always_the_first_and_the_newest(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]
) -> None:
    folder = str(tmp_path_factory.mktemp("spool"))
    writer, reader, position = SpoolWriter(folder, CAP), SpoolReader(folder), 0
    for step in [*steps, *["read"] * 200]:
        if isinstance(step, int):
            writer.append(pattern(writer.size, step))
            assert sum(path.stat().st_size for path in Path(folder).iterdir()) <= CAP
        else:
            start, data = reader.read(position, 70)
            assert start >= position
            assert data == pattern(start, len(data))
            position = start + len(data)
    assert position == writer.size == reader.end()
    assert reader.read(0, CAP // 8) == (0, pattern(0, min(CAP // 8, writer.size)))
    newest = max(0, writer.size - CAP + 2 * CAP // 8)
    assert reader.read(newest, 1)[0] == newest
    reader.close()
    writer.close()


def test_a_reader_that_comes_late_has_the_beginning(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(str(tmp_path), CAP), SpoolReader(str(tmp_path))
    for _ in range(9):
        writer.append(pattern(writer.size, CAP // 2))
    assert reader.read(0, CAP) == (0, pattern(0, CAP // 8))
    start, data = reader.read(CAP // 8, CAP)
    assert writer.size - CAP < start <= writer.size - CAP + 2 * CAP // 8
    assert data == pattern(start, len(data))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= CAP


def test_a_reader_that_falls_behind_finds_the_hole(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(str(tmp_path), CAP), SpoolReader(str(tmp_path))
    writer.append(pattern(0, 50))
    assert reader.read(0, 10) == (0, pattern(0, 10))
    writer.append(pattern(50, 2000))
    # The segment that it has open is still whole for it.
    assert reader.read(10, 1000) == (10, pattern(10, 90))
    start, data = reader.read(100, 1000)
    assert start > 100
    assert data == pattern(start, len(data))


def test_a_full_disk_makes_a_hole_and_costs_the_oldest_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = SpoolWriter(str(tmp_path), CAP), SpoolReader(str(tmp_path))
    writer.append(pattern(0, 30))

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as disk:
        disk.setattr(spool.os, "write", full)
        for _ in range(20):
            writer.append(b"x" * 10)
    writer.append(pattern(230, 20))
    assert writer.size == 250
    assert reader.read(0, 100) == (230, pattern(230, 20))
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [20]


@pytest.mark.parametrize("what", ["taken away", "no folder any more"])
def test_what_cannot_be_kept_is_counted_whatever_became_of_the_folder(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    writer = SpoolWriter(str(folder), CAP)
    writer.append(pattern(0, 30))
    folder.rename(tmp_path / "taken")
    if what == "no folder any more":
        folder.touch()
    writer.append(pattern(30, 2000))
    writer.append(pattern(2030, 20))
    assert writer.size == 2050
    kept = SpoolReader(str(tmp_path / "taken"))
    assert kept.read(0, 1000) == (0, pattern(0, CAP // 8))
    folder.unlink(missing_ok=True)
    (tmp_path / "taken").rename(folder)
    writer.append(pattern(2050, 20))
    assert SpoolReader(str(folder)).read(2000, 100) == (2050, pattern(2050, 20))
    writer.close()


def test_a_removed_spool_is_empty(tmp_path: Path) -> None:
    reader = SpoolReader(str(tmp_path / "none"))
    assert (reader.read(5, 10), reader.end()) == ((5, b""), 0)
    assert not os.listdir(tmp_path)
