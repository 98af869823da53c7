"""GPU-hours by result, and the wasted ones.

In Philly's trace the jobs that failed or were killed took about half of the GPU time (Jeon et al., "Analysis of
Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019): operators see here how that is with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.screening.selectors import ScreeningTotals, screening_totals
from muster.usage.dimensions import By
from muster.usage.outcomes import WASTED, Outcome
from muster.usage.periods import Period
from muster.usage.scope import Scope
from muster.usage.selectors import Row, read


@dataclass(frozen=True, slots=True)
class Retries:
    """GPU-hours of attempts that repeated a failed one, by outcome."""

    gpu_hours: float = 0.0
    attempts: int = 0
    succeeded_gpu_hours: float = 0.0
    wasted_gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class Waste:
    """All GPU-hours of a period in four ways: of which `wasted_gpu_hours` came to nothing."""

    total: Row
    wasted_gpu_hours: float
    outcomes: list[Row]
    states: list[Row]
    failures: list[Row]
    retries: Retries
    screening: ScreeningTotals | None
    """None for callers who may not see all of a tenant: screening is counted by tenant."""


NO_SCREENING = ScreeningTotals(key=())
_FAILURE = (By.CATEGORY, By.FAILURE, By.OUTCOME)


def waste(period: Period, scope: Scope) -> Waste:
    """GPU-hours by outcomes of attempts, states of jobs, failure classes, retries and screening."""
    rows = read(period, scope, [(), (By.OUTCOME,), (By.STATE,), _FAILURE, (By.OUTCOME, By.RETRY)])
    outcomes = _of(rows, By.OUTCOME)
    return Waste(
        total=next(iter(_of(rows)), Row({}, 0.0, 0, 0)),
        wasted_gpu_hours=sum(row.gpu_hours for row in outcomes if row.values[By.OUTCOME] in WASTED),
        outcomes=outcomes,
        states=_of(rows, By.STATE),
        failures=[row for row in _of(rows, *_FAILURE) if _has_failed(row)],
        retries=_retries(_of(rows, By.OUTCOME, By.RETRY)),
        screening=_screening(period, scope),
    )


def _screening(period: Period, scope: Scope) -> ScreeningTotals | None:
    tenant_ids = scope.whole_tenants()
    if tenant_ids == []:
        return None
    found = screening_totals(since=period.start, until=period.end, tenant_ids=tenant_ids)
    return found[0] if found else NO_SCREENING


def _of(rows: Iterable[Row], *by: By) -> list[Row]:
    """The rows of one grouping, the largest first."""
    mine = [row for row in rows if row.values.keys() == set(by)]
    return sorted(mine, key=lambda row: (-row.gpu_hours, *map(str, row.values.values())))


def _has_failed(row: Row) -> bool:
    # Screening exists to find failures, so its failed runs are no waste.
    return row.values[By.FAILURE] is not None and row.values[By.OUTCOME] != Outcome.SCREENING


def _retries(rows: Iterable[Row]) -> Retries:
    tries = [row for row in rows if row.values[By.RETRY]]
    return Retries(
        gpu_hours=sum(row.gpu_hours for row in tries),
        attempts=sum(row.attempts for row in tries),
        succeeded_gpu_hours=sum(row.gpu_hours for row in tries if row.values[By.OUTCOME] == Outcome.SUCCEEDED),
        wasted_gpu_hours=sum(row.gpu_hours for row in tries if row.values[By.OUTCOME] in WASTED),
    )
