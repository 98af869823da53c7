"""The section about waits of the page docs/design/measurements/predictions.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from scheduler.predict.scores import Figure
from scheduler.predict.waits.evaluate import DAY_S, Record, evaluate
from scheduler.predict.waits.state import WaitJob

_PERCENT = {
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "log_below_last_50": "pinball below *last 50*, log-minutes",
    "hours_below_last_50": "in hours",
    "p90_coverage": "at most p90",
    "two_sided_coverage": "within p10 to p90",
    "plan_coverage": "at most the plan by limits",
}


def section(jobs: Sequence[WaitJob], begins: datetime) -> str:
    """The waits of the jobs from `begins` on, forecast by models that are trained anew each day."""
    return text(evaluate(jobs, since=begins.timestamp(), refit_s=DAY_S), begins)


def text(found: Record, begins: datetime) -> str:
    """The section about these forecasts."""
    names = [f"{datetime.fromtimestamp(one.job.eligible_at, UTC):%Y-%m}" for one in found.scored]
    parts = [(month, [at for at, name in enumerate(names) if name == month]) for month in sorted(set(names))]
    rows = [*((month, found.part(which)) for month, which in parts), ("all", found)]
    figures = [(name, len(part.scored), part.figures()) for name, part in rows]
    last = figures[-1][2]
    lines = [
        f"{len(found.scored):,} jobs, submitted from {begins:%d %B %Y} on.",
        "",
        _row("month", "jobs", *_PERCENT.values()),
        _row(*["---"] * (len(_PERCENT) + 2)),
        *(_row(name, f"{jobs:,}", *(_cell(told, key) for key in _PERCENT)) for name, jobs, told in figures),
        "",
        f"The pinball loss of the p90 is {last['p90_pinball'].value:.3f} log-minutes, and without the calibration "
        f"{last['p90_pinball_raw'].value:.3f}.",
        "",
    ]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(figures: Mapping[str, Figure], name: str) -> str:
    """A percentage and its interval."""
    one = figures[name]
    return f"{100 * one.value:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})"
