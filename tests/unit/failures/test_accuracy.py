"""The classifier agrees with the labelled logs as often as the page says, and the figures are counted rightly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.published import accuracy, confusions
from tests.sim.data import data

ROWS = (
    ("a", "CUDA out of memory", "gpu_out_of_memory", "user", "no"),
    ("b", "RuntimeError: NCCL error in: x", "nccl_error", "ai_engine", "yes"),
    ("c", "CUDA out of memory", "gpu_lost", "infrastructure", "elsewhere"),
    ("d", "Node failure on n1", "node_lost", "infrastructure", "yes"),
)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "logs.jsonl"
    keys = ("id", "log", "label", "category", "retry")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in ROWS))
    return path


def test_the_figures_count_classes_reactions_and_what_is_lost(labelled: Path) -> None:
    found = accuracy.measure(accuracy.read(labelled.read_text().splitlines()))
    assert (found.logs, found.classes, found.reactions, found.lost) == (4, 0.75, 0.75, 0.5)
    assert dict(found.confusions) == {("gpu_lost", "gpu_out_of_memory"): 1}


def test_the_command_prints_them(labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy.main([str(labelled), "--wrong"]) == 0
    told = capsys.readouterr().out
    assert "4 logs: class 75.0%, reaction 75.0%, infrastructure answered with no 50.0%" in told
    assert "c gpu_lost taken for gpu_out_of_memory by" in told


def test_the_labelled_logs_are_answered_well_enough() -> None:
    with data("failure_logs", "train.jsonl").open(encoding="utf-8") as lines:
        found = accuracy.measure(accuracy.read(lines))
    assert found.classes >= 0.88
    assert found.reactions >= 0.94
    assert found.lost <= 0.01


def test_the_table_lists_the_confusions(labelled: Path) -> None:
    logs = accuracy.read(labelled.read_text().splitlines())
    plain, deaf = accuracy.measure(logs), accuracy.measure(logs, lambda _: b"nothing")
    lines = confusions.tables(logs, plain, {"nothing left": deaf, "itself": plain}).splitlines()
    assert "| gpu_lost | 1 | 1 for gpu_out_of_memory | 2 | 1 for gpu_out_of_memory, 1 for no_signature |" in lines
    assert "| node_lost | 1 | 0 | 2 | 1 for no_signature |" in lines
    assert "| none | 75.0 % | 75.0 % | 50.0 % |" in lines
    assert "| nothing left | 0.0 % | 0.0 % | 0.0 % |" in lines
