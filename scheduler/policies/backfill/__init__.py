"""First come, first served; GPUs promised to waiting jobs are lent to jobs that end in time."""

from scheduler.policies.backfill.policy import Backfill

PLUGIN = Backfill

__all__ = ["PLUGIN", "Backfill"]
