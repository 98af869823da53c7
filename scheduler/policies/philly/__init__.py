"""A queue and a quota for each virtual cluster; a job's demand for locality is relaxed try by try (Philly)."""

from scheduler.policies.philly.policy import Philly

PLUGIN = Philly

__all__ = ["PLUGIN", "Philly"]
