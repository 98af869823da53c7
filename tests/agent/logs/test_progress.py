"""A job's reported progress: the number in the last line, and nothing of what else may lie in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.runtime.shim.progress import NAME, read_progress

SAID: dict[str, tuple[bytes, float | None]] = {
    "a number alone": (b"1234", 1234.0),
    "a number and the end of its line": (b"1234\n", 1234.0),
    "a fraction": (b"0.125\n", 0.125),
    "a number as Python writes small ones": (b"1e-05\n", 1e-5),
    "the largest": (b"9007199254740992\n", 2.0**53),
    "more than a double tells apart": (b"1e16\n", None),
    "the last of many lines": (b"10\n20\n30\n", 30.0),
    "the last line that is not empty": (b"10\n20\r\n \n\n", 20.0),
    "the end of a long file": (b"7\n" * 100_000 + b"8\n", 8.0),
    "nothing": (b"", None),
    "empty lines": (b"\n\n\n", None),
    "a word": (b"step\n", None),
    "a number in a sentence": (b"step 12 of 40\n", None),
    "a last line that is not a number": (b"10\noops\n", None),
    "below zero": (b"-1\n", None),
    "no number": (b"nan\n", None),
    "without end": (b"inf\n", None),
    "more than there is": (b"1e400\n", None),
    "more digits than there are": (b"9" * 4000, None),
    "a line longer than is looked at": (b"1" * 100_000, None),
    "hexadecimal": (b"0x10\n", None),
    "Python's own ways": (b"1_000\n", None),
    "digits of another script": ("١٢".encode(), None),
    "bytes that are no text": (bytes(range(128, 256)), None),
    "a hole": (b"\0" * 5000, None),
}


@pytest.mark.parametrize(("content", "told"), SAID.values(), ids=list(SAID))
def test_the_last_line_counts(tmp_path: Path, content: bytes, told: float | None) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert read_progress(str(tmp_path)) == told


def test_without_a_file_there_is_none(tmp_path: Path) -> None:
    assert read_progress(str(tmp_path)) is None
    assert read_progress(str(tmp_path / "gone")) is None


def test_what_is_no_plain_file_of_its_own_is_not_read(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.write_text("12\n")
    there = home / NAME
    there.symlink_to(elsewhere)
    assert read_progress(str(home)) is None
    there.unlink()
    os.mkfifo(there)  # without a writer, a blocking open would never return
    assert read_progress(str(home)) is None
    there.unlink()
    there.mkdir()
    assert read_progress(str(home)) is None
    there.rmdir()
    os.link(elsewhere, there)
    assert read_progress(str(home)) is None
    there.unlink()
    there.symlink_to("/dev/zero")
    assert read_progress(str(home)) is None


def test_a_home_that_leads_elsewhere_is_not_entered(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / NAME).write_text("12\n")
    (tmp_path / "home").symlink_to(real)
    assert read_progress(str(real)) == 12.0
    assert read_progress(str(tmp_path / "home")) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_read(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / NAME, 0o644 | 0o020000, os.makedev(1, 5))  # /dev/zero under its name
    except PermissionError:
        pytest.skip("no devices can be made here")
    assert read_progress(str(tmp_path)) is None


def test_a_file_of_a_terabyte_costs_no_more_than_its_end(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(1 << 40)
    assert read_progress(str(tmp_path)) is None
    with (tmp_path / NAME).open("ab") as file:
        file.write(b"\n42\n")
    assert read_progress(str(tmp_path)) == 42.0
