"""Traces generated from a seed: arrivals, sizes and run times drawn from published distributions.

Each generator is a module here, found by its name, with a `PLUGIN` that declares its parameters like a policy. The same
name, parameters and seed give the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from scheduler.registry import Plugin, Registry
from scheduler.sim.trace import Trace, TraceJob


class Generator(Plugin, Protocol):
    """Generates the jobs of a trace."""

    def draw(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        """The jobs drawn from these random numbers, in submission order."""


generators: Registry[Generator] = Registry("generator", __name__)


def generate(name: str, params: Mapping[str, object], seed: int) -> Trace:
    """The trace of this generator with these parameters and this seed.

    Raises:
        ConfigError: there is no such generator, or it does not take these parameters.
    """
    generator = generators.make(name, params)
    return Trace(f"{name}-{seed}", generator.draw(np.random.default_rng(seed)))
