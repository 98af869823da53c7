"""Philly: a queue and a quota for each virtual cluster, and locality that is given up try by try."""

from scheduler.policies.philly.policy import Philly

PLUGIN = Philly

__all__ = ["PLUGIN", "Philly"]
