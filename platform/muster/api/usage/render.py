"""GPU-hours as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.common.clock import hours, moment
from muster.jobs.models import Job
from muster.screening.selectors import ScreeningTotals
from muster.usage.delays import DelayBy, DelayRow
from muster.usage.delays import JobWait as JobWaitFound
from muster.usage.dimensions import By
from muster.usage.models import Efficiency
from muster.usage.periods import Period
from muster.usage.selectors import Row
from muster.usage.waste import Waste as WasteFound
from muster_client.answers.usage import (
    AnswerOfPeriod,
    DelayFigures,
    DelayUsage,
    FailureUsage,
    Graded,
    JobDelays,
    LeastEfficientList,
    ScreeningUsage,
    Usage,
    UsageRow,
    UsageTotal,
    Waste,
)
from scheduler.model.delays import DELAY_OF
from scheduler.model.lifecycle import HoldReason

# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def usage_document(period: Period, by: Sequence[By], total: Row, rows: Iterable[Row]) -> Usage:
    """The sum and the rows, each with all that can be told apart."""
    return {
        **period_document(period),
        "by": [one.value for one in by],
        "total": _amounts(total),
        "results": [_row(row) for row in rows],
    }


def _row(row: Row) -> UsageRow:
    told = _values(row)
    return {
        "tenant": told.get("tenant"),
        "vc": told.get("vc"),
        "user": told.get("user"),
        "gpu_type": told.get("gpu_type"),
        "class": told.get("class"),
        "day": told.get("day"),
        "week": told.get("week"),
        "state": told.get("state"),
        "outcome": told.get("outcome"),
        "failure": told.get("failure"),
        "category": told.get("category"),
        "retry": told.get("retry"),
        **_amounts(row),
    }


def usage_csv(by: Sequence[By], rows: Iterable[Row]) -> str:
    """A table with a column for each thing asked for."""
    names = [one.value for one in by]
    figures = ("gpu_hours", "jobs", "attempts")
    told = ({**_values(row), **_amounts(row), "gpu_hours": f"{row.gpu_hours:.6f}"} for row in rows)
    return csv_table([*names, *figures], told)


def csv_table(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table with a column for each name; what a spreadsheet would run is written as text."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([_cell(row[name]) for name in names] for row in rows)
    return out.getvalue()


def waste_document(period: Period, found: WasteFound) -> Waste:
    """The document of GPU-hours by result."""
    return {
        **period_document(period),
        "total": _amounts(found.total),
        "wasted_gpu_hours": _hours(found.wasted_gpu_hours),
        "outcomes": [{"outcome": _values(row)["outcome"], **_amounts(row)} for row in found.outcomes],
        "states": [{"state": _values(row)["state"], **_amounts(row)} for row in found.states],
        "failures": [_failure(row) for row in found.failures],
        "retries": {
            "gpu_hours": _hours(found.retries.gpu_hours),
            "attempts": found.retries.attempts,
            "succeeded_gpu_hours": _hours(found.retries.succeeded_gpu_hours),
            "wasted_gpu_hours": _hours(found.retries.wasted_gpu_hours),
        },
        "screening": None if found.screening is None else _screening(found.screening),
    }


def _failure(row: Row) -> FailureUsage:
    told = _values(row)
    return {"failure": told["failure"], "category": told["category"], "outcome": told["outcome"], **_amounts(row)}


def least_efficient_document(period: Period, total: Graded, rows: Iterable[Efficiency]) -> LeastEfficientList:
    """The runs that left the most GPU time idle."""
    return {
        **period_document(period),
        "total": total,
        "results": [
            {
                "job": row.job_id,
                "name": row.job.name,
                "owner": row.job.owner.username,
                "vc": row.job.vc.name,
                "ended_at": moment(row.ended_at),
                "grade": row.grade,
                "utilization": round(row.utilization or 0.0, 2),
                "idle_gpus": row.idle_gpus,
                "gpu_hours": hours(row.gpu_s),
                "idle_gpu_hours": hours(row.idle_gpu_s),
                "advice": row.advice,
            }
            for row in rows
        ],
    }


def _screening(found: ScreeningTotals) -> ScreeningUsage:
    return {
        "tried": found.tried,
        "passed": found.passed,
        "failed": found.failed,
        "inconclusive": found.inconclusive,
        "interrupted": found.interrupted,
        "untried": found.untried,
        "trusted": found.trusted,
        "spent_gpu_hours": hours(found.spent_gpu_s),
        "saved_gpu_hours": hours(found.saved_gpu_s),
    }


def delays_document(period: Period, by: Sequence[DelayBy], total: DelayRow, rows: Iterable[DelayRow]) -> DelayUsage:
    """All starts and the rows, each with every column that delays can be grouped by."""
    return {
        **period_document(period),
        "by": [one.value for one in by],
        "total": delay_figures(total),
        "results": [
            {
                "tenant": delay_value(row, DelayBy.TENANT),
                "vc": delay_value(row, DelayBy.VC),
                "user": delay_value(row, DelayBy.USER),
                "size": delay_value(row, DelayBy.SIZE),
                "day": delay_value(row, DelayBy.DAY),
                "week": delay_value(row, DelayBy.WEEK),
                **delay_figures(row),
            }
            for row in rows
        ],
    }


def job_delays_document(job: Job, waits: Iterable[JobWaitFound]) -> JobDelays:
    """The present delay of the job and its waits."""
    hold = job.hold or {}
    delay = hold.get("delay") or (DELAY_OF[HoldReason(job.hold_reason)] if job.hold_reason else None)
    return {
        "delay": delay,
        "waits": [
            {
                "attempt": wait.attempt,
                "begins": moment(wait.begins),
                "ends": moment(wait.ends),
                **wait.delays.figures(),  # type: ignore[typeddict-item]
            }
            for wait in waits
        ],
    }


def delay_figures(row: DelayRow) -> DelayFigures:
    """The numbers of starts and waiting jobs, and their mean wait by delays."""
    return {"starts": row.starts, "waiting": row.waiting, **row.mean.figures()}  # type: ignore[typeddict-item]


def delay_value(row: DelayRow, by: DelayBy) -> str | None:
    """The value of a column, of a day or a week its date; None if the rows are not grouped by it."""
    value = row.values.get(by)
    return value.date().isoformat() if isinstance(value, datetime) else value


def period_document(period: Period) -> AnswerOfPeriod:
    """The two ends of a period."""
    return {"from": moment(period.start), "to": moment(period.end)}


def _amounts(row: Row) -> UsageTotal:
    return {"gpu_hours": _hours(row.gpu_hours), "jobs": row.jobs, "attempts": row.attempts}


def _hours(value: float) -> float:
    return round(value, 6)


def _values(row: Row) -> dict[str, Any]:
    return {
        one.value: value.date().isoformat() if isinstance(value, datetime) else value
        for one, value in row.values.items()
    }


def _cell(value: object) -> str:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text
