"""The checks of a real GPU are rehearsed on an emulated one, so that they are sound when there is a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.checks import REHEARSED
from tests.pytorch import python_with_torch

RUN = Path(__file__).parent / "run"


def test_the_checks_that_need_no_gpu_hold(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, str(RUN), "--rehearse", "--python", python_with_torch(), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())
    assert {result["name"]: result["outcome"] for result in results} == dict.fromkeys(REHEARSED, "held")


def test_a_machine_without_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = subprocess.run([sys.executable, str(RUN)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no NVIDIA GPU here" in done.stderr
