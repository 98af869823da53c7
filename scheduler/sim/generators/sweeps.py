"""Sweeps of 1 to 98 jobs with the sizes and run times of Gavel's or Philly's jobs.

Sweeps, which no public trace has: applications of many jobs as Themis's evaluation draws them.

From memory of Mahajan et al. (Themis, NSDI 2020): an application has 1 to 98 jobs, with a median of 23, and comes 20
minutes after the one before in the mean. Assumed: the number of jobs is lognormal, clipped to that range;
all jobs of an application have one size and one model, those of a job of Gavel's or Philly's; and they stop early as
successive halving stops them: after a ninth and after a third of a whole run one in three goes on, at least one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from scheduler.registry import ConfigError, param
from scheduler.sim.applications import Throughputs
from scheduler.sim.generators.draws import GAP, Arrivals, throughputs_of
from scheduler.sim.generators.gavel import Gavel
from scheduler.sim.generators.philly import Philly
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork, StepsWork, Work

MEDIAN_MEMBERS, MAX_MEMBERS = 23, 98
_SIGMA = 0.8  # of the logarithm of the number of jobs: 3 % are clipped
_RUNGS = 3  # the last is a whole run
_MAX_GPUS = 8  # of a job: no model was measured on more
_REFERENCE = "V100"


@dataclass(frozen=True)
class Sweeps(Arrivals):
    """Applications of 1 to 98 jobs that stop early, with the sizes and run times of Gavel's or Philly's jobs."""

    applications: int = param(100, "The number of sweeps.", minimum=1, maximum=100_000)
    gap_s: float = param(1200.0, GAP, minimum=0)
    source: str = param(
        "gavel", "The source of the whole runs' sizes, up to 8 GPUs, and run times.", enum=["gavel", "philly"]
    )
    keep: int = param(
        3, "After each rung the best 1/keep of the jobs go on; 1: all run to the end.", minimum=1, maximum=10
    )
    contention: float = param(
        0.0,
        "Scale run times such that sweeps bring this many times the work that `gpus` GPUs do between their arrivals; "
        "0: as drawn.",
        minimum=0,
    )
    gpus: int = param(64, "For contention: the number of GPUs of the cluster.", minimum=1)
    throughputs: str | None = param(
        None, "A file of throughputs, or a folder with one: each sweep then gets a model measured at its size."
    )
    consolidation: bool = param(
        True, "With throughputs: scattered gangs run at the rates measured for scattered ones, if these are lower."
    )
    vcs: int = param(1, "The number of virtual clusters, with equal shares of the sweeps.", minimum=1, maximum=1000)
    _table: Throughputs | None = field(init=False)

    def __post_init__(self) -> None:
        if self.contention > 0 and self.gap_s == 0:
            raise ConfigError("contention needs a gap_s above 0: without gaps there is no work between arrivals")
        object.__setattr__(self, "_table", throughputs_of(self.throughputs))

    def draw(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        kind: type[Gavel | Philly] = Gavel if self.source == "gavel" else Philly
        whole = kind(
            jobs=self.applications, gap_s=self.gap_s, daily_swing=self.daily_swing, peak_hour=self.peak_hour
        ).draw(rng)
        offered_gpu_s = self.contention * self.gpus * self.gap_s * self.applications
        runs_s = [_shares(rng, members, self.keep) for members in _members(rng, len(whole))]
        models, vcs = rng.random(len(whole)), rng.integers(self.vcs, size=len(whole))
        drawn_gpu_s = sum(
            min(job.gpus, _MAX_GPUS) * job.work.alone_s() * sum(shares)
            for job, shares in zip(whole, runs_s, strict=True)
        )
        scale = offered_gpu_s / drawn_gpu_s if offered_gpu_s > 0 else 1.0
        found: list[TraceJob] = []
        for number, (job, shares) in enumerate(zip(whole, runs_s, strict=True), start=1):
            gpus = min(job.gpus, _MAX_GPUS)
            model = self._model(gpus, float(models[number - 1]))
            first = len(found) + 1
            found += (
                TraceJob(
                    id=first + member,
                    name=f"sweep-{number}",
                    submitted_s=job.submitted_s,
                    gpus=gpus,
                    work=self._work(model, gpus, scale * share * job.work.alone_s()),
                    vc=f"vc-{int(vcs[number - 1]) + 1}",
                    owner=f"owner-{number}",
                    group=f"sweep-{number}",
                    model=model,
                )
                for member, share in enumerate(shares)
            )
        return tuple(found)

    def _model(self, gpus: int, place: float) -> str:
        if self._table is None:
            return ""
        measured = [model for model in self._table.models(gpus) if _REFERENCE in self._table.rates(model, gpus)]
        if not measured:
            raise ConfigError(f"throughputs: no model was measured on {gpus} {_REFERENCE}")
        return measured[int(place * len(measured))]

    def _work(self, model: str, gpus: int, run_s: float) -> Work:
        if self._table is None:
            return FixedWork(run_s)
        rates = self._table.rates(model, gpus)
        scattered = None
        if self.consolidation and gpus > 1:
            # Noise: a few gangs were measured faster on more nodes.
            scattered = {
                kind: min(rate, rates.get(kind, rate))
                for kind, rate in self._table.scattered_rates(model, gpus).items()
            }
        return StepsWork(run_s * rates[_REFERENCE], gpus, rates, scattered, reference=_REFERENCE)


def _members(rng: np.random.Generator, applications: int) -> list[int]:
    """The number of jobs of each application."""
    drawn = np.rint(rng.lognormal(math.log(MEDIAN_MEMBERS), _SIGMA, size=applications))
    return [int(each) for each in np.clip(drawn, 1, MAX_MEMBERS)]


def _shares(rng: np.random.Generator, members: int, keep: int) -> list[float]:
    """The share of a whole run after which each job stops, in random order."""
    reached = [members]
    for _ in range(_RUNGS - 1):
        reached.append(max(1, reached[-1] // keep))
    stopped = [count - after for count, after in zip(reached, [*reached[1:], 0], strict=True)]
    shares = [keep ** float(rung + 1 - _RUNGS) for rung, count in enumerate(stopped) for _ in range(count)]
    return [shares[place] for place in rng.permutation(members)]


PLUGIN = Sweeps
