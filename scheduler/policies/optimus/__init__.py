"""Optimus: each next GPU to the job whose predicted end it brings closest."""

from scheduler.policies.optimus.policy import Optimus

PLUGIN = Optimus

__all__ = ["PLUGIN", "Optimus"]
