"""Guaranteed jobs stay within the quota; opportunistic jobs use any idle GPUs."""

from scheduler.admission.borrow.admission import GUARANTEE_EXCEEDED, Borrow

PLUGIN = Borrow

__all__ = ["GUARANTEE_EXCEEDED", "PLUGIN", "Borrow"]
