"""Finish-time fairness, rho: the time that a job or a sweep takes, divided by its time alone on its share.

Sources: T_ID of Themis (Mahajan et al., NSDI 2020, §3) and the isolated time of Gavel (Narayanan
et al., OSDI 2020, §4.2); for the floor, bounded slowdown (Feitelson, Rudolph: Metrics and benchmarking for parallel job
scheduling, JSSPP 1998). docs/operator/fairness.md has the definitions and what they leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_S = 1e-6  # shorter times are rounding errors and have no ratio
FLOOR_S = 60.0  # the run time that `bounded` takes for a shorter one
_ALIKE = 0.05  # a smaller difference from 1 is not worth a sentence


def isolated_s(alone_s: float, gpus: int, *, of_gpus: float, contention: float) -> float:
    """The run time of a job of `gpus` GPUs alone on 1/`contention` of `of_gpus` GPUs, s.

    `alone_s` is its run time on the GPUs that it asks for. A job that asks for more than its share is slower in
    proportion, and one that asks for less is no faster.
    """
    return alone_s * max(1.0, contention * gpus / of_gpus)


def isolated_sweep_s(total_gpu_s: float, longest_s: float, demand: int, *, of_gpus: float, contention: float) -> float:
    """The same of a sweep that asks for `demand` GPUs at its submission and whose longest member runs `longest_s`.

    `total_gpu_s` is the work of all members, that of stopped ones included.
    """
    return max(total_gpu_s / min(demand, of_gpus / contention), longest_s)


def ratio(taken_s: float, isolated_s: float) -> float | None:
    """The time from submission to end, divided by the time alone; above 1, sharing cost time. None without a ratio."""
    return taken_s / isolated_s if min(taken_s, isolated_s) >= MIN_S else None


def bounded(taken_s: float, alone_s: float, isolated_s: float) -> float | None:
    """`ratio` where a run time of less than FLOOR_S counts as FLOOR_S, so that short jobs do not dominate means.

    `alone_s` is the run time on the GPUs that are asked for. With that for `isolated_s` it is the bounded slowdown.
    """
    if min(taken_s, alone_s) < MIN_S:
        return None
    return ratio(max(taken_s, FLOOR_S), isolated_s * max(1.0, FLOOR_S / alone_s))


@dataclass(frozen=True, slots=True)
class Load:
    """The work of a job or a sweep in GPU-seconds, the run time of its longest job, s, and the GPUs it asks for."""

    total_gpu_s: float
    longest_s: float
    demand: int

    def rho(self, taken_s: float, *, of_gpus: int, contention: float) -> float | None:
        """The bounded rho of an application that took so long, against 1/`contention` of `of_gpus` GPUs."""
        if min(of_gpus, self.demand) <= 0:
            return None
        alone_s = max(self.total_gpu_s / self.demand, self.longest_s)
        isolated = isolated_sweep_s(
            self.total_gpu_s, self.longest_s, self.demand, of_gpus=of_gpus, contention=contention
        )
        return bounded(taken_s, alone_s, isolated)


def in_words(rho: float, whole: float, gpus: str, *, contention: float) -> str:
    """`1.3× slower than with an equal part of your own 8 GPUs`, where `gpus` is `your own 8 GPUs`.

    `whole` is rho without contention, against all of these GPUs. A job is faster only if it is faster than with all of
    them: one that had its GPUs at once, while others waited, has not beaten its quota.
    """
    if whole < 1 / (1 + _ALIKE):
        return f"{_times(1 / whole)} faster than with {gpus}"
    if whole <= 1 + _ALIKE:
        return f"as fast as with {gpus}"
    share = gpus if contention <= 1 + _ALIKE else f"an equal part of {gpus}"
    return f"{_times(rho)} slower than with {share}" if rho > 1 + _ALIKE else f"no slower than with {share}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"
