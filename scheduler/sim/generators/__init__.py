"""Traces generated from a seed: arrivals, sizes and run times drawn from published distributions.

Each generator is a folder here, found by its name, with a `PLUGIN` that has a `params_schema` and takes the parameters
as keyword arguments, like a policy. The same name, parameters and seed give the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from scheduler.registry import Registry
from scheduler.sim.trace import Trace, TraceJob


class Generator(Protocol):
    """Generates the jobs of a trace."""

    @property
    def params_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the parameters."""
        ...

    def jobs(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        """The jobs drawn from these random numbers, in submission order."""
        ...


generators: Registry[Generator] = Registry("generator", __name__)


def generate(name: str, params: Mapping[str, object], seed: int) -> Trace:
    """The trace of this generator with these parameters and this seed.

    Raises:
        ConfigError: there is no such generator, or it does not take these parameters.
    """
    generator = generators.make(name, params)
    return Trace(f"{name}-{seed}", generator.jobs(np.random.default_rng(seed)))
