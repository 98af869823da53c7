"""Lognormal run times and power-of-two sizes with random arrivals, on request with a daily cycle.

Jobs without published statistics: every distribution is a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.registry import ConfigError, param
from scheduler.sim.generators.draws import Arrivals, lognormal, picks, powers_of_two
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork


@dataclass(frozen=True)
class Poisson(Arrivals):
    """Random arrivals, lognormal run times by mean and median, power-of-two sizes by mean."""

    jobs: int = param(1000, "The number of jobs.", minimum=1, maximum=10_000_000)
    mean_run_s: float = param(3600.0, "Mean run time, s.", minimum=0)
    median_run_s: float = param(1800.0, "Median run time, s.", minimum=0)
    mean_gpus: float = param(2.0, "Mean number of GPUs.", minimum=1)
    max_gpus: int = param(8, "The maximum number of GPUs of a job; a power of two.", minimum=1, maximum=4096)
    vcs: int = param(1, "The number of virtual clusters, with equal shares of the jobs.", minimum=1, maximum=1000)

    def __post_init__(self) -> None:
        if self.max_gpus & (self.max_gpus - 1):
            raise ConfigError(f"max_gpus must be a power of two, not {self.max_gpus}")
        # The mean is largest when all sizes are equally frequent: larger sizes are never more frequent.
        most = (2 * self.max_gpus - 1) / self.max_gpus.bit_length()
        if self.mean_gpus > most:
            raise ConfigError(
                f"mean_gpus must be at most {most:g} with max_gpus {self.max_gpus}, not {self.mean_gpus:g}"
            )
        lognormal(self.mean_run_s, self.median_run_s)

    def draw(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        submitted = self.arrivals_s(rng, self.jobs)
        run_s = rng.lognormal(*lognormal(self.mean_run_s, self.median_run_s), size=self.jobs)
        sizes = picks(rng, powers_of_two(self.mean_gpus, self.max_gpus), self.jobs)
        vcs = rng.integers(self.vcs, size=self.jobs)
        return tuple(
            TraceJob(
                id=number + 1,
                name=f"job-{number + 1}",
                submitted_s=submitted[number],
                gpus=sizes[number],
                work=FixedWork(float(run_s[number])),
                vc=f"vc-{int(vcs[number]) + 1}",
            )
            for number in range(self.jobs)
        )


PLUGIN = Poisson
