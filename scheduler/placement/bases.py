"""The placements that others can work with inside, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.placement.best_fit.placement import BestFit
from scheduler.placement.consolidate.placement import Consolidate
from scheduler.placement.spread.placement import Spread
from scheduler.placement.steady import STRIKES_LIMIT, STRIKES_SCHEMA, Steady

_BASES: Mapping[str, type[Steady]] = {"best_fit": BestFit, "consolidate": Consolidate, "spread": Spread}

BASE_PARAMS: Mapping[str, Any] = {
    "inside": {
        "type": "string",
        "enum": sorted(_BASES),
        "default": "consolidate",
        "description": "the placement that chooses among what this one leaves",
    },
    "strikes_limit": STRIKES_SCHEMA,
}


def base(name: str, strikes_limit: float = STRIKES_LIMIT) -> Steady:
    """The placement of that name."""
    return _BASES[name](strikes_limit)
