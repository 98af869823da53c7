"""Pack a gang into few racks, on the nodes where it leaves the fewest GPUs idle."""

from scheduler.placement.consolidate.placement import Consolidate

PLUGIN = Consolidate

__all__ = ["PLUGIN", "Consolidate"]
