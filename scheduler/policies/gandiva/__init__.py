"""Jobs of one size share nodes, time-slice GPUs under overload, and are migrated closer together (Gandiva)."""

from scheduler.policies.gandiva.policy import Gandiva

PLUGIN = Gandiva
