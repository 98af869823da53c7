"""A job's reported metrics: the new part of its file, and nothing of what else may lie there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nodeagent.protocol.messages import MAX_REPORTED_NAMES, MAX_REPORTED_POINTS, MetricPoint
from nodeagent.runtime.shim.reported import MAX_READ_BYTES, NAME, ReportReader

LINES: dict[str, tuple[bytes, list[MetricPoint]]] = {
    "figures of a step": (
        b'{"step": 3, "loss": 0.5, "acc": 1}\n',
        [MetricPoint("loss", 0.5, 3.0), MetricPoint("acc", 1.0, 3.0)],
    ),
    "no step": (b'{"loss": 0.5}\n', [MetricPoint("loss", 0.5)]),
    "no number": (b'{"loss": NaN}\n', [MetricPoint("loss", None, None, "nan")]),
    "without bounds": (b'{"loss": -Infinity}\n', [MetricPoint("loss", None, None, "-inf")]),
    "more than a message takes": (b'{"loss": 1e308}\n', [MetricPoint("loss", None, None, "inf")]),
    "more than a double has": (b'{"loss": 1' + b"0" * 400 + b"}\n", [MetricPoint("loss", None, None, "inf")]),
    "a step that none can be": (b'{"step": -1, "loss": 2}\n', [MetricPoint("loss", 2.0)]),
    "a step that is not a number": (b'{"step": NaN, "loss": 2}\n', [MetricPoint("loss", 2.0)]),
    "half a line": (b'{"loss": 1}\n{"lo', [MetricPoint("loss", 1.0)]),
    "a text, a list and a truth": (b'{"loss": "1", "a": [1], "b": true}\n', []),
    "a name that is none": (b'{"a b": 1, "": 1, "\\u0000": 1, "\\u202e": 1}\n', []),
    "a name that is too long": (b'{"' + b"a" * 65 + b'": 1}\n', []),
    "a list": (b"[1]\n", []),
    "a number": (b"12\n", []),
    "no JSON": (b"loss 3\n", []),
    "deep": (b"[" * 4000 + b"\n", []),
    "bytes that are no text": (bytes(range(128, 256)) + b'\n{"loss": 1}\n', [MetricPoint("loss", 1.0)]),
    "a line that is too long": (b'{"loss": 1' + b" " * 5000 + b"}\n", []),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("content", "told"), LINES.values(), ids=list(LINES))
def test_a_line_is_an_object_of_numbers(tmp_path: Path, content: bytes, told: list[MetricPoint]) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert list(ReportReader().read(1, str(tmp_path))) == told


def add(home: Path, *losses: float) -> None:
    with (home / NAME).open("a") as file:
        file.writelines(json.dumps({"loss": loss}) + "\n" for loss in losses)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    reader = ReportReader()
    assert reader.read(1, str(tmp_path)) == ()
    add(tmp_path, 3.0)
    assert [point.value for point in reader.read(1, str(tmp_path))] == [3.0]
    with (tmp_path / NAME).open("a") as file:
        file.write('{"loss": 2')
    assert reader.read(1, str(tmp_path)) == ()
    with (tmp_path / NAME).open("a") as file:
        file.write('.5}\n{"loss": 1.0}\n')
    assert [point.value for point in reader.read(1, str(tmp_path))] == [2.5, 1.0]
    assert reader.read(1, str(tmp_path)) == ()


def test_a_file_that_begins_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    reader = ReportReader()
    add(tmp_path, *range(100))
    reader.read(1, str(tmp_path))
    (tmp_path / NAME).unlink()
    add(tmp_path, 7.0)
    assert [point.value for point in reader.read(1, str(tmp_path))] == [7.0]


def test_of_much_that_is_new_the_newest_counts(tmp_path: Path) -> None:
    reader = ReportReader()
    add(tmp_path, *range(MAX_READ_BYTES // 8))
    values = [point.value for point in reader.read(1, str(tmp_path))]
    assert values == [float(value) for value in range(MAX_READ_BYTES // 8 - MAX_REPORTED_POINTS, MAX_READ_BYTES // 8)]
    add(tmp_path, -1.0)
    assert [point.value for point in reader.read(1, str(tmp_path))] == [-1.0]


def test_a_line_without_an_end_does_not_hold_up_what_follows(tmp_path: Path) -> None:
    reader = ReportReader()
    (tmp_path / NAME).write_bytes(b"x" * 1_000_000)
    assert reader.read(1, str(tmp_path)) == ()
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'\n{"loss": 1}\n')
    assert [point.value for point in reader.read(1, str(tmp_path))] == [1.0]


def test_of_a_million_names_the_first_count(tmp_path: Path) -> None:
    reader = ReportReader()
    for turn in range(20):
        with (tmp_path / NAME).open("a") as file:
            file.writelines(f'{{"name{turn}_{one}": 1}}\n' for one in range(5000))
        reader.read(1, str(tmp_path))
    with (tmp_path / NAME).open("a") as file:
        file.writelines(f'{{"name0_{one}": 2, "other{one}": 3}}\n' for one in range(5000))
    assert len(reader._places[1].names) == MAX_REPORTED_NAMES
    add(tmp_path, 1.0)
    assert reader.read(1, str(tmp_path)) == ()


def test_what_an_earlier_run_of_the_agent_has_told_is_not_told_again(tmp_path: Path) -> None:
    add(tmp_path, 1.0, 2.0)
    reader = ReportReader()
    reader.skip(1, str(tmp_path))
    add(tmp_path, 3.0)
    assert [point.value for point in reader.read(1, str(tmp_path))] == [3.0]
    reader.skip(2, str(tmp_path / "gone"))
    assert reader.read(2, str(tmp_path / "gone")) == ()


def test_what_is_no_plain_file_of_its_own_is_not_read(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.write_text('{"loss": 1}\n')
    there = home / NAME
    for make in (
        lambda: there.symlink_to(elsewhere),
        lambda: os.mkfifo(there),
        there.mkdir,
        lambda: os.link(elsewhere, there),
        lambda: there.symlink_to("/dev/zero"),
    ):
        make()
        assert ReportReader().read(1, str(home)) == ()
        there.rmdir() if there.is_dir() else there.unlink()
