"""The jobs of Gavel's simulations."""

from scheduler.sim.generators.gavel.generator import Gavel

PLUGIN = Gavel

__all__ = ["PLUGIN", "Gavel"]
