"""Finish-time fairness as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from muster.api.usage.render import csv_table
from muster.usage.dimensions import By
from muster.usage.fairness import FairnessRow
from muster.usage.finish_times import Fairness
from muster.usage.models import FinishTime
from muster_client.answers.sweeps import SweepRho

Json = dict[str, Any]

_OF_SEVERAL = tuple(f"{rho}_{name}" for rho in ("rho_quota", "rho_cluster") for name in ("median", "mean", "max"))
_FIGURES = ("rho_quota", "rho_cluster", "taken_s", "alone_s", "contention", "vc_contention")


def job_fairness(found: Fairness) -> Json:
    """The figures of one job, and the sentence about them."""
    row = found.times if isinstance(found.times, FinishTime) else None
    return {
        "final": found.final,
        "sentence": found.sentence,
        "quota_gpus": row.quota_gpus if row else 0,
        "pool_gpus": row.pool_gpus if row else 0,
        **{name: _rounded(getattr(row, name)) if row else None for name in _FIGURES},
    }


def fairness_row(row: FairnessRow) -> Json:
    """The figures of several applications, and by what they are told apart."""
    values = {one.value: value for one, value in row.values.items()}
    if isinstance(week := values.get(By.WEEK), datetime):
        values[By.WEEK] = week.date().isoformat()
    return {
        **dict.fromkeys(("week", "tenant", "vc", "user")),
        **values,
        "applications": row.applications,
        **{name: _rounded(getattr(row, name)) for name in _OF_SEVERAL},
    }


def fairness_csv(by: Sequence[By], rows: Iterable[FairnessRow]) -> str:
    """A table with a column for each thing asked for."""
    names = [*(one.value for one in by), "applications", *_OF_SEVERAL]
    return csv_table(names, map(fairness_row, rows))


def sweep_rho(found: Fairness) -> SweepRho:
    """The figures of a sweep, and the sentence about them."""
    row = found.times
    return {
        "cluster": _rounded(row.rho_cluster) if row else None,
        "quota": _rounded(row.rho_quota) if row else None,
        "sentence": found.sentence,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
