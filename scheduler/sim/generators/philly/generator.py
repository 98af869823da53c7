"""Jobs with the published statistics of Microsoft's Philly cluster.

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
from typing import Any

import numpy as np

from scheduler.sim.failures import FAILED, STATISTICS, Ending, Failures
from scheduler.sim.generators.draws import ARRIVALS, arrivals_s, picks, powers_of_two
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

MEAN_RUN_S, MEDIAN_RUN_S = 18_006.0, 874.0
MEAN_GPUS, MAX_GPUS = 1.93, 128
JOBS_PER_DAY = 96_260 / 75


WINDOWS: Mapping[str, tuple[Ending, ...]] = {
    "trace": STATISTICS[Failures.PHILLY].endings,
    "paper": STATISTICS[Failures.PHILLY_PAPER].endings,
}


class Philly:
    """Sizes, run times and ways to end as published for Philly."""

    params_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            **ARRIVALS,
            "gap_s": {**ARRIVALS["gap_s"], "default": 86_400 / JOBS_PER_DAY},
            "window": {
                "type": "string", "enum": sorted(WINDOWS), "default": "trace",
                "description": "The source of the shares of endings: the released trace, or the paper's 75 days.",
            },
            "vcs": {
                "type": "integer", "minimum": 1, "maximum": 1000, "default": 14,
                "description": "The number of virtual clusters, with equal shares of the jobs.",
            },
        },
    }  # fmt: skip

    def __init__(
        self,
        *,
        jobs: int = 1000,
        gap_s: float = 86_400 / JOBS_PER_DAY,
        daily_swing: float = 0.0,
        peak_hour: float = 15.0,
        window: str = "trace",
        vcs: int = 14,
    ) -> None:
        self._count, self._vcs = jobs, vcs
        self._arrivals = {"gap_s": gap_s, "daily_swing": daily_swing, "peak_hour": peak_hour}
        self._endings = WINDOWS[window]
        self._sizes = powers_of_two(MEAN_GPUS, MAX_GPUS)
        self._mus, self._sigma = _run_times(self._endings)

    def jobs(self, rng: np.random.Generator) -> tuple[TraceJob, ...]:
        """See `Generator`."""
        submitted = arrivals_s(rng, jobs=self._count, **self._arrivals)
        sizes = picks(rng, self._sizes, self._count)
        endings = picks(rng, {index: ending.jobs for index, ending in enumerate(self._endings)}, self._count)
        normal = rng.standard_normal(self._count)
        vcs = rng.integers(self._vcs, size=self._count)
        return tuple(
            TraceJob(
                id=number + 1,
                name=f"philly-{number + 1}",
                submitted_s=submitted[number],
                gpus=sizes[number],
                work=FixedWork(math.exp(self._mus[endings[number]] + self._sigma * float(normal[number]))),
                vc=f"vc-{int(vcs[number]) + 1}",
                status=(status := self._endings[endings[number]].status),
                attempts=STATISTICS[Failures.PHILLY].attempts if status == FAILED else 1,
            )
            for number in range(self._count)
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
