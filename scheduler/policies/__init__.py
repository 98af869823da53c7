"""Scheduling policies, which order and preempt jobs: one folder per policy, registered by name."""
