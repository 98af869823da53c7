"""Borrow: guaranteed jobs within the quota, opportunistic ones on whatever is idle."""

from scheduler.guard.borrow.guard import GUARANTEE_EXCEEDED, Borrow

PLUGIN = Borrow

__all__ = ["GUARANTEE_EXCEEDED", "PLUGIN", "Borrow"]
