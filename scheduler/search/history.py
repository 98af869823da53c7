"""A sweep's results: its best value over time, and the work that early stops have saved."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scheduler.search.rungs import Goal


def best_so_far(reports: Iterable[tuple[float, float]], goal: Goal) -> list[tuple[float, float]]:
    """The times at which the best value of all members changed, each with the value, from times and values."""
    best: list[tuple[float, float]] = []
    for at, value in sorted(reports, key=lambda report: report[0]):
        if math.isfinite(value) and (not best or goal.cost(value) < goal.cost(best[-1][1])):
            if best and best[-1][0] == at:
                best.pop()
            best.append((at, value))
    return best


def saved_gpu_s(gpu_s: float, step: int, last: int) -> float:
    """The GPU-seconds that a stopped member would still have needed for a whole run, at its own speed."""
    return gpu_s / step * max(0, last - step) if step > 0 else 0.0
