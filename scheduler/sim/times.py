"""Times to failure, by failure class: those published for Philly.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019, table 7:
for each class the number of jobs, and percentiles of the run time to failure. The figures here are quoted from memory
of that table. Which classes a retry may heal, and which need several ranks, is our own reading of it.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

_NORMAL = NormalDist()
_MAX_S = 60 * 86_400.0
_MIN_QUANTILE, _MAX_QUANTILE = 1e-6, 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Cause:
    """One failure class; times in minutes."""

    name: str
    jobs: int
    p50_min: float
    p90_min: float
    p95_min: float
    transient: bool = False  # another attempt succeeds
    gang: bool = False  # does not occur with one or two ranks

    def time_s(self, at: float) -> float:
        """The run time to failure at a quantile between 0 and 1, seconds.

        The logarithm of the time is linear in the normal quantile between the published percentiles and beyond them:
        piecewise log-normal.
        """
        points = [(_NORMAL.inv_cdf(share), math.log(minutes)) for share, minutes in self._percentiles()]
        z = _NORMAL.inv_cdf(min(max(at, _MIN_QUANTILE), _MAX_QUANTILE))
        (z0, t0), (z1, t1) = points[:2] if z < points[1][0] else points[1:]
        slope = max(t1 - t0, 0.0) / (z1 - z0)
        return min(60.0 * math.exp(t0 + slope * (z - z0)), _MAX_S)

    def _percentiles(self) -> tuple[tuple[float, float], ...]:
        return ((0.5, self.p50_min), (0.9, self.p90_min), (0.95, self.p95_min))


CAUSES: Sequence[Cause] = (
    Cause("cpu_out_of_memory", 2_803, 13.45, 17.73, 33.97),
    Cause("incorrect_inputs", 4_936, 1.87, 404.83, 2_095.73),
    Cause("semantic_error", 2_049, 2.72, 376.00, 1_436.88),
    Cause("core_dump", 1_784, 0.85, 72.75, 431.65),
    Cause("invalid_memory_access", 1_235, 1.03, 403.50, 1_357.38),
    Cause("checkpoint_error", 948, 181.67, 3_728.93, 8_196.02, transient=True),
    Cause("cuda_failure", 571, 1.32, 19.87, 82.17),
    Cause("syntax_error", 883, 0.58, 5.02, 12.00),
    Cause("traceback", 271, 1.02, 894.33, 1_394.07),
    Cause("mpi_error", 166, 1.62, 3_015.27, 5_143.98, transient=True, gang=True),
    Cause("gpu_out_of_memory", 261, 18.53, 353.62, 2_740.28),
    Cause("mpi_runtime_failure", 420, 1_389.48, 13_778.60, 18_090.88, transient=True, gang=True),
    Cause("permission_denied", 151, 1.00, 8.15, 15.85),
    Cause("import_error", 148, 0.67, 4.58, 10.73),
    Cause("cuda_init_failed", 69, 1.08, 2.18, 4.63, transient=True),
    Cause("model_diverged", 30, 1.48, 44.37, 76.53),
    Cause("cuda_version_mismatch", 49, 0.83, 1.65, 1.67),
    Cause("gpu_ecc_error", 10, 26.82, 671.92, 2_035.02, transient=True),
    Cause("no_signature", 698, 1.87, 28.00, 95.17),
)

_SUMS = list(accumulate(cause.jobs for cause in CAUSES))


def cause_at(at: float) -> Cause:
    """The class at a number from 0 to below 1, weighted by its share of Philly's failed jobs."""
    return CAUSES[bisect(_SUMS, at * _SUMS[-1])]


def caught_share(window_s: float) -> float:
    """The share of the failed jobs that fail within the window and need no gang to do so."""
    return sum(cause.jobs * _share_within(cause, window_s) for cause in CAUSES if not cause.gang) / _SUMS[-1]


def _share_within(cause: Cause, window_s: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if cause.time_s(middle) <= window_s else (low, middle)
    return low
