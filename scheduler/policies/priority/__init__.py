"""Highest priority first; with preemption, a job can be stopped for one of higher priority."""

from scheduler.policies.priority.policy import Priority

PLUGIN = Priority

__all__ = ["PLUGIN", "Priority"]
