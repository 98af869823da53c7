"""Gives each next GPU to the job whose predicted end it advances most (Optimus)."""

from scheduler.policies.optimus.policy import Optimus

PLUGIN = Optimus

__all__ = ["PLUGIN", "Optimus"]
