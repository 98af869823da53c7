"""Finish-time fairness as JSON."""

from __future__ import annotations

from typing import Any

from muster.usage.finish_times import Fairness
from muster.usage.models import FinishTime

Json = dict[str, Any]

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


def sweep_rho(found: Fairness) -> Json:
    """The figures of a sweep, and the sentence about them."""
    row = found.times
    return {
        "cluster": _rounded(row.rho_cluster) if row else None,
        "quota": _rounded(row.rho_quota) if row else None,
        "sentence": found.sentence,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
