"""Dominant resource fairness: serve the user with the smallest share of their most used resource first."""

from scheduler.policies.drf.policy import Drf

PLUGIN = Drf

__all__ = ["PLUGIN", "Drf"]
