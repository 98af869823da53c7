"""`muster predict`: what predictions are worth on a file of past jobs."""

from __future__ import annotations

import builtins
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.fake_server import FakeServer, Run

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
SPLIT = ("--split", "2026-01-21", "--refit", "inf")


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four weeks of three users, whose names of jobs tell the run time."""
    draw = random.Random(3)
    lines = ["JobID|JobName|User|Account|State|Submit|Start|End|TimelimitRaw|AllocTRES"]
    for number in range(400):
        submitted = BEGINS + timedelta(hours=1.6 * number)
        started = submitted + timedelta(minutes=draw.randrange(5))
        kind = draw.choice(("short", "long"))
        ended = started + timedelta(seconds=(3000 if kind == "long" else 60) * draw.uniform(0.8, 1.2))
        lines.append(
            f"{number}|{kind}-{number}|user{number % 3}|lab|COMPLETED|{submitted:%Y-%m-%dT%H:%M:%S}"
            f"|{started:%Y-%m-%dT%H:%M:%S}|{ended:%Y-%m-%dT%H:%M:%S}|120|gres/gpu=1"
        )
    path = tmp_path_factory.mktemp("sacct") / "jobs.sacct"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_it_scores_jobs_after_the_date_by_a_model_of_those_before_it(
    run: Run, server: FakeServer, accounting: Path
) -> None:
    result = run("predict", "--sacct", str(accounting), *SPLIT, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["trace"], told["split"]) == ("jobs.sacct", "2026-01-21T00:00:00+00:00")
    # 20 days of a job each 1.6 hours are before it.
    assert told["run_times"]["jobs"] == 100
    figures = told["run_times"]["predictors"]
    # The name tells which of the two run times it is; the owner's last two jobs do not.
    assert figures["model"]["error_log"]["value"] < 0.5 * figures["last_two"]["error_log"]["value"]
    assert 0.6 <= figures["model"]["coverage80"]["low"] <= figures["model"]["coverage80"]["value"] <= 1
    assert told["waits"]["jobs"] == 100
    assert told["waits"]["figures"]["p90_coverage"]["value"] > 0.7
    assert server.requests == []


def test_its_tables_have_the_same_figures(run: Run, accounting: Path) -> None:
    result = run("predict", "--trace", str(accounting), *SPLIT)
    assert result.exit_code == 0, result.stderr
    for words in ("last two", "name stem", "Spearman", "within p10 to p90", "AUC of the quick start"):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--split", "2025-12-31"), "no job was submitted before 2025-12-31 00:00"),
        (("--split", "2026-03-01"), "no job was submitted after 2026-03-01 00:00"),
        (("--split", "2026-01-02"), "too few to learn from"),
        (("--split", "yesterday"), "--split"),
        (("--split", "2026-01-21", "--trace", "x"), "--sacct or by --trace"),
        (("--split", "2026-01-21", "--format", "sacct"), "--format is for --trace"),
    ],
)
def test_a_date_or_option_that_makes_no_sense_is_named(
    run: Run, accounting: Path, words: tuple[str, ...], says: str
) -> None:
    result = run("predict", "--sacct", str(accounting), *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_a_trace_without_dates_says_so(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 -1 -1 -1\n")
    result = run("predict", "--trace", str(path), "--format", "swf", *SPLIT)
    assert result.exit_code == 2
    assert "its times have no date" in result.stderr


def test_without_numpy_it_says_how_to_get_it(run: Run, accounting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, globals_: Any = None, locals_: Any = None, names: Any = (), level: int = 0) -> Any:
        if name == "scheduler.predict.storage":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return real(name, globals_, locals_, names, level)

    monkeypatch.setattr(builtins, "__import__", refuse)
    result = run("predict", "--sacct", str(accounting), *SPLIT)
    assert result.exit_code == 2
    assert "muster predict needs numpy: pip install numpy scipy lightgbm" in result.stderr
