"""Quota: a virtual cluster holds at most so many GPUs of each type."""

from scheduler.guard.quota.guard import QUOTA_EXCEEDED, Quota

PLUGIN = Quota

__all__ = ["PLUGIN", "QUOTA_EXCEEDED", "Quota"]
