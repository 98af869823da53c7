"""Best fit: the nodes that have the least left once the job is there."""

from scheduler.placement.best_fit.placement import BestFit

PLUGIN = BestFit

__all__ = ["PLUGIN", "BestFit"]
