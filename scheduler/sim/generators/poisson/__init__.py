"""Lognormal run times and sizes of powers of two, submitted at random, through the day if wanted."""

from scheduler.sim.generators.poisson.generator import Poisson

PLUGIN = Poisson

__all__ = ["PLUGIN", "Poisson"]
