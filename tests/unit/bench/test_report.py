"""The report: what is compared with what, and what is kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.figures import FIGURES, ITEMS, Figure, figures_of
from bench.memory import Usage
from bench.plan import Plan
from bench.report import System, as_json, figures_table, memory_table, ratio
from bench.samples import median

LATENCY = Figure("first-line.p50", "first line", "ms", "first_line_ms", median, goal=500)
RATE = Figure("throughput.single", "jobs", "jobs/s", "throughput_single", median, goal=20, higher_is_better=True)


def test_every_item_has_a_figure_and_every_figure_an_item() -> None:
    assert {figure.item for figure in FIGURES} == set(ITEMS)


def test_no_two_figures_have_one_key() -> None:
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)


def test_the_figures_of_some_items_are_theirs_alone() -> None:
    assert {figure.key for figure in figures_of(["submit"])} == {"submit.p50", "submit.p95"}


def test_half_the_time_of_the_best_peer_is_twice_as_good() -> None:
    assert ratio(LATENCY, 200, [400, 900]) == 2


def test_half_the_rate_of_the_best_peer_is_half_as_good() -> None:
    assert ratio(RATE, 10, [5, 20]) == 0.5


@pytest.mark.parametrize(("ours", "peers"), [(10.0, []), (0.0, [5.0]), (10.0, [0.0])])
def test_without_numbers_to_compare_there_is_no_ratio(ours: float, peers: list[float]) -> None:
    assert ratio(LATENCY, ours, peers) is None


def test_the_table_shows_both_systems_the_ratio_and_whether_the_goal_is_met() -> None:
    shown = _shown(
        figures_table(
            [LATENCY, RATE],
            System("Muster", {"first_line_ms": [150.0, 160.0, 170.0], "throughput_single": [12.0]}),
            [System("Slurm", {"first_line_ms": [800.0]})],
        )
    )
    latency, rate = (next(line for line in shown if title in line) for title in ("first line", "jobs/s"))
    assert [word for word in latency.replace("│", " ").split() if word != "first"][1:] == [
        "ms", "160", "800", "5.00", "≤", "500", "✓",
    ]  # fmt: skip
    assert rate.replace("│", " ").split() == ["jobs", "jobs/s", "12", "≥", "20", "✗"]


def test_a_figure_that_nobody_was_measured_for_is_left_out() -> None:
    shown = "\n".join(_shown(figures_table([LATENCY, RATE], System("Muster", {"throughput_single": [12.0]}), [])))
    assert "first line" not in shown


def test_the_memory_of_all_together_comes_last() -> None:
    memory = {"all together": Usage(3, 30, 20), "web": Usage(1, 20, 15), "beat": Usage(2, 10, 5)}
    shown = "\n".join(_shown(memory_table([System("Muster", memory=memory)])))
    assert shown.index("beat") < shown.index("web") < shown.index("all together")


def test_the_stored_run_holds_the_samples_and_can_be_written_as_json(tmp_path: Path) -> None:
    system = System("Muster", {"first_line_ms": [1.23456, 2.0]}, {"web": Usage(1, 20, 15)}, 0.5, "as it is")
    document = as_json([LATENCY], [system], Plan(), started_at=datetime(2026, 1, 1, tzinfo=UTC), root=tmp_path)
    stored = json.loads(json.dumps(document))["systems"]["Muster"]
    assert stored["series"]["first_line_ms"]["samples"] == [1.235, 2.0]
    assert stored["figures"] == {"first-line.p50": pytest.approx(1.61728)}
    assert stored["peak_memory"]["web"]["pss_mib"] == 15


def _shown(table: object) -> list[str]:
    console = Console(file=StringIO(), width=160)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()
