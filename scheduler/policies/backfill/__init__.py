"""First come, first served, with GPUs promised to those who wait and lent until then."""

from scheduler.policies.backfill.policy import Backfill

PLUGIN = Backfill

__all__ = ["PLUGIN", "Backfill"]
