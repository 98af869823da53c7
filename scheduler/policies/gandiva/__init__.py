"""Gandiva: jobs of one size share nodes, take turns on them when there are too many, and are moved closer together."""

from scheduler.policies.gandiva.policy import Gandiva

PLUGIN = Gandiva

__all__ = ["PLUGIN", "Gandiva"]
