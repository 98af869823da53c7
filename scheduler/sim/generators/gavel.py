"""The jobs of Gavel's simulations.

Jobs as Gavel's evaluation draws them (Narayanan et al., OSDI 2020, §7.1 and its artifact).

The distributions are the same; the random number generator is not, so single traces differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scheduler.registry import ConfigError, param
from scheduler.sim.applications import Throughputs
from scheduler.sim.generators.draws import GAP, Arrivals, picks, throughputs_of
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork, StepsWork, Work

_SIZES = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}
_SHORT = 0.8  # share of the jobs with 60·10^U(1.5, 3) s; the others have 60·10^U(3, 4)
_REFERENCE = "V100"


@dataclass(frozen=True)
class Gavel(Arrivals):
    """Log-uniform run times from half an hour to a week, 1 to 8 GPUs, and a model per job if throughputs are given."""

    jobs: int = param(1000, "The number of jobs.", minimum=1, maximum=10_000_000)
    gap_s: float = param(1800.0, GAP, minimum=0)
    multi_gpu: bool = param(True, "Draw 1, 2, 4, 8 GPUs with .70, .10, .15, .05; otherwise one each.")
    throughputs: str | None = param(
        None,
        "A file of throughputs, or a folder with one: each job then gets a model measured at its size, and as many "
        "steps as fill its run time on V100s.",
    )
    consolidation: bool = param(
        False, "With throughputs: scattered gangs run at the rates measured for scattered ones."
    )
    _table: Throughputs | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", throughputs_of(self.throughputs))

    def draw(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        submitted = self.arrivals_s(rng, self.jobs)
        sizes = picks(rng, _SIZES if self.multi_gpu else {1: 1.0}, self.jobs)
        short = rng.random(self.jobs) < _SHORT
        exponents = np.where(short, rng.uniform(1.5, 3.0, self.jobs), rng.uniform(3.0, 4.0, self.jobs))
        models = rng.random(self.jobs)
        jobs = []
        for number in range(self.jobs):
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
        scattered = self._table.scattered_rates(model, gpus) if self.consolidation and gpus > 1 else None
        return model, StepsWork(float(round(run_s * rates[_REFERENCE])), gpus, rates, scattered, reference=_REFERENCE)


PLUGIN = Gavel
