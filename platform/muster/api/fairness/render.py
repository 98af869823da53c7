"""Finish-time fairness as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from muster.api.usage.render import csv_table
from muster.common.clock import moment, rounded
from muster.dispatch.explain.fairness import PolicyVerdicts as Verdicts
from muster.usage.dimensions import By
from muster.usage.fairness import FairnessRow as FairnessFound
from muster.usage.finish_times import Fairness
from muster.usage.models import FinishTime
from muster_client.answers.fairness import FairnessRow, JobFairness, PolicyVerdicts, RhoFigures, TenantRho, WeekRho
from muster_client.answers.sweeps import SweepRho

_OF_SEVERAL = tuple(f"{rho}_{name}" for rho in ("rho_quota", "rho_cluster") for name in ("median", "mean", "max"))


def job_fairness(found: Fairness) -> JobFairness:
    """The figures of one job, and the sentence about them."""
    row = found.times if isinstance(found.times, FinishTime) else None
    return {
        "final": found.final,
        "sentence": found.sentence,
        "quota_gpus": row.quota_gpus if row else 0,
        "pool_gpus": row.pool_gpus if row else 0,
        "rho_quota": rounded(row.rho_quota, 4) if row else None,
        "rho_cluster": rounded(row.rho_cluster, 4) if row else None,
        "taken_s": rounded(row.taken_s, 4) if row else None,
        "alone_s": rounded(row.alone_s, 4) if row else None,
        "contention": rounded(row.contention, 4) if row else None,
        "vc_contention": rounded(row.vc_contention, 4) if row else None,
    }


def fairness_row(row: FairnessFound) -> FairnessRow:
    """The figures of several applications, and by what they are told apart."""
    return {
        "week": _week(row),
        "tenant": _text(row, By.TENANT),
        "vc": _text(row, By.VC),
        "user": _text(row, By.USER),
        **_figures(row),
    }


def _week(row: FairnessFound) -> str | None:
    week = row.values.get(By.WEEK)
    return week.date().isoformat() if isinstance(week, datetime) else week


def tenant_rho(row: FairnessFound) -> TenantRho:
    """The figures of one tenant."""
    return {"tenant": _text(row, By.TENANT) or "", **_figures(row)}


def week_rho(row: FairnessFound) -> WeekRho:
    """The figures of one week."""
    return {"week": _week(row) or "", **_figures(row)}


def _figures(row: FairnessFound) -> RhoFigures:
    return {
        "applications": row.applications,
        "rho_quota_median": rounded(row.rho_quota_median, 4),
        "rho_quota_mean": rounded(row.rho_quota_mean, 4),
        "rho_quota_max": rounded(row.rho_quota_max, 4),
        "rho_cluster_median": rounded(row.rho_cluster_median, 4),
        "rho_cluster_mean": rounded(row.rho_cluster_mean, 4),
        "rho_cluster_max": rounded(row.rho_cluster_max, 4),
    }


def _text(row: FairnessFound, by: By) -> str | None:
    value = row.values.get(by)
    return value if value is None or isinstance(value, str) else None


def fairness_csv(by: Sequence[By], rows: Iterable[FairnessFound]) -> str:
    """A table with a column for each thing asked for."""
    names = [*(one.value for one in by), "applications", *_OF_SEVERAL]
    return csv_table(names, map(fairness_row, rows))


def verdicts_document(found: Verdicts) -> PolicyVerdicts:
    """The number of judged snapshots in which each property held under one policy."""
    return {
        "policy": found.policy,
        "policy_params": found.policy_params,
        "today": found.today,
        "snapshots": found.snapshots,
        "decided_by": found.decided_by,
        "sharing_incentive": found.sharing_incentive,
        "pareto_efficiency": found.pareto_efficiency,
        "kept_by_quotas": found.kept_by_quotas,
        "envy_freeness": found.envy_freeness,
        "problem": found.problem,
        "witnesses": [{"at": moment(one.at), "sentence": one.sentence} for one in found.witnesses],
    }


def sweep_rho(found: Fairness) -> SweepRho:
    """The figures of a sweep, and the sentence about them."""
    row = found.times
    return {
        "cluster": rounded(row.rho_cluster, 4) if row else None,
        "quota": rounded(row.rho_quota, 4) if row else None,
        "sentence": found.sentence,
    }
