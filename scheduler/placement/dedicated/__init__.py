"""Give large and distributed jobs nodes that they share with no other large job, or with no job at all."""

from scheduler.placement.dedicated.placement import Dedicated

PLUGIN = Dedicated

__all__ = ["PLUGIN", "Dedicated"]
