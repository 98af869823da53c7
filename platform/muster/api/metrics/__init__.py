"""Use of GPUs, jobs and nodes over time."""
