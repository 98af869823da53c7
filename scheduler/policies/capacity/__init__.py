"""Queues with guaranteed capacities, which borrow idle GPUs of other queues until these need them."""

from scheduler.policies.capacity.policy import CapacityQueues

PLUGIN = CapacityQueues

__all__ = ["PLUGIN", "CapacityQueues"]
