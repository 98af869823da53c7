"""Use the nodes with the fewest free resources left once the job runs there."""

from scheduler.placement.best_fit.placement import BestFit

PLUGIN = BestFit

__all__ = ["PLUGIN", "BestFit"]
