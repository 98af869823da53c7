"""A job's use of the resources it asked for: a grade, and at most two sentences of advice. Pure.

Utilisation is the share of time in which a GPU did any work, as its driver reports it. A GPU with a high figure may
still be used badly, but a low figure proves that the job did not need it all the time. So the grade is an upper limit,
and there is none where too little was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

MIN_RUN_S = 600.0
"""Shorter runs have hardly loaded their data."""
MIN_SAMPLES = 12
GOOD, FAIR = 70.0, 40.0
IDLE = 5.0
"""Percent of the time. Below it the job did not use the GPU."""
MAX_ADVICE = 2
_FULL_PERCENT = 90.0
"""The utilisation of a busy GPU, in percent: jobs do not exceed it for long."""
_MIN_MEMORY_MIB = 8192
_MIN_CPUS = 4
_LOW_SHARE = 0.5
_BUSY_CPUS = 0.9


class Grade(StrEnum):
    """Grades of a job's use of its GPUs."""

    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"
    IDLE = "idle"


class NoGradeReason(StrEnum):
    """Reasons for no grade."""

    NO_GPUS = "no_gpus"
    SHARED = "shared"
    """The figures are those of the whole GPU, which other jobs used too."""
    TOO_SHORT = "too_short"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU of the job. `utilization` is a mean in percent, `memory_used_mib` the maximum; None: not measured."""

    rank: int
    index: int
    samples: int
    utilization: float | None
    memory_used_mib: float | None
    memory_mib: int


@dataclass(frozen=True, slots=True)
class HostUse:
    """The share of its host that each rank had, and what the busiest rank used of it; None: not measured.

    `cpu_cores` is a mean over the run, `memory_used_mib` the maximum. `asked_cpus` and `asked_memory` say whether the
    owner asked for the amount or got the pool's default.
    """

    cpus: int
    cpu_cores: float | None
    memory_mib: int
    memory_used_mib: float | None
    asked_cpus: bool = False
    asked_memory: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """One run of a job: its length, its GPUs and its use of the hosts."""

    ran_s: float
    gpus: Sequence[GpuUse]
    host: HostUse
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grade or why there is none, and the advice. `utilization` is the mean over all GPUs, in percent."""

    grade: Grade | None
    silence: NoGradeReason | None
    utilization: float | None
    idle_gpus: int
    advice: tuple[str, ...]


def judge(use: Use) -> Verdict:
    """The grade of a run and the advice for its owner.

    1. There is no grade for jobs without GPUs, on shared GPUs, for short runs, and where a GPU has too few samples.
    2. The grade is `idle` if the job used no GPU; else the mean utilisation decides: `good` from 70 %, `fair` from 40
       %, `poor` below.
    3. Advice names the most expensive waste first: GPUs, then memory and processors that the owner asked for.
    """
    silence = _no_grade_reason(use)
    if silence is not None:
        measured = silence not in {NoGradeReason.TOO_SHORT, NoGradeReason.NOT_MEASURED}
        on_host = tuple(_advice_on_host(use.host)) if measured else ()
        return Verdict(None, silence, None, 0, on_host[:MAX_ADVICE])
    figures = [gpu.utilization or 0.0 for gpu in use.gpus]
    mean = math.fsum(figures) / len(figures)
    idle = sum(figure < IDLE for figure in figures)
    advice = [*_advice_on_gpus(use, mean, idle), *_advice_on_host(use.host)]
    return Verdict(_grade(mean, idle == len(figures)), None, mean, idle, tuple(advice[:MAX_ADVICE]))


def _no_grade_reason(use: Use) -> NoGradeReason | None:
    if not use.gpus:
        return NoGradeReason.NO_GPUS
    if use.shared:
        return NoGradeReason.SHARED
    if use.ran_s < MIN_RUN_S:
        return NoGradeReason.TOO_SHORT
    if any(gpu.utilization is None or gpu.samples < MIN_SAMPLES for gpu in use.gpus):
        return NoGradeReason.NOT_MEASURED
    return None


def _grade(mean: float, all_idle: bool) -> Grade:
    if all_idle:
        return Grade.IDLE
    if mean >= GOOD:
        return Grade.GOOD
    return Grade.FAIR if mean >= FAIR else Grade.POOR


def _advice_on_gpus(use: Use, mean: float, idle: int) -> Iterator[str]:
    count = len(use.gpus)
    if idle == count:
        advice = (
            "It hardly used its GPU. Check that the program finds it;"
            if count == 1
            else f"It used none of its {count} GPUs. Check that the program finds them;"
        )
        yield f"{advice} a job without GPUs asks for `gpus: 0`."
        return
    if idle:
        were = "was" if idle == 1 else "were"
        yield f"{idle} of its {count} GPUs {were} idle; {count - idle} would have been enough."
        return
    if mean >= GOOD:
        return
    needed = max(1, math.ceil(math.fsum(gpu.utilization or 0.0 for gpu in use.gpus) / _FULL_PERCENT))
    starved = use.host.cpu_cores is not None and use.host.cpu_cores >= _BUSY_CPUS * use.host.cpus
    if starved:
        cpus = "processor was" if use.host.cpus == 1 else f"{use.host.cpus} processors were"
        yield f"Its {cpus} busy while its GPUs waited ({mean:.0f} % used): ask for more `cpus`."
    elif needed < count:
        would = "one" if needed == 1 else str(needed)
        yield f"It used {mean:.0f} % of {count} GPUs; {would} might have been enough."
    elif mean < FAIR:
        which = "its GPU" if count == 1 else f"its {count} GPUs"
        yield f"It used {mean:.0f} % of {which}: check whether it waits for data."


def _advice_on_host(host: HostUse) -> Iterator[str]:
    memory, cores = host.memory_used_mib, host.cpu_cores
    much = host.asked_memory and host.memory_mib >= _MIN_MEMORY_MIB
    if much and memory is not None and memory < _LOW_SHARE * host.memory_mib:
        yield f"It asked for {_size(host.memory_mib)} of memory and used {_size(memory)} at most."
    if host.asked_cpus and cores is not None and host.cpus >= _MIN_CPUS and cores < _LOW_SHARE * host.cpus:
        yield f"It asked for {host.cpus} processors and kept {max(cores, 0.1):.1f} of them busy."


def _size(mib: float) -> str:
    gib = mib / 1024
    return f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"
