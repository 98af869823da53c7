"""Three plots of several runs: completion times, GPU use over time, and reasons of waiting.

The colours are Okabe and Ito's, which colour-blind readers can tell apart; runs also differ in line style, and the two
delays in hatching. The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from scheduler.sim.metrics import SIZES, jct_s, summarize
from scheduler.sim.result import Result

Floats = NDArray[np.float64]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
_BINS = 240
_OPEN: dict[str, Any] = {"baseline": None}  # no line down to 0 at either end
_STYLE: dict[Any, Any] = {
    "figure.dpi": 120,
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
}

# A run and its name in the legend.
Run = tuple[str, Result]
Draw = Callable[[Sequence[Run]], Figure]


def draw_all(runs: Sequence[Run], folder: Path) -> list[Path]:
    """The three plots as PNG files in the folder, which is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Draw] = {"jct": completion_times, "utilization": utilization, "queueing": queueing}
    paths = []
    with mpl.rc_context(_STYLE):
        for name, draw in figures.items():
            path = folder / f"{name}.png"
            figure = draw(runs)
            # Leave out the metadata, which contains the version of the drawing library.
            figure.savefig(path, format="png", metadata={"Software": ""})
            paths.append(path)
    return paths


def completion_times(runs: Sequence[Run]) -> Figure:
    """The share of the jobs that completed within a time of their submission."""
    figure, axes = _figure(1)
    for (_, result), (colour, dash) in _styled(runs):
        times = np.sort([jct_s(record) for record in result.records if record.ended_s is not None])
        if len(times):
            parts = np.arange(1, len(times) + 1) / len(times) * 100
            # A logarithmic axis has no zero; times below one second are shown at one.
            axes[0].step(np.maximum(times, 1.0), parts, where="post", color=colour, linestyle=dash)
    axes[0].set(xscale="log", ylim=(0, 101), xlabel="job completion time (s)", ylabel="jobs complete (%)")
    _finish(figure, "Distribution of job completion times", _lines(runs))
    return figure


def utilization(runs: Sequence[Run]) -> Figure:
    """The share of busy GPUs and the number of waiting jobs over time."""
    figure, axes = _figure(2)
    last_s = max((result.timeline[-1][0] for _, result in runs if result.timeline), default=0.0)
    unit, unit_s = _unit(last_s)
    for (_, result), (colour, dash) in _styled(runs):
        if len(result.timeline) < 2:
            continue
        edges, busy, waiting = over_time(result)
        axes[0].stairs(busy / result.gpus * 100, edges / unit_s, color=colour, linestyle=dash, **_OPEN)
        axes[1].stairs(waiting, edges / unit_s, color=colour, linestyle=dash, **_OPEN)
    axes[0].set(ylim=(0, 101), ylabel="GPUs held (%)")
    axes[1].set(ylim=(0, None), xlabel=f"time since the start of the trace ({unit})", ylabel="jobs waiting")
    _finish(figure, f"Use of the cluster over time (means over 1/{_BINS} of the run)", _lines(runs))
    return figure


def queueing(runs: Sequence[Run]) -> Figure:
    """Mean wait of a job by its size and reason."""
    figure, axes = _figure(1)
    width = 0.8 / max(1, len(runs))
    places = np.arange(len(SIZES))
    waits = [_waits_s(result) for _, result in runs]
    max_s = max((float(np.max(fair_share + fragmentation)) for fair_share, fragmentation in waits), default=0.0)
    unit, unit_s = _unit(max_s)
    for number, (_, (colour, _)) in enumerate(_styled(runs)):
        fair_share, fragmentation = (wait / unit_s for wait in waits[number])
        at = places + (number - (len(runs) - 1) / 2) * width
        axes[0].bar(at, fragmentation, width * 0.92, color=colour)
        axes[0].bar(at, fair_share, width * 0.92, bottom=fragmentation, color="white", edgecolor=colour, hatch="////")
    axes[0].set_xticks(places, [f"{name} GPU{'' if name == '1' else 's'}" for name, _, _ in SIZES])
    axes[0].set(ylabel=f"mean wait ({unit})", xlabel="size of the job")
    axes[0].grid(visible=False, axis="x")
    keys: list[Artist] = [Patch(color=colour, label=label) for (label, _), (colour, _) in _styled(runs)]
    keys.append(Patch(facecolor="white", edgecolor="#444444", hatch="////", label="fair share (over quota)"))
    keys.append(Patch(facecolor="#444444", label="fragmentation (under quota)"))
    _finish(figure, "Waiting time by reason", keys)
    return figure


def over_time(result: Result, bins: int = _BINS) -> tuple[Floats, Floats, Floats]:
    """Time averages over equal parts of the run: the edges (bins + 1), busy GPUs and waiting jobs (bins each).

    Each sample holds until the next; the timeline has at least two.
    """
    samples = np.array(result.timeline, dtype=np.float64)
    times = samples[:, 0]
    edges = np.linspace(times[0], times[-1], bins + 1)
    spans = np.diff(edges)
    if spans[0] <= 0:
        return edges, np.full(bins, samples[-1, 1]), np.full(bins, samples[-1, 2])

    def average(values: Floats) -> Floats:
        # The integral of a step function is piecewise linear, so interpolating it is exact.
        integral = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(times))))
        return np.asarray(np.diff(np.interp(edges, times, integral)) / spans, dtype=np.float64)

    return edges, average(samples[:, 1]), average(samples[:, 2])


def _waits_s(result: Result) -> tuple[Floats, Floats]:
    """Mean wait by job size, for the fair share and because of fragmentation."""
    sizes = summarize(result).by_size
    fair_share = [size.fair_share_delay_mean_s or 0.0 for size in sizes]
    return np.array(fair_share), np.array([size.fragmentation_delay_mean_s or 0.0 for size in sizes])


def _unit(max_s: float) -> tuple[str, float]:
    """The unit in which this time is a readable number."""
    units = (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0))
    return next((unit for unit in units if max_s > 3 * unit[1]), ("s", 1.0))


def _figure(panels: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(8.0, 3.0 + 1.6 * panels), layout="constrained")
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False)
    return figure, list(axes[:, 0])


def _styled(runs: Sequence[Run]) -> Iterator[tuple[Run, tuple[str, Any]]]:
    """Each run with its colour and dashes; the first 28 runs all differ."""
    return zip(runs, zip(cycle(_COLOURS), cycle(_DASHES), strict=False), strict=False)


def _lines(runs: Sequence[Run]) -> list[Artist]:
    return [Line2D([], [], color=colour, linestyle=dash, label=label) for (label, _), (colour, dash) in _styled(runs)]


def _finish(figure: Figure, title: str, keys: Sequence[Artist]) -> None:
    """Add the title, and the legend below the axes, where it covers nothing."""
    figure.axes[0].set_title(title, loc="left")
    longest = max(len(str(key.get_label())) for key in keys)
    columns = max(1, min(len(keys), 100 // (longest + 8)))
    figure.legend(handles=list(keys), loc="outside lower center", frameon=False, fontsize=8, ncols=columns)
