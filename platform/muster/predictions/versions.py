"""The versions of trained models."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q

from muster.predictions.models import Kind, PredictorModel

KEPT = 10
"""The latest versions of each kind and pool that are kept, beside the one in use."""


def store_model(
    *, kind: Kind, pool_id: int | None, rows: int, scores: dict[str, Any], data: bytes, active: bool
) -> PredictorModel:
    """Store the next version of a model: in use from now on, or refused and kept for the record."""
    with transaction.atomic():
        of_pool = Q(pool__isnull=True) if pool_id is None else Q(pool=pool_id)
        versions = PredictorModel.objects.filter(of_pool, kind=kind)
        numbers = list(versions.order_by("-version").values_list("version", flat=True))
        if active:
            versions.filter(active=True).update(active=False)
        versions.filter(version__in=numbers[KEPT - 1 :], active=False).delete()
        return PredictorModel.objects.create(
            kind=kind,
            pool_id=pool_id,
            version=1 + (numbers[0] if numbers else 0),
            rows=rows,
            scores=scores,
            data=data,
            active=active,
        )
