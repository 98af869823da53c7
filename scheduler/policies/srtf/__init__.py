"""Shortest remaining time first, with preemption."""

from scheduler.policies.srtf.policy import Srtf

PLUGIN = Srtf

__all__ = ["PLUGIN", "Srtf"]
