"""Place jobs close together at first, and further apart the longer they wait."""

from scheduler.placement.relaxing.placement import Relaxing

PLUGIN = Relaxing

__all__ = ["PLUGIN", "Relaxing"]
