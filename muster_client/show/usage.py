"""GPU-hours and waits as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from muster_client.local.terminal import clean
from muster_client.show.tables import make_table, text_of
from muster_client.show.times import duration, moment_text

if TYPE_CHECKING:
    from muster_client.answers.usage import DelayFigures, DelayUsage, Usage, UsageTotal, Waste

OUTCOMES = {
    "running": "still running",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "requeued": "requeued by the owner",
    "preempted": "preempted, goes on from its checkpoint",
    "work_lost": "preempted, begins anew",
    "node_lost": "node lost",
    "screening": "screening",
}
WASTED = frozenset({"failed", "work_lost", "node_lost"})
_DELAYS = (
    ("not_eligible_s", "NOT YET"),
    ("fair_share_s", "SHARE"),
    ("capacity_s", "CAPACITY"),
    ("apart_s", "APART"),
    ("order_s", "ORDER"),
    ("other_s", "OTHER"),
)
_HEADS = {"vc": "VC", "gpu_type": "GPU TYPE"}


def usage_table(usage: Usage) -> RenderableType:
    """Return a table with a line for each row, and the sum below."""
    total = usage["total"]
    if not usage["results"]:
        return Text(f"No GPU was used {_when(usage['from'], usage['to'])}.")
    table = make_table(*(_HEADS.get(name, name.upper()) for name in usage["by"]), "GPU-HOURS", "SHARE", "JOBS")
    for row in usage["results"]:
        names = [_word(name, row[name]) for name in usage["by"]]  # type: ignore[literal-required]
        table.add_row(*names, *_amounts(row, total["gpu_hours"]))
    if usage["by"]:
        table.add_row(*["" for _ in usage["by"][1:]], Text("all", style="bold"), *_amounts(total, total["gpu_hours"]))
    return table


def waste_tables(waste: Waste) -> list[RenderableType]:
    """Return what GPU-hours were for, what they failed of, and what retries took."""
    total, when = waste["total"]["gpu_hours"], _when(waste["from"], waste["to"])
    if not waste["outcomes"]:
        return [Text(f"No GPU was used {when}.")]
    by_outcome = make_table("OUTCOME", "GPU-HOURS", "SHARE", "ATTEMPTS")
    for row in waste["outcomes"]:
        style = "red" if row["outcome"] in WASTED else ""
        by_outcome.add_row(
            Text(OUTCOMES.get(row["outcome"], clean(row["outcome"])), style=style),
            hours(row["gpu_hours"]),
            _share(row["gpu_hours"], total),
            str(row["attempts"]),
        )
    wasted = waste["wasted_gpu_hours"]
    lines: list[RenderableType] = [
        Text(f"{hours(total)} GPU-hours {when}; {hours(wasted)} ({_share(wasted, total)}) came to nothing."),
        "",
        by_outcome,
    ]
    if waste["failures"]:
        failures = make_table("FAILURE", "FAULT OF", "GPU-HOURS", "SHARE", "ATTEMPTS")
        for failed in waste["failures"]:
            failures.add_row(
                text_of(failed["failure"]),
                text_of(failed["category"]),
                hours(failed["gpu_hours"]),
                _share(failed["gpu_hours"], total),
                str(failed["attempts"]),
            )
        lines += ["", failures]
    retries = waste["retries"]
    if retries["attempts"]:
        told = f"Retries took {hours(retries['gpu_hours'])} GPU-hours ({_share(retries['gpu_hours'], total)})"
        lines += ["", Text(f"{told}, of which {hours(retries['wasted_gpu_hours'])} were wasted too.")]
    screening = waste["screening"]
    if screening and screening["tried"]:
        told = f"{screening['tried']} runs took {hours(screening['spent_gpu_hours'])} GPU-hours"
        caught = f"{screening['failed']} jobs failed in them, which saved {hours(screening['saved_gpu_hours'])}"
        lines += ["", Text(f"Screening: {told}; {caught}.")]
    return lines


def delays_table(waits: DelayUsage) -> RenderableType:
    """Return a table of mean waits with a line for each row, and the mean of all below."""
    if not waits["results"]:
        return Text(f"Nothing started {_when(waits['from'], waits['to'])}, and nothing waits.")
    heads = (_HEADS.get(name, name.upper()) for name in waits["by"])
    table = make_table(*heads, "STARTS", "WAIT", *(head for _, head in _DELAYS), "ALL")
    for row in waits["results"]:
        names = [_word(name, row[name]) for name in waits["by"]]  # type: ignore[literal-required]
        table.add_row(*names, *_waits(row))
    table.add_row(*["" for _ in waits["by"][1:]], Text("all", style="bold"), *_waits(waits["total"]))
    return table


def hours(value: float) -> str:
    """Return GPU-hours with as many digits as one wants to know."""
    if 0 < value < 0.01:
        return "<0.01"
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _amounts(row: UsageTotal, total: float) -> Sequence[str]:
    return hours(row["gpu_hours"]), _share(row["gpu_hours"], total), str(row["jobs"])


def _waits(row: DelayFigures) -> Sequence[str]:
    parts: list[float] = [row[name] for name, _ in _DELAYS]  # type: ignore[literal-required]
    return str(row["starts"]), str(row["waiting"]), *(duration(part, units=1) for part in (*parts, sum(parts)))


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole > 0 else "-"


def _when(begin: str, end: str) -> str:
    return f"from {moment_text(begin)} to {moment_text(end)}"


def _word(name: str, value: str | bool | None) -> Text:
    if name == "outcome" and isinstance(value, str):
        return Text(OUTCOMES.get(value, clean(value)))
    if isinstance(value, bool):
        return Text("retry" if value else "first try")
    return Text("-" if value is None else clean(value))
