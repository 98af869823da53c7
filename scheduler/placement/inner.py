"""The placements that other placements can delegate to, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.placement.base import STRIKES_LIMIT, STRIKES_SCHEMA, BasePlacement
from scheduler.placement.best_fit.placement import BestFit
from scheduler.placement.consolidate.placement import Consolidate
from scheduler.placement.spread.placement import Spread

_INNER: Mapping[str, type[BasePlacement]] = {"best_fit": BestFit, "consolidate": Consolidate, "spread": Spread}

INNER_PARAMS: Mapping[str, Any] = {
    "inside": {
        "type": "string",
        "enum": sorted(_INNER),
        "default": "consolidate",
        "description": "the placement that chooses among the nodes that this one admits",
    },
    "strikes_limit": STRIKES_SCHEMA,
}


def inner_placement(name: str, strikes_limit: float = STRIKES_LIMIT) -> BasePlacement:
    """The placement with this name."""
    return _INNER[name](strikes_limit)
