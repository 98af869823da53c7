"""Finish-time fairness as JSON."""

from __future__ import annotations

from typing import Any

from muster.usage.finish_times import Fairness

Json = dict[str, Any]


def job_fairness(found: Fairness) -> Json:
    """The figures of one job, and the sentence about them."""
    contention = found.contention
    return {
        "final": found.final,
        "sentence": found.sentence,
        "rho_quota": _rounded(found.rho_quota),
        "rho_cluster": _rounded(found.rho_cluster),
        "taken_s": _rounded(found.taken_s),
        "alone_s": _rounded(found.alone_s),
        "quota_gpus": found.quota_gpus,
        "pool_gpus": found.pool_gpus,
        "contention": None if contention is None else _rounded(contention.of_pool),
        "vc_contention": None if contention is None else _rounded(contention.of_vc),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
