"""Scheduling policies, which order and preempt jobs, registered by name; docs/policies/ has a page for each."""
