"""Least attained service first, counted in GPUs times time, in quanta."""

from scheduler.policies.las.policy import Las

PLUGIN = Las

__all__ = ["PLUGIN", "Las"]
