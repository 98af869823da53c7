"""Capacity: queues with guaranteed capacities, elastic above them."""

from scheduler.policies.capacity.policy import CapacityQueues

PLUGIN = CapacityQueues

__all__ = ["PLUGIN", "CapacityQueues"]
