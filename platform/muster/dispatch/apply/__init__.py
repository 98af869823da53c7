"""Carrying a plan out: jobs start, stop and wait in Postgres as it says."""
