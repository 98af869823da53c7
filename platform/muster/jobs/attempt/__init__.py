"""Attempts: a job between its placement and the end of its attempt."""
