"""Times of `gavel` for many jobs on four GPU types: the solve and the whole decision; and the loss by parts."""

from __future__ import annotations

import random
from time import process_time

import numpy as np

from bench.cycle import measure_snapshot
from bench.figures import GAVEL_JOBS, Series
from bench.samples import median
from scheduler.engine.cycle import CycleConfig
from scheduler.model import Gpu, Job, KnownRate, Node, Rate, Snapshot, Tenant, VirtualCluster
from scheduler.model.lifecycle import JobClass
from scheduler.model.request import request_of
from scheduler.policies.gavel import large, objectives
from scheduler.policies.gavel.large import Equal
from scheduler.policies.gavel.problem import Problem

_TYPES = ("A100", "H100", "T4", "V100")
_SIZES, _WEIGHTS = (1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05)  # as in Gavel's evaluation
_JOBS_PER_GPU = 4
_GPUS_PER_NODE = 8
_PARTS_OF = 512  # jobs, where parts are compared with the exact solution
_CONFIG = CycleConfig(policy="gavel", max_places=1_000_000)


def measure(*, samples: int) -> Series:
    """CPU milliseconds by the number of jobs, whose rates are all different; and the loss of parts, in percent."""
    series: Series = {}
    for jobs in GAVEL_JOBS:
        problem = make_problem(jobs)
        solves = []
        for _ in range(samples):
            start = process_time()
            large.solve(problem, objectives.max_min, exact_up_to=2048, equal=Equal.RATES, seed=1)
            solves.append((process_time() - start) * 1000)
        series[f"gavel_{jobs}_solve_ms"] = solves
        _, series[f"gavel_{jobs}_cycle_ms"] = measure_snapshot(make_snapshot(jobs), _CONFIG, samples=samples)
    least, most = min(GAVEL_JOBS), max(GAVEL_JOBS)
    ratio = median(series[f"gavel_{most}_solve_ms"]) / median(series[f"gavel_{least}_solve_ms"])
    series["gavel_growth"] = [ratio / (most / least)]
    problem = make_problem(2048)
    exact = objectives.levels(problem, objectives.max_min(problem)).min()
    parts = large.solve(problem, objectives.max_min, exact_up_to=_PARTS_OF, equal=Equal.NONE, seed=1)
    series["gavel_loss"] = [100 * (1 - float(objectives.levels(problem, parts.x).min() / exact))]
    return series


def make_problem(jobs: int) -> Problem:
    """The problem of `make_snapshot`, without a pool around it."""
    snapshot = make_snapshot(jobs)
    rates = np.array([[known.rate.mean for known in job.rates] for job in snapshot.waiting])
    gpus = np.array([[float(job.request.gpus_total)] * len(_TYPES) for job in snapshot.waiting])
    supply = [sum(gpu.type == kind for node in snapshot.nodes for gpu in node.gpus) for kind in _TYPES]
    return Problem(
        ids=tuple(job.id for job in snapshot.waiting),
        types=_TYPES,
        supply=np.array(supply, dtype=float),
        rates=rates,
        gpus=gpus,
        left=np.full(jobs, 3600.0),
        age_s=np.zeros(jobs),
        until_deadline_s=np.full(jobs, np.inf),
        tenants=(1,) * jobs,
        weights={},
        counts=np.ones(jobs),
    )


def make_snapshot(jobs: int, *, models: int | None = None, seed: int = 1) -> Snapshot:
    """An empty pool of four GPU types with waiting jobs that accept all; each its own rates, or those of `models`."""
    chance = random.Random(seed)
    nodes = tuple(_node(number) for number in range(1, max(4, jobs // (_JOBS_PER_GPU * _GPUS_PER_NODE)) + 1))
    kinds = [[chance.uniform(0.2, 4.0) for _ in _TYPES] for _ in range(models or jobs)]
    waiting = tuple(_job(number, kinds[(number - 1) % len(kinds)], chance) for number in range(1, jobs + 1))
    return Snapshot(
        now=1_800_000_000.0,
        seed=seed,
        pool_id=1,
        nodes=nodes,
        tenants=(Tenant(1, "tenant", 1.0),),
        vcs=(VirtualCluster(1, 1, "vc", dict.fromkeys(_TYPES, len(nodes) * _GPUS_PER_NODE)),),
        waiting=waiting,
        running=(),
    )


def _node(number: int) -> Node:
    gpu_type = _TYPES[number % len(_TYPES)]
    gpus = tuple(
        Gpu(number * 100 + index, number, index, f"GPU-{number}-{index}", gpu_type, 80 * 1024, True)
        for index in range(_GPUS_PER_NODE)
    )
    return Node(
        id=number,
        name=f"node{number:04}",
        rack="r1",
        cpus=128,
        memory_mib=1 << 20,
        version=1,
        schedulable=True,
        unschedulable_reason="",
        gpus=gpus,
    )


def _job(number: int, rates: list[float], chance: random.Random) -> Job:
    gpus = chance.choices(_SIZES, _WEIGHTS)[0]
    known = tuple(
        KnownRate(kind, gpus, Rate(rate * gpus, None, "measured")) for kind, rate in zip(_TYPES, rates, strict=True)
    )
    return Job(
        id=number,
        tenant_id=1,
        vc_id=1,
        owner_id=1,
        priority=0,
        job_class=JobClass.GUARANTEED,
        request=request_of(gpus=gpus, cpus=1, memory_mib=1024),
        submitted_at=1_799_990_000.0 + number,
        eligible_at=0.0,
        time_limit_s=None,
        attained_gpu_s=0.0,
        avoid_nodes=(),
        preemptible=True,
        still_stopping=False,
        rates=known,
    )
