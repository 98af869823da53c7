"""Finish-time fairness, rho: the time that a job or a sweep takes, divided by its time alone on its share.

Sources: T_ID of Themis (Mahajan et al., NSDI 2020, §3) and the isolated time of Gavel (Narayanan
et al., OSDI 2020, §4.2). docs/fairness.md has the definitions and what they leave out.
"""

from __future__ import annotations

MIN_S = 1e-6  # shorter times are rounding errors and have no ratio
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


def in_words(rho: float, share: str) -> str:
    """`1.3× slower than with your own 8 GPUs`, where `share` is `your own 8 GPUs`."""
    if rho < 1 / (1 + _ALIKE):
        return f"{_times(1 / rho)} faster than with {share}"
    return f"{_times(rho)} slower than with {share}" if rho > 1 + _ALIKE else f"as fast as with {share}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"
