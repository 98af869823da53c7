"""Use the best-linked GPUs of a node and keep linked groups together."""

from scheduler.placement.topology.placement import Topology

PLUGIN = Topology

__all__ = ["PLUGIN", "Topology"]
