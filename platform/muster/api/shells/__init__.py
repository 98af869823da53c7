"""Shells in running jobs."""
