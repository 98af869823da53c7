"""The settings of screening, the trusted jobs, and its savings and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.db.models.functions import TruncDay, TruncMonth, TruncWeek

from muster.common.clock import database_now
from muster.common.rows import first_of
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.screening.models import PoolScreening, ScreeningResult
from scheduler.diagnosis.screening import ScreeningVerdict

By = Literal["day", "week", "month", "tenant", "pool", "failure", "verdict"]

_KEYS: dict[str, Any] = {
    "day": TruncDay("at"),
    "week": TruncWeek("at"),
    "month": TruncMonth("at"),
    "tenant": F("tenant__name"),
    "pool": F("pool__name"),
    "failure": F("failure"),
    "verdict": F("verdict"),
}
_TRIED = Q(attempt__isnull=False)


@dataclass(frozen=True, slots=True)
class ScreeningTotals:
    """Sums over screening runs; GPU-seconds are of GPUs that were held, whether busy or idle."""

    key: tuple[Any, ...]
    """One value for each of `by`: a name, the start of a day, week or month (UTC), or a class of failures."""
    tried: int = 0
    """Screening runs that began; a job that was screened again counts again."""
    passed: int = 0
    failed: int = 0
    """Jobs that failed here by themselves, and never took their gang."""
    inconclusive: int = 0
    interrupted: int = 0
    """Runs that a node, an operator or the owner ended."""
    untried: int = 0
    """Jobs that went on unscreened: the wait was too long, or nothing could run them."""
    trusted: int = 0
    """Jobs that were not screened because an equal job passed recently."""
    spent_gpu_s: float = 0.0
    """GPU-seconds that all runs held in the screening pool: the cost of screening."""
    saved_gpu_s: float = 0.0
    """GPU-seconds that the gangs of failed runs would have computed until they failed: GPUs asked x seconds to the
    failure. An estimate, and without what it costs to bring a gang together; the net gain is this less `spent_gpu_s`.
    """
    full_gpu_s: float = 0.0
    """The same also over failures that said nothing (inconclusive): what could have been saved at most."""


def screening_totals(
    *,
    since: datetime,
    until: datetime,
    by: Sequence[By] = (),
    tenant_ids: Iterable[int] | None = None,
) -> list[ScreeningTotals]:
    """Totals of screening in the period, by the time at which each run ended; one row for each group of `by`, or one.

    `tenant_ids` None: of all tenants; the caller decides whose figures may be seen.
    """
    results = ScreeningResult.objects.filter(at__gte=since, at__lt=until)
    if tenant_ids is not None:
        results = results.filter(tenant_id__in=list(tenant_ids))
    keys = [f"by_{name}" for name in by]
    counted = {f"n_{verdict}": Count("pk", filter=Q(verdict=verdict)) for verdict in ScreeningVerdict}
    sums = {name: Sum(name, default=0.0) for name in ("spent_gpu_s", "saved_gpu_s", "full_gpu_s")}
    figures = {"tried": Count("pk", filter=_TRIED), **counted, **{f"sum_{name}": one for name, one in sums.items()}}
    if not keys:
        row = results.aggregate(all=Count("pk"), **figures)
        rows = [row] if row["all"] else []
    else:
        grouped = results.annotate(**{key: _KEYS[name] for key, name in zip(keys, by, strict=True)}).values(*keys)
        rows = list(grouped.annotate(**figures).order_by(*keys))
    return [
        ScreeningTotals(
            key=tuple(row[key] for key in keys),
            tried=row["tried"],
            **{str(verdict): row[f"n_{verdict}"] for verdict in ScreeningVerdict},
            **{name: row[f"sum_{name}"] for name in sums},
        )
        for row in rows
    ]


def screening_of(pool_id: int) -> PoolScreening | None:
    """The screening of the pool's jobs; None: they are not screened."""
    return first_of(PoolScreening.objects.filter(pool_id=pool_id).select_related("screening_pool"))


def tenant_cap(pool: Pool) -> int:
    """GPUs of this screening pool that one tenant's runs may hold at once; the largest where pools differ."""
    return PoolScreening.objects.filter(screening_pool=pool).aggregate(most=Max("tenant_gpus"))["most"] or 0


def passed_of_late(*, tenant_id: int, digest: str, trust_days: float) -> ScreeningResult | None:
    """The newest passed run that is still trusted, of a job of the tenant that ran the same."""
    if trust_days <= 0:
        return None
    since = database_now() - timedelta(days=trust_days)
    results = ScreeningResult.objects.filter(
        tenant_id=tenant_id, digest=digest, verdict=ScreeningVerdict.PASSED, at__gte=since
    )
    return first_of(results.order_by("-at"))


def results_of(job: Job) -> QuerySet[ScreeningResult]:
    return ScreeningResult.objects.filter(job=job).select_related("attempt").order_by("pk")
