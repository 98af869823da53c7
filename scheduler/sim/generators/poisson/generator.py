"""Jobs without published statistics: every distribution is a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduler.registry import ConfigError
from scheduler.sim.generators.draws import ARRIVALS, arrivals_s, lognormal, picks, powers_of_two
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork


class Poisson:
    """Random arrivals, lognormal run times by mean and median, power-of-two sizes by mean."""

    params_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            **ARRIVALS,
            "mean_run_s": {"type": "number", "minimum": 0, "default": 3600.0, "description": "Mean run time, s."},
            "median_run_s": {"type": "number", "minimum": 0, "default": 1800.0, "description": "Median run time, s."},
            "mean_gpus": {"type": "number", "minimum": 1, "default": 2.0, "description": "Mean number of GPUs."},
            "max_gpus": {
                "type": "integer", "minimum": 1, "maximum": 4096, "default": 8,
                "description": "The maximum number of GPUs of a job; a power of two.",
            },
            "vcs": {
                "type": "integer", "minimum": 1, "maximum": 1000, "default": 1,
                "description": "The number of virtual clusters, with equal shares of the jobs.",
            },
        },
    }  # fmt: skip

    def __init__(
        self,
        *,
        jobs: int = 1000,
        gap_s: float = 60.0,
        daily_swing: float = 0.0,
        peak_hour: float = 15.0,
        mean_run_s: float = 3600.0,
        median_run_s: float = 1800.0,
        mean_gpus: float = 2.0,
        max_gpus: int = 8,
        vcs: int = 1,
    ) -> None:
        if max_gpus & (max_gpus - 1):
            raise ConfigError(f"max_gpus must be a power of two, not {max_gpus}")
        # The mean is largest when all sizes are equally frequent: larger sizes are never more frequent.
        largest = (2 * max_gpus - 1) / max_gpus.bit_length()
        if mean_gpus > largest:
            raise ConfigError(f"mean_gpus must be at most {largest:g} with max_gpus {max_gpus}, not {mean_gpus:g}")
        self._count, self._vcs = jobs, vcs
        self._arrivals = {"gap_s": gap_s, "daily_swing": daily_swing, "peak_hour": peak_hour}
        self._run = lognormal(mean_run_s, median_run_s)
        self._sizes = powers_of_two(mean_gpus, max_gpus)

    def jobs(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        """See `Generator`."""
        submitted = arrivals_s(rng, jobs=self._count, **self._arrivals)
        run_s = rng.lognormal(*self._run, size=self._count)
        sizes = picks(rng, self._sizes, self._count)
        vcs = rng.integers(self._vcs, size=self._count)
        return tuple(
            TraceJob(
                id=number + 1,
                name=f"job-{number + 1}",
                submitted_s=submitted[number],
                gpus=sizes[number],
                work=FixedWork(float(run_s[number])),
                vc=f"vc-{int(vcs[number]) + 1}",
            )
            for number in range(self._count)
        )
