"""Topology: the GPUs of a node that are linked best, and no clique broken up for less."""

from scheduler.placement.topology.placement import Topology

PLUGIN = Topology

__all__ = ["PLUGIN", "Topology"]
