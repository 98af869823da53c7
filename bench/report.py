"""Report of a run, as a table for people and as JSON for later."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from bench.figures import Figure, Series
from bench.memory import TOTAL, Usage
from bench.plan import Plan
from bench.samples import summarise

MUSTER = "Muster"


@dataclass(frozen=True, slots=True)
class System:
    """The measurements of one system: its series, its memory, and the use of the machine by others meanwhile."""

    name: str
    series: Series = field(default_factory=dict)
    memory: Mapping[str, Usage] = field(default_factory=dict)
    others_share: float = 0.0
    note: str = ""

    def values(self, figures: Sequence[Figure]) -> dict[str, float]:
        """The figures that were measured."""
        found = {figure.key: figure.of(self.series) for figure in figures}
        return {key: value for key, value in found.items() if value is not None}


def ratio(figure: Figure, ours: float, peers: Sequence[float]) -> float | None:
    """The ratio to the best peer: above 1 we are better, below 1 worse. None without a peer."""
    if not peers or not ours:
        return None
    best = max(peers) if figure.higher_is_better else min(peers)
    if not best:
        return None
    return ours / best if figure.higher_is_better else best / ours


def figures_table(figures: Sequence[Figure], muster: System, peers: Sequence[System]) -> Table:
    """A row for each figure that anybody was measured for."""
    table = Table(title="Medians (p50) and 95 % (p95) of the samples", title_justify="left", title_style="bold")
    table.add_column("figure")
    table.add_column("unit")
    for system in (muster, *peers):
        table.add_column(system.name, justify="right")
    table.add_column("times as good as\nthe better peer", justify="right")
    table.add_column("goal", justify="right")
    item = ""
    for figure in figures:
        values = [figure.of(system.series) for system in (muster, *peers)]
        if values == [None] * len(values):
            continue
        if item and figure.item != item:
            table.add_section()
        item = figure.item
        ours, theirs = values[0], [value for value in values[1:] if value is not None]
        times = ratio(figure, ours, theirs) if ours is not None else None
        table.add_row(
            figure.title,
            figure.unit,
            *(_cell(value) for value in values),
            f"{times:.2f}" if times is not None else "",
            _goal(figure, ours),
        )
    return table


def memory_table(systems: Sequence[System]) -> Table:
    """The peak of each group of processes."""
    table = Table(title="Peak memory, MiB", title_justify="left", title_style="bold")
    for name in ("system", "processes", "at most", "RSS", "PSS"):
        table.add_column(name, justify="left" if name in {"system", "processes"} else "right")
    for system in systems:
        for group, usage in sorted(system.memory.items(), key=lambda item: (item[0] == TOTAL, item[0])):
            style = "bold" if group == TOTAL else ""
            cells = (group, str(usage.processes), f"{usage.rss_mib:.0f}", f"{usage.pss_mib:.0f}")
            table.add_row(system.name, *cells, style=style)
        table.add_section()
    return table


def as_json(
    figures: Sequence[Figure], systems: Sequence[System], plan: Plan, *, started_at: datetime, root: Path
) -> dict[str, Any]:
    """The whole run: the machine, the plan, every figure, the summary and the samples of every series."""
    return {
        "started_at": started_at.isoformat(),
        "machine": machine(),
        "commit": _commit(root),
        "plan": asdict(plan),
        "systems": {
            system.name: {
                "note": system.note,
                "others_share_of_the_machine": round(system.others_share, 3),
                "figures": system.values(figures),
                "series": {
                    name: {"summary": asdict(summarise(values)), "samples": [round(value, 3) for value in values]}
                    for name, values in system.series.items()
                    if values
                },
                "peak_memory": {group: asdict(usage) for group, usage in system.memory.items()},
            }
            for system in systems
        },
    }


def machine() -> dict[str, Any]:
    """The facts about the machine on which the figures depend."""
    return {
        "processors": os.cpu_count(),
        "model": _processor_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
    }


def _goal(figure: Figure, value: float | None) -> Text:
    if figure.goal is None:
        return Text("")
    sign = "≥" if figure.higher_is_better else "≤"
    text = Text(f"{sign} {figure.goal:g}")
    if value is not None:
        text.append(" ✓" if figure.meets(value, figure.goal) else " ✗")
        text.stylize("green" if figure.meets(value, figure.goal) else "red")
    return text


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _processor_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _commit(root: Path) -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()
