"""Queues share by weight, and none gets less than its minimum."""

from scheduler.policies.fair.policy import Fair

PLUGIN = Fair

__all__ = ["PLUGIN", "Fair"]
