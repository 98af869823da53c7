"""The figures of several runs side by side: a table for people, JSON and CSV for programs.

The same trace, options and seed give the same bytes, except for the wall time and the peak memory of the simulation;
`timing=False` leaves these two out.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from scheduler.sim.metrics import Queueing, Summary, rho_cluster, rho_quota
from scheduler.sim.result import JobRecord, Result

if TYPE_CHECKING:
    from rich.table import Table

_DECIMALS = 6
_RUNS_AFTER_FIRST = 4  # runs per table beside the first: more do not fit a terminal
# The delays of jobs, as fields of their records and summaries are named.
DELAYS = ("fair_share", "fragmentation", "capacity", "apart", "order", "not_eligible")
_TIMING = ("wall_s", "peak_mib")
_LINES = "\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One run of the report: its name, its figures and its assumptions."""

    label: str
    summary: Summary
    assumed: Mapping[str, object] = field(default_factory=dict)  # plain JSON values


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text; the first column names the rows, the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def plain(self) -> str:
        """The table as aligned lines."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        texts = [
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return _LINES.join([texts[0], "  ".join("-" * width for width in widths), *texts[1:]])

    def rich(self) -> Table:
        """The table as a rich table; rich must be installed."""
        from rich.table import Table  # noqa: PLC0415 - the simulator works without it
        from rich.text import Text  # noqa: PLC0415

        table = Table(header_style="bold")
        for column, name in enumerate(self.header):
            table.add_column(Text(name), justify="right" if column else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def grids(rows: Sequence[Row], *, timing: bool = True) -> Iterator[Grid]:
    """The comparison: a line for each figure, a column for each run, and ratios to the first run.

    Many runs are split over several tables, each of which begins with the first run.
    """
    first, others = rows[0], rows[1:]
    lines = [line for line in _TABLE if timing or line.timing is False]
    lines = [line for line in lines if not line.only_if_any or any(line.value(row.summary) for row in rows)]
    for start in range(0, max(1, len(others)), _RUNS_AFTER_FIRST):
        shown = [first, *others[start : start + _RUNS_AFTER_FIRST]]
        yield Grid(
            header=("", *(row.label for row in shown)),
            rows=tuple((line.title, *(_cell(line, row, first) for row in shown)) for line in lines),
        )


def document(rows: Iterable[Row], *, timing: bool = True) -> dict[str, Any]:
    """The runs as plain JSON values; docs/operator/simulator.md defines each field."""
    return {"runs": [_run(row, timing=timing) for row in rows]}


def to_json(rows: Iterable[Row], *, timing: bool = True) -> str:
    """The runs as a JSON document."""
    return json.dumps(document(rows, timing=timing), indent=2, allow_nan=False) + "\n"


def to_csv(rows: Iterable[Row], *, timing: bool = True) -> str:
    """The runs as CSV, one line each; figures by size have a column per size, and those by virtual cluster none."""
    lines = []
    for row in rows:
        run = _run(row, timing=timing)
        sizes = run.pop("by_size")
        del run["by_vc"]
        run["assumed"] = json.dumps(run["assumed"])
        for size in sizes:
            name = size.pop("gpus").replace("-", "_").replace(">", "over_")
            run |= {f"gpus_{name}_{key}": value for key, value in size.items()}
        lines.append(run)
    return _csv(list(lines[0]) if lines else [], (line.values() for line in lines))


def jobs_to_csv(results: Iterable[tuple[str, Result]]) -> str:
    """Every job of every run as CSV; an empty value means none."""
    names = [each.name for each in fields(JobRecord)]

    def lines() -> Iterator[list[object]]:
        for label, result in results:
            for record in result.records:
                taken_s = None if record.ended_s is None else record.ended_s - record.submitted_s
                ratios = (rho_cluster(record, result.gpus), rho_quota(record))
                values = [_rounded(value) for value in (taken_s, *ratios)]
                yield [label, *(_rounded(getattr(record, name)) for name in names), *values]

    return _csv(["run", *names, "jct_s", "rho_cluster", "rho_quota"], lines())


def _run(row: Row, *, timing: bool) -> dict[str, Any]:
    summary = row.summary
    figures: dict[str, Any] = {"run": row.label}
    for each in fields(summary):
        if each.name == "queueing":
            figures |= _delays(summary.queueing)
        elif each.name in ("by_size", "by_vc"):
            continue
        elif timing or each.name not in _TIMING:
            figures[each.name] = _rounded(getattr(summary, each.name))
    figures["by_size"] = [
        {"gpus": size.gpus, "jobs": size.jobs, "jct_mean_s": _rounded(size.jct_mean_s)} | _delays(size)
        for size in summary.by_size
    ]
    figures["by_vc"] = [{each.name: _rounded(getattr(vc, each.name)) for each in fields(vc)} for vc in summary.by_vc]
    figures["assumed"] = dict(row.assumed)
    return figures


def _delays(queueing: Queueing) -> dict[str, Any]:
    return {
        name: _rounded(getattr(queueing, name))
        for delay in DELAYS
        for name in (f"{delay}_delay_s", f"{delay}_delay_mean_s")
    }


def _rounded(value: Any) -> Any:
    return round(value, _DECIMALS) if isinstance(value, float) else value


def _csv(header: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class _Line:
    title: str
    value: Callable[[Summary], float | None]
    ratio: bool = True  # whether its ratio to another run is meaningful
    percent: bool = False
    only_if_any: bool = False
    timing: bool = False


def _of_groups(name: str) -> Callable[[Summary], float | None]:
    """A figure of applications; None where each job is one, which the figures of jobs already tell."""
    return lambda summary: getattr(summary, name) if summary.applications < summary.jobs else None


def _size_lines() -> Iterator[_Line]:
    def mean(size: int, name: str) -> Callable[[Summary], float | None]:
        return lambda summary: getattr(summary.by_size[size], name)

    for name, delay in (("fair share", "fair_share_delay_mean_s"), ("fragmentation", "fragmentation_delay_mean_s")):
        for size, gpus in enumerate(("1 GPU", "2-4 GPUs", "5-8 GPUs", "> 8 GPUs")):
            yield _Line(f"  {name}, {gpus}, mean s", mean(size, delay), only_if_any=True)


_TABLE: tuple[_Line, ...] = (
    _Line("JCT mean, s", lambda summary: summary.jct_mean_s),
    _Line("JCT p50, s", lambda summary: summary.jct_p50_s),
    _Line("JCT p99, s", lambda summary: summary.jct_p99_s),
    _Line("makespan, s", lambda summary: summary.makespan_s),
    _Line("utilization, %", lambda summary: summary.utilization, percent=True),
    _Line("rho of the cluster, mean", lambda summary: summary.rho_mean),
    _Line("rho of the cluster, max", lambda summary: summary.rho_max),
    _Line("rho of the quota, mean", lambda summary: summary.rho_quota_mean),
    _Line("rho of the quota, max", lambda summary: summary.rho_quota_max),
    _Line("rho of the cluster, from 60 s, mean", lambda summary: summary.rho_bounded_mean),
    _Line("rho of the cluster, from 60 s, p50", lambda summary: summary.rho_bounded_p50),
    _Line("rho of the cluster, from 60 s, max", lambda summary: summary.rho_bounded_max),
    _Line("rho of the quota, from 60 s, mean", lambda summary: summary.rho_quota_bounded_mean),
    _Line("rho of the quota, from 60 s, p50", lambda summary: summary.rho_quota_bounded_p50),
    _Line("rho of the quota, from 60 s, max", lambda summary: summary.rho_quota_bounded_max),
    _Line("Jain's index of 1/rho of the cluster", lambda summary: summary.jain),
    _Line("applications", _of_groups("applications"), ratio=False, only_if_any=True),
    _Line("time of an application, mean s", _of_groups("application_time_mean_s"), only_if_any=True),
    _Line("rho of applications, mean", _of_groups("application_rho_mean"), only_if_any=True),
    _Line("rho of applications, max", _of_groups("application_rho_max"), only_if_any=True),
    _Line("Jain's index of 1/rho of applications", _of_groups("application_jain"), only_if_any=True),
    _Line("fair-share delay, mean s", lambda summary: summary.queueing.fair_share_delay_mean_s),
    _Line("fragmentation delay, mean s", lambda summary: summary.queueing.fragmentation_delay_mean_s),
    _Line("  too few free, mean s", lambda summary: summary.queueing.capacity_delay_mean_s),
    _Line("  not together, mean s", lambda summary: summary.queueing.apart_delay_mean_s),
    _Line("  kept for others, mean s", lambda summary: summary.queueing.order_delay_mean_s),
    _Line("not eligible, mean s", lambda summary: summary.queueing.not_eligible_delay_mean_s, only_if_any=True),
    *_size_lines(),
    _Line("GPU-hours lost", lambda summary: summary.lost_gpu_hours),
    _Line("GPU-hours lost to failures", lambda summary: summary.failed_gpu_hours, only_if_any=True),
    _Line("jobs failed", lambda summary: summary.failed, ratio=False, only_if_any=True),
    _Line("deadlines", lambda summary: summary.deadlines, ratio=False, only_if_any=True),
    _Line("deadlines missed", lambda summary: summary.missed_deadlines, only_if_any=True),
    _Line("jobs cancelled", lambda summary: summary.cancelled, ratio=False, only_if_any=True),
    _Line("retries", lambda summary: summary.retries, ratio=False, only_if_any=True),
    _Line("jobs screened", lambda summary: summary.screened, ratio=False, only_if_any=True),
    _Line("jobs caught by screening", lambda summary: summary.caught, ratio=False, only_if_any=True),
    _Line("jobs not screened in time", lambda summary: summary.unscreened, ratio=False, only_if_any=True),
    _Line("GPU-hours of screening", lambda summary: summary.screening_gpu_hours, ratio=False, only_if_any=True),
    _Line("GPU-hours saved by screening", lambda summary: summary.saved_gpu_hours, ratio=False, only_if_any=True),
    _Line("delay by screening, p50 s", lambda summary: summary.screening_delay_p50_s, ratio=False, only_if_any=True),
    _Line("preemptions", lambda summary: summary.preemptions, ratio=False),
    _Line("moves", lambda summary: summary.moves, ratio=False),
    _Line("jobs", lambda summary: summary.jobs, ratio=False),
    _Line("jobs left unfinished", lambda summary: summary.unfinished, ratio=False, only_if_any=True),
    _Line("jobs that never fit", lambda summary: summary.infeasible, ratio=False, only_if_any=True),
    _Line("wall time, s", lambda summary: summary.wall_s, timing=True),
    _Line("peak memory, MiB", lambda summary: summary.peak_mib, ratio=False, timing=True),
)


def _cell(line: _Line, row: Row, first: Row) -> str:
    value = line.value(row.summary)
    if value is None:
        return "-"
    text = _number(value * 100 if line.percent else value)
    if row is first or not line.ratio:
        return text
    reference = line.value(first.summary)
    # A ratio to zero is undefined; a blank keeps the numbers aligned.
    ratio = f"{value / reference:.{2 if value / reference >= 0.1 else 4}f}x" if reference else "-"
    return f"{text} {ratio:>8}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"
