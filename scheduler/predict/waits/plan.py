"""The conservative plan by limits: the start of a job where every job runs to its limit, and none delays one before it.

Source: conservative backfilling, Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_PLANNED = 100  # waiting jobs before the job that a plan may have: its cost grows with their square

Floats = NDArray[np.float64]


def planned_s(
    free: float, frees: tuple[Floats, Floats], ahead: tuple[Floats, Floats], job: tuple[float, float]
) -> float:
    """The time from now to the job's start, s; infinity if it never fits, NaN where too many jobs are before it.

    `frees` are the times from now at which GPUs become free (infinity: never), and how many; `ahead` the GPUs and run
    times of the waiting jobs in their order, `job` those of the job. GPUs are only counted: the plan knows no nodes.
    """
    if len(ahead[0]) > MAX_PLANNED:
        return float("nan")
    at_s, gpus_then = (column[np.isfinite(frees[0])] for column in frees)
    order = np.argsort(at_s, kind="stable")
    times = np.concatenate([[0.0], np.maximum(at_s[order], 0.0)])
    profile = free + np.concatenate([[0.0], np.cumsum(gpus_then[order])])
    for gpus, run_s in zip(*ahead, strict=True):
        start = _earliest(times, profile, gpus, run_s)
        if start == np.inf:
            continue
        times, profile = _cut(times, profile, start)
        times, profile = _cut(times, profile, start + run_s)
        profile[(times >= start) & (times < start + run_s)] -= gpus
    return _earliest(times, profile, *job)


def _earliest(times: Floats, profile: Floats, gpus: float, run_s: float) -> float:
    """The first moment from which on `gpus` are free for `run_s`."""
    fits = profile >= gpus
    # The end of the free stretch that each moment lies in: the next moment that does not fit.
    ends = np.where(fits, np.inf, times)
    ends = np.minimum.accumulate(ends[::-1])[::-1]
    good = fits & (ends - times >= run_s)
    return float(times[np.argmax(good)]) if good.any() else float("inf")


def _cut(times: Floats, profile: Floats, at: float) -> tuple[Floats, Floats]:
    """The profile with a step at this moment."""
    index = int(np.searchsorted(times, at))
    if at == np.inf or (index < len(times) and times[index] == at):
        return times, profile
    return np.insert(times, index, at), np.insert(profile, index, profile[index - 1])
