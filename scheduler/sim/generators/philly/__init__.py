"""Jobs with the published statistics of Philly."""

from scheduler.sim.generators.philly.generator import Philly

PLUGIN = Philly

__all__ = ["PLUGIN", "Philly"]
