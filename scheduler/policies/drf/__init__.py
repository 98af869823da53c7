"""Dominant resource fairness: next is who has the smallest share of what they use most."""

from scheduler.policies.drf.policy import Drf

PLUGIN = Drf

__all__ = ["PLUGIN", "Drf"]
