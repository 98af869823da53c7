"""First in, first out: by priority, then by the time of submission."""

from scheduler.policies.fifo.policy import Fifo

PLUGIN = Fifo

__all__ = ["PLUGIN", "Fifo"]
