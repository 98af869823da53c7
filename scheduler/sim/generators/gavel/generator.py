"""Jobs as Gavel's evaluation draws them (Narayanan et al., OSDI 2020, §7.1 and its artifact).

The distributions are the same; the random number generator is not, so single traces differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.registry import ConfigError
from scheduler.sim.applications import ApplicationError, Throughputs, read_throughputs
from scheduler.sim.generators.draws import ARRIVALS, arrivals_s, picks
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork, StepsWork, Work

_SIZES = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}
_SHORT = 0.8  # share of the jobs with 60·10^U(1.5, 3) s; the others have 60·10^U(3, 4)
_REFERENCE = "V100"


class Gavel:
    """Log-uniform run times from half an hour to a week, 1 to 8 GPUs, and a model per job if throughputs are given."""

    params_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            **ARRIVALS,
            "gap_s": {**ARRIVALS["gap_s"], "default": 1800.0},
            "multi_gpu": {
                "type": "boolean", "default": True,
                "description": "1, 2, 4, 8 GPUs with .70, .10, .15, .05; else one each.",
            },
            "throughputs": {
                "type": ["string", "null"], "default": None,
                "description": "A file of throughputs, or a folder with one: each job then gets a model measured "
                "at its size, and as many steps as fill its run time on V100s.",
            },
            "consolidation": {
                "type": "boolean", "default": False,
                "description": "With throughputs: scattered gangs run at the rates measured for scattered ones.",
            },
        },
    }  # fmt: skip

    def __init__(
        self,
        *,
        jobs: int = 1000,
        gap_s: float = 1800.0,
        daily_swing: float = 0.0,
        peak_hour: float = 15.0,
        multi_gpu: bool = True,
        throughputs: str | None = None,
        consolidation: bool = False,
    ) -> None:
        self._count = jobs
        self._arrivals = {"gap_s": gap_s, "daily_swing": daily_swing, "peak_hour": peak_hour}
        self._sizes = _SIZES if multi_gpu else {1: 1.0}
        self._consolidation = consolidation
        self._table: Throughputs | None = None
        if throughputs is not None:
            try:
                self._table = read_throughputs(Path(throughputs))
            except ApplicationError as error:
                raise ConfigError(f"throughputs: {error}") from None

    def jobs(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        """See `Generator`."""
        submitted = arrivals_s(rng, jobs=self._count, **self._arrivals)
        sizes = picks(rng, self._sizes, self._count)
        short = rng.random(self._count) < _SHORT
        exponents = np.where(short, rng.uniform(1.5, 3.0, self._count), rng.uniform(3.0, 4.0, self._count))
        models = rng.random(self._count)
        jobs = []
        for number in range(self._count):
            model, work = self._work(60.0 * 10.0 ** float(exponents[number]), sizes[number], float(models[number]))
            jobs.append(
                TraceJob(
                    id=number + 1,
                    name=model or f"job-{number + 1}",
                    submitted_s=submitted[number],
                    gpus=sizes[number],
                    work=work,
                    model=model,
                )
            )
        return tuple(jobs)

    def _work(self, run_s: float, gpus: int, place: float) -> tuple[str, Work]:
        if self._table is None:
            return "", FixedWork(run_s)
        measured = [model for model in self._table.models(gpus) if _REFERENCE in self._table.rates(model, gpus)]
        if not measured:
            raise ConfigError(f"throughputs: no model was measured on {gpus} {_REFERENCE}")
        model = measured[int(place * len(measured))]
        rates = self._table.rates(model, gpus)
        scattered = self._table.scattered_rates(model, gpus) if self._consolidation and gpus > 1 else None
        return model, StepsWork(float(round(run_s * rates[_REFERENCE])), gpus, rates, scattered, reference=_REFERENCE)
