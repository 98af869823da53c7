"""Jobs of one size share nodes, take turns when there are too many, and are moved closer together (Gandiva)."""

from scheduler.policies.gandiva.policy import Gandiva

PLUGIN = Gandiva

__all__ = ["PLUGIN", "Gandiva"]
