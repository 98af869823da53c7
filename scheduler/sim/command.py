"""Runs the simulations of a command line: runs, files and a progress bar."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.registry import ConfigError
from scheduler.sim.arguments import Study, UsageError, assumed
from scheduler.sim.cluster import ClusterError
from scheduler.sim.engine import simulate
from scheduler.sim.metrics import summarize
from scheduler.sim.report import Row, jobs_to_csv, to_csv, to_json
from scheduler.sim.result import Result
from scheduler.sim.trace import TraceError

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"

# Run, ended jobs, all jobs, simulated seconds.
ProgressCallback = Callable[[str, int, int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files that get the figures in addition to the table; None: none. `-` is standard output."""

    json: str | None = None
    csv: str | None = None
    jobs_csv: str | None = None
    plots: Path | None = None
    timing: bool = True

    def check(self) -> None:
        """Raise a `UsageError` for files that cannot be written, before hours of simulation."""
        files = {"--json": self.json, "--csv": self.csv, "--jobs-csv": self.jobs_csv}
        if sum(path == STDOUT for path in files.values()) > 1:
            raise UsageError("--csv: only one document can go to standard output")
        for option, path in files.items():
            if path is None or path == STDOUT:
                continue
            if Path(path).is_dir():
                raise UsageError(f"{option}: {path} is a folder")
            if not Path(path).parent.is_dir():
                raise UsageError(f"{option}: there is no folder {Path(path).parent}")
        if self.plots is not None:
            if importlib.util.find_spec("matplotlib") is None:
                raise UsageError("--plots needs matplotlib: pip install matplotlib")
            if self.plots.exists() and not self.plots.is_dir():
                raise UsageError(f"--plots: {self.plots} is not a folder")

    @property
    def answers(self) -> bool:
        """True if a document replaces the table on standard output."""
        return STDOUT in {self.json, self.csv, self.jobs_csv}


def run_study(study: Study, outputs: Outputs, report_progress: ProgressCallback | None = None) -> list[Row]:
    """Simulate each run, write the requested files, and return the figures in the order of the runs.

    Raises:
        UsageError: a job can never run, or a file cannot be written.
    """
    outputs.check()
    rows: list[Row] = []
    results: list[tuple[str, Result]] = []
    for label, options in study.runs:

        def progress(done: int, jobs: int, now_s: float, label: str = label) -> None:
            if report_progress is not None:
                report_progress(label, done, jobs, now_s)

        try:
            result = simulate(study.trace, study.cluster, options, progress, study.start)
        except TraceError as error:
            raise UsageError(f"{'--trace' if study.start is None else '--from'}: {study.trace.name}: {error}") from None
        except ConfigError as error:
            raise UsageError(f"--policy: {label}: {error}") from None
        except ClusterError as error:
            raise UsageError(f"--cluster: {error}") from None
        if report_progress is not None:
            report_progress(label, len(result.records), len(result.records), result.makespan_s)
        rows.append(Row(label, summarize(result), assumed(study, options)))
        # A long trace has a record for each job: keep them only if an output needs them.
        if outputs.plots is not None or outputs.jobs_csv is not None:
            results.append((label, result))
    _write(outputs, rows, results)
    return rows


def remarks(rows: list[Row]) -> Iterator[str]:
    """Remarks that the reader of the figures needs."""
    for row in rows:
        if row.summary.unfinished:
            yield f"{row.label}: {row.summary.unfinished} of {row.summary.jobs} jobs never ended; means omit them"


@contextmanager
def progress_bar(console: Console | None, study: Study) -> Iterator[ProgressCallback | None]:
    """A bar for each run while the block runs; without a console, nothing."""
    if console is None:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs, day {task.fields[day]:.1f}"),
        TimeElapsedColumn(),
    )
    jobs = len(study.trace.jobs)
    with Progress(*columns, console=console, transient=True) as progress:
        tasks = {label: progress.add_task(label, total=jobs, start=False, day=0.0) for label, _ in study.runs}
        started: set[str] = set()

        def report_progress(label: str, done: int, _jobs: int, now_s: float) -> None:
            if label not in started:
                started.add(label)
                progress.start_task(tasks[label])
            progress.update(tasks[label], completed=done, day=now_s / 86_400)

        yield report_progress


def _write(outputs: Outputs, rows: list[Row], results: list[tuple[str, Result]]) -> None:
    if outputs.json is not None:
        _write_document("--json", outputs.json, to_json(rows, timing=outputs.timing))
    if outputs.csv is not None:
        _write_document("--csv", outputs.csv, to_csv(rows, timing=outputs.timing))
    if outputs.jobs_csv is not None:
        _write_document("--jobs-csv", outputs.jobs_csv, jobs_to_csv(results))
    if outputs.plots is not None:
        from scheduler.sim.plots import draw_all  # noqa: PLC0415 - matplotlib takes a second, and is seldom wanted

        try:
            draw_all(results, outputs.plots)
        except OSError as error:
            raise UsageError(f"--plots: {outputs.plots}: {error.strerror}") from None


def _write_document(option: str, where: str, text: str) -> None:
    if where == STDOUT:
        sys.stdout.write(text)
        return
    try:
        Path(where).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{option}: {where}: {error.strerror}") from None
