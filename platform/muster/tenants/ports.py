"""The ports through which apps above tell what an admission means for tenants. They connect when Django starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Ports:
    """Hooks that the apps above fill."""

    has_cells: Callable[[str], bool] = lambda _: False
    """True if virtual clusters have cells in place of quotas under the admission of this name."""


ports = Ports()
