"""Fair: queues share by weight, none below its minimum."""

from scheduler.policies.fair.policy import Fair

PLUGIN = Fair

__all__ = ["PLUGIN", "Fair"]
