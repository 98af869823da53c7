"""Shortest remaining GPU time first, with preemption."""

from scheduler.policies.srsf.policy import Srsf

PLUGIN = Srsf

__all__ = ["PLUGIN", "Srsf"]
