"""Spread a gang over the emptiest nodes of as many racks as possible."""

from scheduler.placement.spread.placement import Spread

PLUGIN = Spread

__all__ = ["PLUGIN", "Spread"]
