"""The page docs/design/measurements/predictions.md: predictions on traces, each made of what had ended by then.

Each section is a function of the folder of traces, and a part of the page between markers of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from bench.published import waits
from bench.published.data import with_part
from scheduler.predict.runtimes.backtest import Backtest
from scheduler.predict.scores import Figure
from scheduler.sim.predictions import PREDICTORS, run_times, text_of
from scheduler.sim.readers import read_trace
from scheduler.sim.trace import Trace
from scheduler.sim.waits import wait_jobs

BEGINS = datetime(2022, 12, 1, tzinfo=UTC)  # the first two months of TACC's trace are there to learn from
REFIT_S = 86_400.0
_COMPARED = {"error_h": "error, hours", "error_log": "error, log", "spearman": "Spearman"}
_MONTHLY = {
    "error_h_below_last_two": "error in hours below last two",
    "error_log_below_last_two": "error in log below last two",
    "coverage80": "within p10 to p90",
    "p90_coverage": "at most p90",
}


@cache
def tacc(folder: Path) -> Trace:
    """TACC's jobs."""
    return read_trace(folder / "mirage_tacc" / "ls6-a100.log.gz", "mirage", skip_bad=True)


def run_time_section(folder: Path) -> str:
    """The run times of TACC's jobs, by models that are fitted anew each day."""
    found = run_times(tacc(folder), BEGINS.timestamp(), refit_s=REFIT_S)
    figures = found.figures()
    compared = [[title, *(_text(figures[name][column]) for column in _COMPARED)] for name, title in PREDICTORS.items()]
    monthly = []
    for month, jobs in [*_months(found), ("all", found)]:
        of_model = jobs.figures()["model"]
        monthly.append([month, f"{len(jobs.rows):,}", *(_text(of_model[name], percent=True) for name in _MONTHLY)])
    return (
        f"{len(found.rows):,} jobs, submitted from {BEGINS:%d %B %Y} on.\n\n"
        + _table(["predictor", *_COMPARED.values()], compared)
        + "\n"
        + _table(["month", "jobs", *_MONTHLY.values()], monthly)
    )


def wait_section(folder: Path) -> str:
    """The waits of TACC's jobs, forecast by models fitted anew each day."""
    return waits.section(wait_jobs(tacc(folder)), BEGINS)


SECTIONS: Mapping[str, Callable[[Path], str]] = {"run times": run_time_section, "waits": wait_section}


def page(folder: Path, text: str) -> str:
    """The page with sections that are made anew."""
    for name, section in SECTIONS.items():
        text = with_part(text, name, section(folder))
    return text


def _months(found: Backtest) -> list[tuple[str, Backtest]]:
    names = np.array([f"{datetime.fromtimestamp(at, UTC):%Y-%m}" for at in found.rows.submitted_at])
    return [(name, found.part(np.flatnonzero(names == name))) for name in sorted(set(names.tolist()))]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)) + "\n"


def _text(figure: Figure, *, percent: bool = False) -> str:
    return text_of(figure.plain(), percent=percent)
