"""Reading pools and their GPUs."""

from __future__ import annotations

from django.db.models import Count, Exists, OuterRef, QuerySet

from muster.fleet.models import Gpu, Node
from scheduler.diagnosis.health import HealthLevel, is_worse
from scheduler.model.lifecycle import NodeAdmin


def gpus_by_type(pool_id: int) -> dict[str, int]:
    """The number of GPUs of each type on the pool's nodes, healthy or not; retired nodes do not count."""
    rows = (
        Gpu.objects.filter(node__pool_id=pool_id, present=True)
        .exclude(node__admin=NodeAdmin.RETIRED)
        .values("type")
        .annotate(count=Count("id"))
        .order_by("type")
    )
    return {row["type"]: row["count"] for row in rows}


def holding(nodes: QuerySet[Node]) -> QuerySet[Node]:
    """Those of the nodes on which a rank of a job lies, or is kept; one for each rank."""
    return nodes.filter(allocations__released_at__isnull=True, allocations__isnull=False)


def with_worst_gpu(nodes: QuerySet[Node], level: HealthLevel) -> QuerySet[Node]:
    """Those of the nodes whose worst GPU is at the level; a node without GPUs is well."""

    def has(*levels: HealthLevel) -> Exists:
        return Exists(Gpu.objects.filter(node=OuterRef("pk"), present=True, health__in=levels))

    worse = [other for other in HealthLevel if is_worse(other, level)]
    found = nodes.exclude(has(*worse)) if worse else nodes
    return found if level is HealthLevel.OK else found.filter(has(level))
