"""Use the best-linked GPUs of a node and keep linked groups together."""

from scheduler.placement.topology.placement import Topology

PLUGIN = Topology
