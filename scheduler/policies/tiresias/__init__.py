"""Least attained service in queues, by GPUs and time (Tiresias)."""

from scheduler.policies.tiresias.policy import Tiresias

PLUGIN = Tiresias

__all__ = ["PLUGIN", "Tiresias"]
