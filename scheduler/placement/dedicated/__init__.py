"""Dedicated: large and distributed jobs get nodes that they share with none of their kind, or with nobody."""

from scheduler.placement.dedicated.placement import Dedicated

PLUGIN = Dedicated

__all__ = ["PLUGIN", "Dedicated"]
