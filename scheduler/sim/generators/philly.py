"""Jobs with the published statistics of Philly.

Jobs with the published statistics of Microsoft's Philly cluster.

Run times have the mean, 18,006 s, and the median, 874 s, of the released trace (112,956 GPU jobs; Hu et al., NSDI 2024,
table 2), and each way to end has its published share of the jobs and of the GPU time, by the chosen window:

- `trace`: the released trace: 60.4 % complete, 9.0 cancelled, 30.5 failed; by GPU time 32.1, 29.4, 38.6.
- `paper`: the paper's 75 days, 96,260 jobs (Jeon et al., USENIX ATC 2019): 69.3, 13.5, 17.2; by GPU time 44.5, 37.7,
  17.8. It has no comparable mean and median, so those of the released trace are used.

Unpublished statistics are assumed: sizes are powers of two up to 128 GPUs, each a constant factor rarer than the one
before, with the published mean of 1.93; size and run time are independent; run times are lognormal with one spread for
all ways to end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.registry import param
from scheduler.sim.failures import FAILED, STATISTICS, Ending, Failures
from scheduler.sim.generators.draws import GAP, Arrivals, picks, powers_of_two
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

MEAN_RUN_S, MEDIAN_RUN_S = 18_006.0, 874.0
MEAN_GPUS, MAX_GPUS = 1.93, 128
JOBS_PER_DAY = 96_260 / 75


WINDOWS: Mapping[str, tuple[Ending, ...]] = {
    "trace": STATISTICS[Failures.PHILLY].endings,
    "paper": STATISTICS[Failures.PHILLY_PAPER].endings,
}


@dataclass(frozen=True)
class Philly(Arrivals):
    """Sizes, run times and ways to end as published for Philly."""

    jobs: int = param(1000, "The number of jobs.", minimum=1, maximum=10_000_000)
    gap_s: float = param(86_400 / JOBS_PER_DAY, GAP, minimum=0)
    window: str = param(
        "trace",
        "The source of the shares of endings: the released trace, or the paper's 75 days.",
        enum=sorted(WINDOWS),
    )
    vcs: int = param(14, "The number of virtual clusters, with equal shares of the jobs.", minimum=1, maximum=1000)

    def draw(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        known = WINDOWS[self.window]
        mus, sigma = _run_times(known)
        submitted = self.arrivals_s(rng, self.jobs)
        sizes = picks(rng, powers_of_two(MEAN_GPUS, MAX_GPUS), self.jobs)
        endings = picks(rng, {index: ending.jobs for index, ending in enumerate(known)}, self.jobs)
        normal = rng.standard_normal(self.jobs)
        vcs = rng.integers(self.vcs, size=self.jobs)
        return tuple(
            TraceJob(
                id=number + 1,
                name=f"philly-{number + 1}",
                submitted_s=submitted[number],
                gpus=sizes[number],
                work=FixedWork(math.exp(mus[endings[number]] + sigma * float(normal[number]))),
                vc=f"vc-{int(vcs[number]) + 1}",
                status=(status := known[endings[number]].status),
                attempts=STATISTICS[Failures.PHILLY].attempts if status == FAILED else 1,
            )
            for number in range(self.jobs)
        )


def _run_times(endings: tuple[Ending, ...]) -> tuple[list[float], float]:
    """Mu for each ending and one sigma, such that the mixture has the published mean and median.

    An ending's mean is the overall one times its share of the GPU time over its share of the jobs. A larger sigma
    lowers the mixture's median: bisection finds the sigma that fits.
    """
    jobs, gpu_time = sum(each.jobs for each in endings), sum(each.gpu_time for each in endings)
    means = [MEAN_RUN_S * (each.gpu_time / gpu_time) / (each.jobs / jobs) for each in endings]

    def mus(sigma: float) -> list[float]:
        return [math.log(mean) - sigma**2 / 2 for mean in means]

    def below_median(sigma: float) -> float:
        z = [(math.log(MEDIAN_RUN_S) - mu) / sigma for mu in mus(sigma)]
        return sum(
            each.jobs / jobs * 0.5 * math.erfc(-point / math.sqrt(2)) for each, point in zip(endings, z, strict=True)
        )

    low, high = 0.5, 5.0
    for _ in range(80):
        sigma = (low + high) / 2
        low, high = (sigma, high) if below_median(sigma) < 0.5 else (low, sigma)
    return mus(low), low


PLUGIN = Philly
