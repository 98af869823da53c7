"""Least attained service first, in queues of GPUs times time (Tiresias)."""

from scheduler.policies.tiresias.policy import Tiresias

PLUGIN = Tiresias
