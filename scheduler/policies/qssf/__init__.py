"""Quasi-shortest service first (Helios)."""

from scheduler.policies.qssf.policy import Qssf

PLUGIN = Qssf

__all__ = ["PLUGIN", "Qssf"]
