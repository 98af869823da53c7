"""Forecast start and finish of a waiting job on each GPU type that it accepts.

1. Nothing else starts, and running jobs end when they are expected to; stopping ones after their grace.
2. On a type the job starts at the first of these ends at which quota and placement give it GPUs there.
3. Its remaining time holds on its first choice; on another type it is multiplied by the ratio of the job's rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from scheduler.engine.context import CycleContext
from scheduler.engine.cycle import CycleConfig, compose
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, Rate, Running, Snapshot
from scheduler.model.plan import UNSCHEDULABLE
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free

MAX_SEARCHES = 500  # for free GPUs; a type without a start by then has an unknown one
_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


@dataclass(frozen=True, slots=True)
class Finish:
    """The expected start and run time of a job on `gpus` GPUs of one type, seconds from now; None: unknown.

    `deviation_s` is that of the run time, by the deviations of the rates.
    """

    gpu_type: str
    gpus: int
    starts_in_s: float | None
    runs_s: float | None
    deviation_s: float = 0.0

    @property
    def finishes_in_s(self) -> float | None:
        """The expected finish."""
        return None if self.starts_in_s is None or self.runs_s is None else self.starts_in_s + self.runs_s


def finishes(snapshot: Snapshot, config: CycleConfig, job: Job) -> tuple[Finish, ...]:
    """The finish on each type that the pool could give the waiting job, the earliest first and unknown ones last.

    A type on which the job does not run, or of which its virtual cluster may never have enough, is left out.
    """
    parts = compose(config)
    context = CycleContext(
        SchedulerState(snapshot),
        parts.admission,
        parts.placement,
        max_places=1,
        explain=False,
        kept_together=getattr(parts.policy, "kept_together", None),
    )
    rates = {(one.gpu_type, one.gpus): one.rate for one in job.rates}
    demands = [one for one in context.demands(job) if one.gpu_type is not None]
    usable = [one for one in demands if _runs_on(one, rates) and _is_possible(context, job, one)]
    starts = _starts(context, job, usable)
    found = [
        Finish(one.gpu_type or "", one.gpus_total, starts.get(one.gpu_type), *_run_time(job, demands[0], one, rates))
        for one in usable
    ]
    return tuple(sorted(found, key=lambda one: math.inf if one.finishes_in_s is None else one.finishes_in_s))


def conclusion(found: Sequence[Finish]) -> str:
    """`V100 now finishes before A100 in 4 h`; empty with fewer than two types whose finish is known."""
    known = [one for one in found if one.finishes_in_s is not None]
    if len(known) < 2:
        return ""
    first, second, *_ = known
    lead_s = (second.finishes_in_s or 0.0) - (first.finishes_in_s or 0.0)
    verb = "finishes" if lead_s > math.hypot(first.deviation_s, second.deviation_s) else "probably finishes"
    others = " and ".join(f"{one.gpu_type} {_when(one.starts_in_s or 0.0)}" for one in known[1:])
    return f"{first.gpu_type} {_when(first.starts_in_s or 0.0)} {verb} before {others}"


def in_words(found: Sequence[Finish]) -> str:
    """`On V100 it would start now and finish in about 9 h; on A100 it would start in 4 h and finish in about 11 h.`"""
    told = "; ".join(map(_sentence, found))
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def _sentence(one: Finish) -> str:
    if one.starts_in_s is None:
        return f"on {one.gpu_type} its start is unknown"
    start = f"on {one.gpu_type} it would start {_when(one.starts_in_s)}"
    if one.finishes_in_s is None:
        return f"{start}, and its run time is unknown"
    return f"{start} and finish in about {_span(one.finishes_in_s)}"


def _when(seconds: float) -> str:
    return "now" if seconds <= 0 else f"in {_span(seconds)}"


def _span(seconds: float) -> str:
    """`45 s`, `2.5 h`, `11 h`."""
    unit, size = next((one for one in _UNITS if seconds >= 1.5 * one[1]), _UNITS[-1])
    amount = max(1.0, seconds / size)
    return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f}".removesuffix(".0") + f" {unit}"


def _runs_on(demand: Demand, rates: Mapping[tuple[str, int], Rate]) -> bool:
    rate = rates.get((demand.gpu_type or "", demand.gpus_total))
    return rate is None or rate.mean > 0


def _is_possible(context: CycleContext, job: Job, demand: Demand) -> bool:
    """True if the empty pool could give the job the demand within the quota of its virtual cluster."""
    denial = context.state.capacity.infeasible(demand) or context.quota_denial(job, demand)
    return denial is None or denial.reason not in UNSCHEDULABLE


def _starts(context: CycleContext, job: Job, demands: Sequence[Demand]) -> Mapping[str | None, float]:
    """The start on each type, seconds from now; without those that are unknown."""
    found: dict[str | None, float] = {}
    free, earliest_s, searches = context.state.free, max(0.0, job.eligible_at - context.now), 0
    for moment_s, ending in _moments(context):
        for run in ending:
            _end(context, run)
        for demand in demands:
            if demand.gpu_type in found or not _may_fit(free, demand):
                continue
            searches += 1
            if context.quota_denial(job, demand) is None and context.find(job, demand) is not None:
                found[demand.gpu_type] = max(earliest_s, moment_s)
        if len(found) == len(demands) or searches > MAX_SEARCHES:
            break
    return found


def _may_fit(free: Free, demand: Demand) -> bool:
    """True if as many GPUs are free as the demand needs, on as many nodes; a quick test before a search."""
    if demand.divisible:
        return free.gpus(demand.gpu_type) >= demand.gpus_total
    return free.nodes_with(demand.gpu_type, demand.gpus) >= demand.nodes


def _moments(context: CycleContext) -> Iterator[tuple[float, list[Running]]]:
    """Now, and each later end, seconds from now, with the jobs that end then."""
    yield 0.0, []
    ends = [(_ends_in_s(run, context.now), run) for run in context.view.running]
    known = sorted(((end, run) for end, run in ends if end is not None), key=lambda one: (one[0], one[1].attempt_id))
    for end, group in groupby(known, key=lambda one: one[0]):
        yield end, [run for _, run in group]


def _ends_in_s(run: Running, now: float) -> float | None:
    if run.stopping:
        return run.job.grace_s
    left_s = run.remaining_s(now)
    return None if left_s is None or run.work_rate <= 0 else left_s / run.work_rate


def _end(context: CycleContext, run: Running) -> None:
    """Count what the job holds as free, without the GPUs that are reserved for other jobs."""
    reserved = context.view.reserved_gpus
    shares = [
        replace(share, gpu_ids=tuple(gpu_id for gpu_id in share.gpu_ids if gpu_id not in reserved))
        for share in run.allocations
    ]
    context.state.free.give(shares)
    context.ledger.give(run.job, run.allocations)


def _run_time(
    job: Job, first: Demand, demand: Demand, rates: Mapping[tuple[str, int], Rate]
) -> tuple[float | None, float]:
    """The run time on the demand and its deviation, s: the remaining time holds on the first choice."""
    if job.remaining_s is None or demand is first:
        return job.remaining_s, 0.0
    there, here = (rates.get((one.gpu_type or "", one.gpus_total)) for one in (demand, first))
    if there is None or here is None or here.mean <= 0:
        return None, 0.0
    runs_s = job.remaining_s * here.mean / there.mean
    return runs_s, runs_s * math.hypot(*((rate.deviation or 0.0) / rate.mean for rate in (there, here)))
