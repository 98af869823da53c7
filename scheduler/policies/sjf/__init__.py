"""Shortest job first, without preemption."""

from scheduler.policies.sjf.policy import Sjf

PLUGIN = Sjf

__all__ = ["PLUGIN", "Sjf"]
