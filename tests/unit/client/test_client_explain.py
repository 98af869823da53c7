"""`muster explain`: why a job failed, from any log, without a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.unit.client.fake_server import FakeServer, Run

OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.log"
    path.write_text(f"step 1 loss 2.0\n{OOM}\n")
    return path


def test_it_tells_class_line_advice_and_hint_without_asking_the_server(run: Run, server: FakeServer, log: Path) -> None:
    result = run("explain", str(log))
    assert result.exit_code == 0
    first, line, advice, hint = result.stdout.splitlines()
    assert first == "GPU out of memory  (user)"
    assert line == f"  line 2: {OOM}"
    assert advice == "  Do not try again before something is changed."
    assert "batch size" in hint
    assert server.requests == []


def test_json_is_a_line_for_each_file(run: Run, log: Path) -> None:
    (log.parent / "other.log").write_text("hello\n")
    result = run("explain", "rank0.log", "other.log", "--json")
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert list(first) == ["file", "class", "category", "retry", "line", "hint"]
    assert (first["file"], first["class"], first["category"], first["retry"], first["line"]) == (
        "rank0.log", "gpu_out_of_memory", "user", "no", OOM)  # fmt: skip
    assert (second["file"], second["class"], second["line"]) == ("other.log", "no_signature", "")


def test_a_dash_reads_standard_input(run: Run) -> None:
    result = run("explain", "-", "--json", stdin=f"hello\n{OOM}\n")
    assert json.loads(result.stdout)["class"] == "gpu_out_of_memory"


def test_the_exit_status_is_a_clue(run: Run, log: Path) -> None:
    (log.parent / "other.log").write_text("hello\n")
    result = run("explain", "other.log", "rank0.log", "--json", "--exit-status", "139")
    assert [json.loads(line)["class"] for line in result.stdout.splitlines()] == ["segfault", "gpu_out_of_memory"]


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_explained(run: Run, log: Path) -> None:
    (log.parent / "folder").mkdir()
    result = run("explain", "missing.log", "folder", "rank0.log")
    assert result.exit_code == 2
    assert "missing.log cannot be read: No such file or directory" in result.stderr
    assert "folder cannot be read: Is a directory" in result.stderr
    assert "rank0.log: GPU out of memory" in result.stdout


def test_lines_of_a_long_log_are_numbered_as_in_the_whole(run: Run, tmp_path: Path) -> None:
    (tmp_path / "long.log").write_text("ok\n" * 2_000_000 + OOM)
    assert "line 2000001: torch" in run("explain", "long.log").stdout


def test_escape_sequences_of_a_log_do_not_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "evil.log").write_text(f"\x1b]0;title\x07\x1b[2J\x9b2J{OOM}\n")
    out = run("explain", "evil.log").stdout
    assert "CUDA out of memory" in out
    assert "\x1b" not in out
    assert "\x9b" not in out


def test_without_the_engine_it_says_what_to_install(run: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("scheduler.diagnosis.failures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "re2", None)
    result = run("explain", str(log))
    assert result.exit_code == 2
    assert "muster explain needs re2: pip install google-re2" in result.stderr
