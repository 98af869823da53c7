"""Shortest predicted GPU time first (Helios' quasi-shortest service first)."""

from scheduler.policies.qssf.policy import Qssf

PLUGIN = Qssf

__all__ = ["PLUGIN", "Qssf"]
