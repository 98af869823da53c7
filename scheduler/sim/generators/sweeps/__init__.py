"""Sweeps of 1 to 98 jobs with the sizes and run times of Gavel's or Philly's jobs."""

from scheduler.sim.generators.sweeps.generator import Sweeps

PLUGIN = Sweeps

__all__ = ["PLUGIN", "Sweeps"]
