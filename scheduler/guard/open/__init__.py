"""Admit every job."""

from scheduler.guard.open.guard import Open

PLUGIN = Open

__all__ = ["PLUGIN", "Open"]
