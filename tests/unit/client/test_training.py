"""`report` and `checkpoint`: what they write, and that nothing of it can stop a training."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import muster_client
from muster_client import training
from muster_client.training import BURST, MAX_FILE_BYTES, MAX_NAMES, checkpoint, report
from nodeagent import jobside
from nodeagent.runtime.shim.progress import read_progress
from nodeagent.runtime.shim.reported import ReportReader

SOURCE = Path(training.__file__)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in training._RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUSTER_METRICS", str(tmp_path / ".muster-metrics"))
    monkeypatch.setenv("MUSTER_PROGRESS", str(tmp_path / ".muster-progress"))
    training._left.clear()
    yield tmp_path
    training._left.clear()


def lines(home: Path) -> list[dict[str, Any]]:
    path = home / ".muster-metrics"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_report_is_a_line_and_the_step_is_the_progress(home: Path) -> None:
    report(step=3, loss=0.5, total=10, accuracy=0.25)
    report(4, 0.25)
    assert lines(home) == [
        {"step": 3.0, "loss": 0.5, "total": 10.0, "accuracy": 0.25},
        {"step": 4.0, "loss": 0.25},
    ]
    assert read_progress(str(home)) == 4.0
    assert [(point.name, point.value) for point in ReportReader().read(1, str(home))][-1] == ("loss", 0.25)


def test_a_shorter_step_leaves_nothing_of_a_longer_one(home: Path) -> None:
    report(step=123456.5, loss=1)
    assert read_progress(str(home)) == 123456.5
    report(step=7, loss=1)
    assert read_progress(str(home)) == 7.0


def test_what_is_not_finite_is_told(home: Path) -> None:
    report(step=1, loss=math.nan, grad=math.inf)
    (line,) = lines(home)
    assert math.isnan(line["loss"])
    assert line["grad"] == math.inf


class _Broken:
    def __float__(self) -> float:
        raise RuntimeError("CUDA error: device-side assert triggered")


def test_what_has_no_number_is_left_out(home: Path) -> None:
    report(step="three", loss=_Broken(), note="text", good=True)
    assert lines(home) == [{"good": 1.0}]


def test_a_script_that_reports_all_the_time_is_heard_once_a_second(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("muster_client.training.time.monotonic", lambda: now[0])
    for step in range(1000):
        report(step=step, loss=1.0)
    assert len(lines(home)) == BURST
    report(step=1000, val_loss=2.0)
    assert lines(home)[-1] == {"step": 1000.0, "val_loss": 2.0}, "another set of names has its own turn"
    now[0] += 1.0
    report(step=1001, loss=1.0)
    report(step=1002, loss=1.0)
    assert lines(home)[-1]["step"] == 1001.0


def test_a_long_file_begins_anew(home: Path) -> None:
    (home / ".muster-metrics").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    report(step=1, loss=1.0)
    assert lines(home) == [{"step": 1.0, "loss": 1.0}]


def test_so_many_names_count_and_no_line_is_too_long(home: Path) -> None:
    report(**{f"name{number}": 1.0 for number in range(1000)})
    assert len(lines(home)[0]) == MAX_NAMES
    report(**{"n" * 5000: 1.0})
    assert len(lines(home)) == 1


@pytest.mark.parametrize("name", training._RANKS)
def test_only_the_first_rank_is_heard(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    report(step=1, loss=1.0)
    assert lines(home) == []


def test_without_a_place_to_write_to_nothing_happens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_METRICS")
    report(step=1, loss=1.0)
    assert list(home.iterdir()) == []


def test_a_place_that_cannot_be_written_to_costs_a_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(home / "fifo")  # without a reader, a blocking open would never return
    (home / "link").symlink_to(home / "target")
    for path in (home, home / "gone" / "file", home / "fifo", home / "link", Path("/dev/full"), Path("\0")):
        monkeypatch.setitem(os.environ, "MUSTER_METRICS", "") if "\0" in str(path) else monkeypatch.setenv(
            "MUSTER_METRICS", str(path)
        )
        report(step=1, loss=1.0)
    assert not (home / "target").exists()


def test_the_time_of_a_checkpoint_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("muster_client.training.time.monotonic", lambda: now[0])
    with checkpoint():
        now[0] += 12.5
    assert lines(home) == [{"checkpoint_s": 12.5}]
    with pytest.raises(OSError, match="disk"), checkpoint():
        raise OSError("the disk is full")
    assert len(lines(home)) == 1, "what was not saved took no time"


def test_it_stands_alone(tmp_path: Path, home: Path) -> None:
    jobside.unpack(str(tmp_path / "modules"))
    code = "import sys; import muster_report; muster_report.report(step=1, loss=2.0); print(*sorted(sys.modules))"
    command = [sys.executable, "-S", "-c", code]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path / "modules")}, capture_output=True, text=True, check=True
    )
    assert lines(home) == [{"step": 1.0, "loss": 2.0}]
    assert not {"httpx", "yaml", "asyncio", "muster_client"} & set(ran.stdout.split())


def test_the_client_reports_without_the_rest_of_it(home: Path) -> None:
    assert muster_client.report is report
    assert muster_client.checkpoint is checkpoint
    code = "import sys, muster_client; muster_client.report(step=1, loss=2.0); print('httpx' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parents[1]
    )
    assert (ran.stdout, lines(home)) == ("False\n", [{"step": 1.0, "loss": 2.0}])
