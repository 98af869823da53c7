"""The base of placements that let another one choose among the nodes that they admit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.placement.base import STRIKES, STRIKES_LIMIT, BasePlacement
from scheduler.placement.best_fit import BestFit
from scheduler.placement.consolidate import Consolidate
from scheduler.placement.spread import Spread
from scheduler.registry import param, params_of_fields

_INNER: Mapping[str, type[BasePlacement]] = {"best_fit": BestFit, "consolidate": Consolidate, "spread": Spread}


@dataclass(frozen=True, slots=True)
class Delegating:
    """Delegates to the placement named `inside`."""

    params_schema: ClassVar[Mapping[str, Any]] = params_of_fields()

    inside: str = param(
        "consolidate", "the placement that chooses among the nodes that this one admits", enum=sorted(_INNER)
    )
    strikes_limit: float = param(STRIKES_LIMIT, STRIKES, minimum=0)

    @property
    def inner(self) -> BasePlacement:
        """The placement that chooses."""
        return _INNER[self.inside](self.strikes_limit)
