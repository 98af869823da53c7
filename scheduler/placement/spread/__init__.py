"""Spreading: a gang on the emptiest nodes, over as many racks as possible."""

from scheduler.placement.spread.placement import Spread

PLUGIN = Spread

__all__ = ["PLUGIN", "Spread"]
