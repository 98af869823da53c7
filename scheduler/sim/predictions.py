"""Predictions on a trace: models of what ended before a moment, scored on the jobs that were submitted after it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scheduler.predict.history import EndedRun, RunTimeJob
from scheduler.predict.runtimes.backtest import Backtest, backtest
from scheduler.predict.runtimes.rows import rows_of
from scheduler.predict.waits.evaluate import Record, evaluate
from scheduler.sim.report import Grid
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.waits import wait_jobs

_SECOND = 1.0  # before its limit: a job that ran for so long was stopped by it


def split_at(trace: Trace, date: datetime) -> float:
    """The moment of a date, epoch s; without a time zone it is UTC, as in traces.

    Raises:
        TraceError: the trace has no dates, or no job on one side of this one.
    """
    if trace.began_at is None:
        raise TraceError(f"{trace.name}: its times have no date")
    at = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    first, last = trace.began_at, trace.began_at + trace.jobs[-1].submitted_s
    told = f"its jobs were submitted from {_day(first)} to {_day(last)}"
    if at <= first:
        raise TraceError(f"{trace.name}: no job was submitted before {_day(at)}; {told}")
    if at > last:
        raise TraceError(f"{trace.name}: no job was submitted after {_day(at)}; {told}")
    return at


def run_times(trace: Trace, at: float, *, refit_s: float = math.inf, threads: int = 1) -> Backtest:
    """The predicted run times of the jobs that were submitted from `at` on, by models of what had ended.

    Raises:
        TraceError: too few jobs had ended by then.
    """
    rows = rows_of(ended_run(trace, job) for job in trace.jobs)
    try:
        return backtest(rows, since=at, refit_s=refit_s, threads=threads)
    except ValueError as error:
        raise TraceError(f"{trace.name}: {error}") from None


def waits(trace: Trace, at: float, *, refit_s: float = math.inf, threads: int = 1) -> Record:
    """The forecasts of the waits of the jobs that were submitted from `at` on, by models of what was known by then.

    Raises:
        TraceError: too few waits are known on one side.
    """
    try:
        return evaluate(wait_jobs(trace), since=at, refit_s=refit_s, threads=threads)
    except ValueError as error:
        raise TraceError(f"{trace.name}: {error}") from None


def ended_run(trace: Trace, job: TraceJob) -> EndedRun:
    """The run of a job, which ended when it did in the original cluster."""
    submitted_at = (trace.began_at or 0.0) + job.submitted_s
    took_s = job.work.remaining_s(0.0)
    at_limit = job.time_limit_s is not None and took_s >= job.time_limit_s - _SECOND
    ended_at = submitted_at + (job.waited_s or 0.0) + took_s
    return EndedRun(run_time_job(trace, job), ended_at, took_s, at_limit or job.status == "cancelled")


def run_time_job(trace: Trace, job: TraceJob) -> RunTimeJob:
    """The job as it was known when it was submitted."""
    return RunTimeJob(
        owner=job.owner,
        submitted_at=(trace.began_at or 0.0) + job.submitted_s,
        name=job.name,
        vc=job.vc,
        command=job.model,
        gpus=job.gpus,
        nodes=job.nodes,
        gpu_type=job.gpu_type or "",
        limit_s=job.time_limit_s,
        user_s=job.expected_s,
    )


def document(trace: Trace, at: float, *, refit_s: float = math.inf, threads: int = 1) -> dict[str, Any]:
    """The scores of models of what had ended by `at` on the jobs that were submitted later, as JSON.

    Raises:
        TraceError: too few jobs had ended by then.
        ModelError: LightGBM cannot be loaded.
    """
    found = run_times(trace, at, refit_s=refit_s, threads=threads)
    figures = {
        predictor: {name: one.plain() for name, one in these.items()} for predictor, these in found.figures().items()
    }
    told: dict[str, Any] = {
        "trace": trace.name,
        "split": datetime.fromtimestamp(at, UTC).isoformat(),
        "left_out": dict(trace.left_out),
        "skipped": len(trace.skipped),
        "run_times": {"jobs": len(found.rows), "predictors": figures},
        "waits": None,
    }
    if any(job.waited_s is not None for job in trace.jobs):
        record = waits(trace, at, refit_s=refit_s, threads=threads)
        plain = {name: one.plain() for name, one in record.figures().items()}
        told["waits"] = {"jobs": len(record.scored), "figures": plain}
    return told


PREDICTORS = {"model": "model", "last_two": "last two", "name_stem": "name stem"}
_COLUMNS = {"error_h": "error, hours", "error_log": "error, log", "spearman": "Spearman"}
_OF_THE_MODEL = {
    "error_h_below_last_two": "error in hours below last two",
    "error_log_below_last_two": "error in log below last two",
    "coverage80": "within p10 to p90",
    "p90_coverage": "at most p90",
}


OF_WAITS = {
    "balanced_accuracy": "balanced accuracy of the quick start",
    "auc": "AUC of the quick start",
    "log_below_last_50": "pinball in log-minutes below last 50 of this size",
    "hours_below_last_50": "pinball in hours below last 50 of this size",
    "p90_coverage": "at most p90",
    "two_sided_coverage": "within p10 to p90",
    "plan_coverage": "at most the plan by limits",
}


def grids(told: Mapping[str, Any]) -> list[Grid]:
    """The tables of a document."""
    predictors = told["run_times"]["predictors"]
    compared = [
        (title, *(text_of(predictors[name][column]) for column in _COLUMNS)) for name, title in PREDICTORS.items()
    ]
    model = [(title, text_of(predictors["model"][name], percent=True)) for name, title in _OF_THE_MODEL.items()]
    tables = [
        Grid(("predictor of run times", *_COLUMNS.values()), tuple(compared)),
        Grid(("model of run times", ""), tuple(model)),
    ]
    if told["waits"] is not None:
        figures = told["waits"]["figures"]
        rows = [(title, text_of(figures[name], percent=True)) for name, title in OF_WAITS.items()]
        tables.append(Grid(("forecasts of waits", ""), tuple(rows)))
    return tables


def text_of(figure: Mapping[str, float | None], *, percent: bool = False) -> str:
    """A figure and its interval in words."""
    value, low, high = (figure[name] for name in ("value", "low", "high"))
    if value is None:
        return "unknown"
    shape, times = (".1f", 100.0) if percent else (".3f", 1.0)
    unit = " %" if percent else ""
    interval = "" if low is None or high is None else f" ({low * times:{shape}} to {high * times:{shape}})"
    return f"{value * times:{shape}}{unit}{interval}"


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"
