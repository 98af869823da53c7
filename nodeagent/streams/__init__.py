"""Shells into running jobs."""
