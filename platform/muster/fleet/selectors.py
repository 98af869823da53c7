"""Reading pools and their GPUs."""

from __future__ import annotations

from django.db.models import Count

from muster.fleet.models import Gpu
from scheduler.lifecycle import NodeAdmin


def gpus_by_type(pool_id: int) -> dict[str, int]:
    """How many GPUs of each type the pool's nodes have, healthy or not; retired nodes do not count."""
    rows = (
        Gpu.objects.filter(node__pool_id=pool_id, present=True)
        .exclude(node__admin=NodeAdmin.RETIRED)
        .values("type")
        .annotate(count=Count("id"))
        .order_by("type")
    )
    return {row["type"]: row["count"] for row in rows}
