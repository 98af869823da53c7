"""The tree of tenants of a pool in a snapshot: organisations, tenants and virtual clusters, with their limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from muster.cells.selectors import with_cells
from muster.common.statements import Statement
from muster.dispatch.snapshot.parts import Parts
from muster.fleet.models import Pool
from muster.tenants.models import CommonQuota, Limits, Organisation, VirtualCluster
from scheduler import model

_QUOTAS = Statement("""
SELECT vc_id, gpu_type, gpus, borrowing, lending FROM tenants_quota WHERE vc_id = ANY(%s) ORDER BY vc_id, gpu_type
""")


class _Limits(NamedTuple):
    """The limits of one GPU type, as `muster.tenants.models.Limits`."""

    gpu_type: str
    gpus: int
    borrowing: int | None
    lending: int | None


def virtual_clusters_in(pool: Pool) -> list[VirtualCluster]:
    """The virtual clusters of the pool, with their tenants."""
    rows = VirtualCluster.objects.filter(pool=pool, closed_at__isnull=True)
    return list(rows.select_related("tenant").order_by("pk"))


def tree_of(pool: Pool, rows: Sequence[VirtualCluster], parts: Parts) -> dict[str, Any]:
    """The virtual clusters with all that is above them, as the fields of a snapshot."""
    tenants = {row.tenant_id: row.tenant for row in rows}
    organisations = _above({tenant.organisation_id for tenant in tenants.values()})
    of_vc, of_tenant, of_organisation = (defaultdict[int | None, list[_Limits | Limits]](list) for _ in range(3))
    for vc_id, *limits in _QUOTAS.rows([row.pk for row in rows]):
        of_vc[vc_id].append(_Limits(*limits))
    for common in CommonQuota.objects.filter(pool=pool).order_by("gpu_type") if parts.common_quotas else ():
        of_tenant[common.tenant_id].append(common)
        of_organisation[common.organisation_id].append(common)
    vcs = tuple(
        model.VirtualCluster(row.pk, row.tenant_id, row.name, weight=row.weight, **_limits(of_vc[row.pk]))
        for row in rows
    )
    return {
        "organisations": tuple(
            model.Organisation(one.pk, one.name, one.weight, one.parent_id, **_limits(of_organisation[one.pk]))
            for one in organisations
        ),
        "tenants": tuple(
            model.Tenant(
                pk, tenants[pk].name, tenants[pk].weight, tenants[pk].organisation_id, **_limits(of_tenant[pk])
            )
            for pk in sorted(tenants)
        ),
        "vcs": with_cells(vcs) if parts.cells else vcs,
    }


def _limits(rows: Iterable[_Limits | Limits]) -> dict[str, Any]:
    rows = list(rows)
    return {
        "quotas": {one.gpu_type: one.gpus for one in rows},
        "borrowing": {one.gpu_type: one.borrowing for one in rows if one.borrowing is not None},
        "lending": {one.gpu_type: one.lending for one in rows if one.lending is not None},
    }


def _above(ids: set[int | None]) -> list[Organisation]:
    """These organisations and all above them; no query where there is none."""
    if ids <= {None}:
        return []
    every = {one.pk: one for one in Organisation.objects.all()}
    found: dict[int, Organisation] = {}
    while ids := ids - found.keys() - {None}:
        found |= {pk: every[pk] for pk in ids if pk is not None}
        ids = {every[pk].parent_id for pk in ids if pk is not None}
    return [found[pk] for pk in sorted(found)]
