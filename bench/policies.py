"""Time of one decision of each policy on a large cluster that is all but full."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.cycle import GPUS_PER_NODE, make_snapshot, measure_snapshot
from bench.figures import POLICIES, Series
from scheduler.engine.cycle import CycleConfig
from scheduler.model import AllocationView, Job, Running, Snapshot
from scheduler.model.request import request_of

_CONSERVATIVE = CycleConfig(policy="backfill", policy_params={"mode": "conservative"})
_FREE_NODES = 8
_LIMITS_S = (3600.0, 7200.0, 14400.0, 86400.0)
_CUTS = ((4, 4), (4, 2, 2), (2, 2, 2, 2), (4, 2, 1, 1), (1, 1, 2, 4))


def measure(*, samples: int) -> Series:
    """Milliseconds of the processor for `decide`, by policy."""
    snapshot = make_mixture()
    series: Series = {}
    for name in POLICIES:
        config = _CONSERVATIVE if name == "conservative" else CycleConfig(policy=name)
        _, series[f"policies_{name}_ms"] = measure_snapshot(snapshot, config, samples=samples)
    return series


def make_mixture(seed: int = 1) -> Snapshot:
    """A cluster with 64 free GPUs: three nodes of four hold one job, the others two to four smaller ones.

    All jobs have time limits and predictions, and may be preempted.
    """
    snapshot, chance = make_snapshot(taken_share=1.0, seed=seed), random.Random(seed)
    running: list[Running] = []
    for number, run in enumerate(snapshot.running[:-_FREE_NODES]):
        whole, left = run.allocations[0], list(run.allocations[0].gpu_ids)
        gpu_type = snapshot.gpu_by_id[left[0]].type
        for gpus in (GPUS_PER_NODE,) if number % 4 else chance.choice(_CUTS):
            ids, left = tuple(left[:gpus]), left[gpus:]
            job_id = len(running) + 1
            cpus, memory_mib = whole.cpus * gpus // GPUS_PER_NODE, whole.memory_mib * gpus // GPUS_PER_NODE
            job = replace(
                _with_times(run.job, chance),
                id=job_id,
                request=request_of(gpu_type=gpu_type, gpus=gpus, cpus=cpus, memory_mib=memory_mib),
                vc_id=job_id % 20 + 1,
            )
            share = AllocationView(whole.node_id, 0, ids, cpus, memory_mib)
            placed_at = snapshot.now - chance.uniform(0, 3500)
            running.append(Running(job_id, job, run.state, (share,), placed_at))
    return replace(
        snapshot, running=tuple(running), waiting=tuple(_with_times(job, chance) for job in snapshot.waiting)
    )


def _with_times(job: Job, chance: random.Random) -> Job:
    expected_s = chance.uniform(600, 90_000)
    return replace(
        job,
        time_limit_s=chance.choice(_LIMITS_S),
        expected_s=expected_s,
        remaining_s=expected_s,
        attained_gpu_s=chance.uniform(0, 100_000),
        preemptible=True,
    )
