"""Higher priority first."""

from scheduler.policies.priority.policy import Priority

PLUGIN = Priority

__all__ = ["PLUGIN", "Priority"]
