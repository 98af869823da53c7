"""Traces made from a seed: arrivals, sizes and run times drawn from published distributions.

Each generator is a folder here, found by its name, with a `PLUGIN` that has a `params_schema` and takes the parameters
as keyword arguments, as a policy does. The same name, parameters and seed give the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from scheduler.registry import Registry
from scheduler.sim.trace import Trace, TraceJob


class Generator(Protocol):
    """What makes the jobs of a trace."""

    @property
    def params_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the parameters."""
        ...

    def jobs(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        """The jobs that these random numbers give, in the order of their submission."""
        ...


generators: Registry[Generator] = Registry("generator", __name__)


def generate(name: str, params: Mapping[str, object], seed: int) -> Trace:
    """The trace that this generator makes of these parameters and this seed.

    Raises `ConfigError` for a generator that does not exist and for parameters that it does not take.
    """
    generator = generators.make(name, params)
    return Trace(f"{name}-{seed}", generator.jobs(np.random.default_rng(seed)))
