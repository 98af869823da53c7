"""Least attained service, by GPUs and time, in quanta."""

from scheduler.policies.las.policy import Las

PLUGIN = Las

__all__ = ["PLUGIN", "Las"]
