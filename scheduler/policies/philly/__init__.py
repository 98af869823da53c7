"""A queue and a quota per virtual cluster; failed tries relax a job's locality step by step (Philly)."""

from scheduler.policies.philly.policy import Philly

PLUGIN = Philly
