"""The finish-time fairness of applications that ended in a period, or are live: by week, tenant and more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median
from typing import Any

from django.db import connection

from muster.common.errors import Invalid
from muster.tenants.models import Tenant
from muster.usage.dimensions import NAMES, By
from muster.usage.finish_times import live_finish_times
from muster.usage.models import Finish
from muster.usage.periods import Period
from muster.usage.scope import Scope
from muster.usage.selectors import MAX_ROWS, parse_by

_COLUMNS = {
    By.WEEK: "date_trunc('week', job.ended_at, 'UTC')",
    By.TENANT: "job.tenant_id",
    By.VC: "job.vc_id",
    By.USER: "job.owner_id",
}


@dataclass(frozen=True, slots=True)
class FairnessRow:
    """Median, mean and maximum of both ratios over the applications that have these values in common."""

    values: dict[By, str | datetime]
    applications: int
    rho_quota_median: float | None
    rho_quota_mean: float | None
    rho_quota_max: float | None
    rho_cluster_median: float | None
    rho_cluster_mean: float | None
    rho_cluster_max: float | None


def parse_fairness_by(words: str) -> list[By]:
    """The columns that a comma-separated list names; `Invalid` names a wrong word."""
    found = parse_by(words)
    for one in found:
        if one not in _COLUMNS:
            known = ", ".join(each.value for each in _COLUMNS)
            raise Invalid.field("by", f"{one.value!r} does not tell finish times apart; known: {known}")
    return found


def fairness_by(period: Period, scope: Scope, by: Sequence[By], *, pool_id: int | None = None) -> list[FairnessRow]:
    """A row for each group, the weeks in order, none where nothing ended; without `by` one for all. `Invalid` if there
    are more than `MAX_ROWS`."""
    where = ["job.ended_at >= %(from)s AND job.ended_at < %(to)s", *([scope.sql] if scope.sql else [])]
    if pool_id is not None:
        where.append("job.vc_id IN (SELECT id FROM tenants_virtualcluster WHERE pool_id = %(pool)s)")
    columns = [f"{_COLUMNS[one]} AS by_{one.value}" for one in by]
    names = [f"by_{one.value}" for one in by]
    shown = [f"the_{one.value}.{NAMES[one][1]}" if one in NAMES else f"by_{one.value}" for one in by]
    joins = [
        f"JOIN {NAMES[one][0]} the_{one.value} ON the_{one.value}.id = by_{one.value}" for one in by if one in NAMES
    ]
    grouped = f" GROUP BY {', '.join(names)}" if names else " HAVING count(*) > 0"
    text = (
        f"WITH job AS ({_APPLICATIONS}), told AS (SELECT {', '.join([*columns, 'rho_quota', 'rho_cluster'])}"
        f" FROM job WHERE {' AND '.join(where)}), summed AS (SELECT {', '.join([*names, *_SUMS])} FROM told{grouped})"
        f" SELECT {', '.join([*shown, *_FIGURES])}"
        f" FROM summed {' '.join(joins)}"
        + (f" ORDER BY {', '.join(str(number) for number in range(1, len(by) + 1))}" if by else "")
        + f" LIMIT {MAX_ROWS + 1}"
    )
    parameters: dict[str, Any] = {"from": period.start, "to": period.end, "pool": pool_id, **scope.parameters}
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        rows = cursor.fetchall()
    if len(rows) > MAX_ROWS:
        raise Invalid.field("by", f"that makes more than {MAX_ROWS} rows; ask for a shorter period, or for less")
    return [FairnessRow(dict(zip(by, row, strict=False)), *row[len(by) :]) for row in rows]


def fairness_now(pool_id: int) -> list[FairnessRow]:
    """A row for each tenant of its live applications in the pool, as they stand now."""
    names = dict(Tenant.objects.values_list("pk", "name"))
    by_tenant: defaultdict[str, list[Finish]] = defaultdict(list)
    for row in live_finish_times(pool_id):
        by_tenant[names[row.tenant_id]].append(row)
    return [
        FairnessRow(
            {By.TENANT: name},
            len(rows),
            *_figures(row.rho_quota for row in rows),
            *_figures(row.rho_cluster for row in rows),
        )
        for name, rows in sorted(by_tenant.items())
    ]


def _figures(values: Iterable[float | None]) -> tuple[float | None, float | None, float | None]:
    known = [value for value in values if value is not None]
    return (median(known), fmean(known), max(known)) if known else (None, None, None)


_OF_EACH = "tenant_id, vc_id, owner_id, ended_at, rho_quota, rho_cluster"
_APPLICATIONS = f"SELECT {_OF_EACH} FROM usage_finishtime UNION ALL SELECT {_OF_EACH} FROM usage_groupfinishtime"
_AGGREGATES = {"median": "percentile_cont(0.5) WITHIN GROUP (ORDER BY {})", "mean": "avg({})", "max": "max({})"}
# In the order of the fields of `FairnessRow`.
_SUMS = [
    "count(*) AS applications",
    *(
        f"{sql.format(rho)} AS {rho}_{name}"
        for rho in ("rho_quota", "rho_cluster")
        for name, sql in _AGGREGATES.items()
    ),
]
_FIGURES = [each.rpartition(" AS ")[2] for each in _SUMS]
