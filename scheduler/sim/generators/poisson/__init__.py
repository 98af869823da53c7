"""Lognormal run times and power-of-two sizes with random arrivals, on request with a daily cycle."""

from scheduler.sim.generators.poisson.generator import Poisson

PLUGIN = Poisson

__all__ = ["PLUGIN", "Poisson"]
