"""First come, first served; later jobs may use GPUs promised to waiting jobs if they end in time."""

from scheduler.policies.backfill.policy import Backfill

PLUGIN = Backfill
