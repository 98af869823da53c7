"""Use the nodes with the fewest free resources left after the job is placed."""

from scheduler.placement.best_fit.placement import BestFit

PLUGIN = BestFit

__all__ = ["PLUGIN", "BestFit"]
