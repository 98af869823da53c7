"""The simulator behind `muster`: the same options, the same figures, and the client's way to say what is wrong."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.sim import command
from scheduler.sim.__main__ import main
from scheduler.sim.engine import SimulationError
from scheduler.sim.parser import parser
from tests.unit.client.fake_server import FakeServer, Run

GENERATED = ("--generate", "poisson:jobs=12", "--cluster", "V100:2x8", "--no-timing")


def test_its_help_is_that_of_the_simulator(run: Run) -> None:
    result = run("simulate", "--help")
    assert (result.exit_code, result.stdout) == (0, parser("muster simulate").format_help())


def test_an_option_that_does_not_exist_is_bad_usage(run: Run) -> None:
    result = run("simulate", *GENERATED, "--polciy", "fifo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: unrecognized arguments: --polciy fifo" in result.stderr


def test_it_writes_the_bytes_of_the_module_without_asking_the_server(
    run: Run, server: FakeServer, tmp_path: Path
) -> None:
    arguments = (*GENERATED, "--policy", "fifo", "--policy", "srtf", "--seed", "4", "--restart", "3")
    files = [(tmp_path / f"{name}.json", tmp_path / f"{name}.csv") for name in ("client", "module")]
    result = run("simulate", *arguments, "--json", str(files[0][0]), "--csv", str(files[0][1]))
    assert result.exit_code == 0
    assert main([*arguments, "--json", str(files[1][0]), "--csv", str(files[1][1])]) == 0
    for ours, theirs in zip(*files, strict=True):
        assert ours.read_bytes() == theirs.read_bytes()
    assert server.requests == []


def test_it_shows_a_table_with_ratios(run: Run) -> None:
    result = run("simulate", *GENERATED, "--policy", "fifo", "--policy", "sjf")
    assert result.exit_code == 0
    header, *lines = [line for line in result.stdout.splitlines() if "fifo" in line or "JCT mean, s" in line]
    assert "sjf" in header
    assert lines[0].count("x") == 1


def test_json_alone_prints_the_document(run: Run) -> None:
    result = run("simulate", "--json", *GENERATED, "--policy", "fifo")
    assert [one["policy"] for one in json.loads(result.stdout)["runs"]] == ["fifo"]


def test_it_draws(run: Run, tmp_path: Path) -> None:
    assert run("simulate", *GENERATED, "--policy", "fifo", "--plots", "figures").exit_code == 0
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png"}


def test_it_lists_what_can_be_named(run: Run) -> None:
    assert "policies: fifo: " in run("simulate", "--list").stdout
    assert "fifo" in json.loads(run("simulate", "--list", "--json").stdout)["policies"]


def test_bad_options_are_bad_usage(run: Run) -> None:
    result = run("simulate", *GENERATED, "--policy", "fifa")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: --policy: unknown policy 'fifa'; did you mean 'fifo'?" in result.stderr


def test_bad_options_are_a_problem_document_with_json(run: Run) -> None:
    result = run("simulate", *GENERATED, "--policy", "fifo", "--round", "-1", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["title"].startswith("--round: must be")


def test_a_broken_trace_names_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("timestamp,duration,num_gpus,cluster\n2017-10-03 00:00:00,10,none,a\n")
    result = run("simulate", "--trace", "t.csv", "--cluster", "V100:1x2", "--policy", "fifo")
    assert result.exit_code == 2
    assert "--trace: t.csv, line 2: " in result.stderr


def test_a_mistake_of_the_simulator_is_an_error_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise SimulationError("a GPU has two holders")

    monkeypatch.setattr(command, "simulate", fail)
    result = run("simulate", *GENERATED, "--policy", "fifo")
    assert result.exit_code == 1
    assert "caught itself in a mistake: a GPU has two holders" in result.stderr


def test_without_numpy_it_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, globals_: Any = None, locals_: Any = None, names: Any = (), level: int = 0) -> Any:
        if name == "scheduler.sim":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return real(name, globals_, locals_, names, level)

    monkeypatch.setattr(builtins, "__import__", refuse)
    result = run("simulate", *GENERATED, "--policy", "fifo")
    assert result.exit_code == 2
    assert "muster simulate needs numpy: pip install numpy scipy matplotlib" in result.stderr
