"""Place close together at first, and further apart the longer a job waits."""

from scheduler.placement.relaxing.placement import Relaxing

PLUGIN = Relaxing

__all__ = ["PLUGIN", "Relaxing"]
