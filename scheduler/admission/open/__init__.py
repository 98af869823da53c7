"""Admit every job."""

from scheduler.admission.open.admission import Open

PLUGIN = Open

__all__ = ["PLUGIN", "Open"]
