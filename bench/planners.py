"""Two planners on one pool in simulated time: conflicts, useful work and wait against load and decision time.

Each planner has a virtual cluster of its own and sees the whole pool. It takes a snapshot, decides for as long as a
decision takes, and then applies its plan to what the pool is by then, as the applier does: place by place, or all or
nothing. That is the experiment of Schwarzkopf et al., Omega (EuroSys 2013), §4.3. The decisions and the check of the
plans are production's; the time that a decision takes is stated, and Postgres takes no part.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.figures import PLANNER_DECISIONS_S, PLANNER_LOADS, Series
from scheduler.admission import Admission
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Gpu, Job, Node, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.invariants import check
from scheduler.model.lifecycle import AttemptState, JobClass
from scheduler.model.plan import Place, Plan
from scheduler.model.planners import Scope, seen_by

WAYS = ("incremental", "whole")
_NODES, _GPUS = 16, 8
_GPU_TYPE = "A100"
_MEAN_RUN_S = 600.0
_SIZES, _WEIGHTS = (1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05)
_CONFIG = CycleConfig(placement="best_fit")


@dataclass(slots=True)
class Outcome:
    """Results of planners: places tried and refused, their GPU-seconds, and waits in seconds."""

    tried: int = 0
    refused: int = 0
    planned_gpu_s: float = 0.0
    useful_gpu_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)


def measure(*, hours: float) -> Series:
    """The conflicts, the useful work and the mean wait for each load, decision time and way of applying."""
    series: Series = {}
    for way in WAYS:
        for load in PLANNER_LOADS:
            for decision_s in PLANNER_DECISIONS_S:
                found = simulate(load=load, decision_s=decision_s, whole=way == "whole", horizon_s=hours * 3600)
                name = f"planners_{way}_{load}_{decision_s}"
                series[f"{name}_conflicts"] = [100 * found.refused / max(1, found.tried)]
                series[f"{name}_useful"] = [100 * found.useful_gpu_s / max(1.0, found.planned_gpu_s)]
                series[f"{name}_wait"] = found.waits_s or [0.0]
    return series


def simulate(*, load: float, decision_s: float, whole: bool, horizon_s: float, planners: int = 2) -> Outcome:
    """The outcome of planners that decide at the same time, each for its own half of the jobs."""
    chance, outcome = random.Random(7), Outcome()
    vc_ids = range(1, planners + 1)
    pool = _Pool(vc_ids)
    arrivals = list(_arrivals(chance, load, horizon_s, vc_ids))
    runs_s = {job.id: chance.expovariate(1 / _MEAN_RUN_S) for job in arrivals}
    # (time, order of events at one time, planner or job id); a planner's number of the decision that it begins
    events: list[tuple[float, int, int]] = [(job.submitted_at, 0, number) for number, job in enumerate(arrivals)]
    heapq.heapify(events)
    busy: dict[int, Plan | None] = dict.fromkeys(vc_ids)
    admission = compose(_CONFIG).admission
    while events:
        now, what, which = heapq.heappop(events)
        if what == 0:
            pool.waiting[arrivals[which].id] = arrivals[which]
        elif what == 1:
            del pool.running[which]
        else:
            seen = busy[which]
            busy[which] = None
            if seen is not None:
                started = _apply(pool, seen, now, whole=whole, outcome=outcome, runs_s=runs_s, admission=admission)
                for place in started:
                    outcome.waits_s.append(now - pool.job_of(place).submitted_at)
                    heapq.heappush(events, (now + runs_s[place.job_id], 1, place.job_id))
        for vc_id in vc_ids:
            if busy[vc_id] is None and any(job.vc_id == vc_id for job in pool.waiting.values()):
                plan = decide(seen_by(pool.snapshot(now), Scope(frozenset({vc_id}))), _CONFIG)
                if plan.places:
                    busy[vc_id] = plan
                    heapq.heappush(events, (now + decision_s, 2, vc_id))
    return outcome


def _apply(
    pool: _Pool,
    plan: Plan,
    now: float,
    *,
    whole: bool,
    outcome: Outcome,
    runs_s: dict[int, float],
    admission: Admission,
) -> list[Place]:
    """Apply a plan to the pool as it is now; returns the places that were applied."""
    units: list[Sequence[Place]] = [plan.places] if whole else [(place,) for place in plan.places]
    started: list[Place] = []
    for places in units:
        gpu_s = sum(_gpus(place) * runs_s[place.job_id] for place in places)
        outcome.tried += len(places)
        outcome.planned_gpu_s += gpu_s
        if check(pool.snapshot(now), Plan(tuple(places), ()), admission):
            outcome.refused += len(places)
            continue
        outcome.useful_gpu_s += gpu_s
        for place in places:
            pool.start(place, now)
            started.append(place)
    return started


class _Pool:
    """The pool as it is: what waits and what runs."""

    def __init__(self, vc_ids: Sequence[int]) -> None:
        self.nodes = tuple(_node(number) for number in range(1, _NODES + 1))
        quotas = {_GPU_TYPE: _NODES * _GPUS}
        self.vcs = tuple(VirtualCluster(vc_id, 1, f"planner{vc_id}", quotas) for vc_id in vc_ids)
        self.waiting: dict[int, Job] = {}
        self.running: dict[int, Running] = {}

    def snapshot(self, now: float) -> Snapshot:
        """The whole pool."""
        return Snapshot(
            now=now,
            seed=1,
            pool_id=1,
            nodes=self.nodes,
            tenants=(Tenant(1, "lab", 1.0),),
            vcs=self.vcs,
            waiting=tuple(self.waiting.values()),
            running=tuple(self.running.values()),
        )

    def start(self, place: Place, now: float) -> None:
        """Start a waiting job."""
        job = self.waiting.pop(place.job_id)
        self.running[job.id] = Running(job.id, job, AttemptState.RUNNING, place.allocations, now)

    def job_of(self, place: Place) -> Job:
        """The job of a place that has started."""
        return self.running[place.job_id].job


def _arrivals(chance: random.Random, load: float, horizon_s: float, vc_ids: Sequence[int]) -> Iterator[Job]:
    mean_gpus = sum(size * weight for size, weight in zip(_SIZES, _WEIGHTS, strict=True))
    every_s = mean_gpus * _MEAN_RUN_S / (load * _NODES * _GPUS)
    at, number = 0.0, 0
    while (at := at + chance.expovariate(1 / every_s)) < horizon_s:
        number += 1
        yield Job.of(
            id=number,
            tenant_id=1,
            vc_id=vc_ids[number % len(vc_ids)],
            owner_id=1,
            priority=0,
            job_class=JobClass.GUARANTEED,
            gpu_type=_GPU_TYPE,
            gpus=chance.choices(_SIZES, _WEIGHTS)[0],
            submitted_at=at,
            eligible_at=0.0,
            time_limit_s=None,
            attained_gpu_s=0.0,
            avoid_nodes=(),
            preemptible=True,
            still_stopping=False,
        )


def _node(number: int) -> Node:
    gpus = tuple(
        Gpu(number * 100 + index, number, index, f"GPU-{number}-{index}", _GPU_TYPE, 81_920, True)
        for index in range(_GPUS)
    )
    return Node(
        id=number,
        name=f"node{number:02}",
        rack="r1",
        cpus=64,
        memory_mib=524_288,
        version=1,
        schedulable=True,
        unschedulable_reason="",
        gpus=gpus,
    )


def _gpus(place: Place) -> int:
    return sum(len(share.gpu_ids) for share in place.allocations)
