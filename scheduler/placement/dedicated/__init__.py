"""Give large and distributed jobs nodes that no other job of their kind, or no other job at all, shares."""

from scheduler.placement.dedicated.placement import Dedicated

PLUGIN = Dedicated

__all__ = ["PLUGIN", "Dedicated"]
