"""Time of one scheduling decision on a large cluster; no process but this one takes part."""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from time import perf_counter, process_time

from bench.figures import Series
from bench.samples import median
from scheduler.admission.screening import FIRST_ID, with_screening_clusters
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import AllocationView, Gpu, Job, Node, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.lifecycle import AttemptState, JobClass
from scheduler.model.request import request_of

NODES, GPUS_PER_NODE, WAITING = 1_000, 8, 10_000
_CPUS, _MEMORY_MIB, _GPU_MEMORY_MIB = 128, 1 << 20, 80 * 1024
_TYPES = ("A100", "H100", "V100")
_VCS = 20
SCREENED = 2_000
_TENANT_CAP = 2
_NOW = 1_800_000_000.0
_TAKEN_SHARES = {"full": 1.0, "half": 0.5, "empty": 0.0}


def measure(*, samples: int) -> Series:
    """Milliseconds of `decide` by how much of the cluster is taken, on the clock and on the processor."""
    series: Series = {}
    for name, share in _TAKEN_SHARES.items():
        snapshot = make_snapshot(taken_share=share)
        series[f"cycle_{name}_ms"], series[f"cycle_{name}_cpu_ms"] = measure_snapshot(snapshot, samples=samples)
    return series


def measure_growth(*, samples: int) -> Series:
    """Milliseconds of the processor for `decide` with 64 free GPUs, by thousands of waiting jobs, and the growth."""
    series: Series = {}
    for thousands in (1, 2, 4, 8):
        snapshot = make_snapshot(taken_share=1 - 8 / NODES, waiting=thousands * 1_000)
        _, series[f"cycle_growth_{thousands}k_ms"] = measure_snapshot(snapshot, samples=samples)
    most, least = median(series["cycle_growth_8k_ms"]), median(series["cycle_growth_1k_ms"])
    return series | {"cycle_growth_ratio": [most / least]}


def measure_screening(*, samples: int) -> Series:
    """CPU milliseconds of `decide` with 64 free GPUs, with no job to be screened and with 2,000 of them."""
    without = make_snapshot(taken_share=1 - 8 / NODES)
    found = {"cycle_screening_none": without, "cycle_screening": with_screening_runs(without, SCREENED)}
    return {f"{name}_ms": measure_snapshot(snapshot, samples=samples)[1] for name, snapshot in found.items()}


def with_screening_runs(snapshot: Snapshot, count: int) -> Snapshot:
    """The snapshot with the first `count` waiting jobs to be screened, on two GPUs each and within tenant caps."""
    screened = tuple(
        replace(
            job,
            vc_id=FIRST_ID + job.tenant_id,
            request=request_of(gpus=2, cpus=8, memory_mib=32_768),
            time_limit_s=300.0,
            expected_s=300.0,
        )
        for job in snapshot.waiting[:count]
    )
    waiting = (*screened, *snapshot.waiting[count:])
    return with_screening_clusters(replace(snapshot, waiting=waiting), snapshot.tenants, cap=_TENANT_CAP)


def make_snapshot(*, taken_share: float, nodes: int = NODES, waiting: int = WAITING, seed: int = 1) -> Snapshot:
    """A cluster of three GPU types, 20 virtual clusters and jobs of all sizes; the same arguments, the same cluster."""
    chance = random.Random(seed)
    servers = tuple(_node(number) for number in range(1, nodes + 1))
    taken = round(nodes * taken_share)
    return Snapshot(
        now=_NOW,
        seed=seed,
        pool_id=1,
        nodes=servers,
        tenants=tuple(Tenant(number, f"tenant{number}", 1.0) for number in range(1, _VCS + 1)),
        # Each has its fair share, which some use up and others do not: so both reasons to wait occur.
        vcs=tuple(
            VirtualCluster(
                number, number, f"vc{number}", dict.fromkeys(_TYPES, nodes * GPUS_PER_NODE // (_VCS * len(_TYPES)))
            )
            for number in range(1, _VCS + 1)
        ),
        waiting=tuple(_job(waiting + number, chance) for number in range(1, waiting + 1)),
        running=tuple(
            _running(number, node, chance) for number, node in enumerate(chance.sample(servers, taken), start=1)
        ),
    )


def measure_snapshot(
    snapshot: Snapshot, config: CycleConfig | None = None, *, samples: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each decision on the snapshot, on the clock and on the processor, after one to warm up."""
    config = config or CycleConfig()
    clock_ms, processor_ms = [], []
    for _ in range(samples + 1):
        # A snapshot keeps its indexes once they are made, and production decides once on each: so a fresh copy.
        fresh = replace(snapshot)
        gc.collect()
        start, processor_start = perf_counter(), process_time()
        decide(fresh, config)
        processor_ms.append((process_time() - processor_start) * 1000)
        clock_ms.append((perf_counter() - start) * 1000)
    return clock_ms[1:], processor_ms[1:]


def _node(number: int) -> Node:
    gpu_type = _TYPES[number % len(_TYPES)]
    gpus = tuple(
        Gpu(number * 100 + index, number, index, f"GPU-{number}-{index}", gpu_type, _GPU_MEMORY_MIB, True)
        for index in range(GPUS_PER_NODE)
    )
    return Node(
        id=number,
        name=f"node{number:04}",
        rack=f"rack{number // 40:02}",
        cpus=_CPUS,
        memory_mib=_MEMORY_MIB,
        version=1,
        schedulable=True,
        unschedulable_reason="",
        gpus=gpus,
    )


def _job(number: int, chance: random.Random) -> Job:
    # Most jobs are small; a gang has 8 GPUs on each of its nodes.
    gpus = chance.choices((1, 2, 4, 8), weights=(60, 15, 10, 15))[0]
    vc = chance.randint(1, _VCS)
    return Job.of(
        id=number,
        tenant_id=vc,
        vc_id=vc,
        owner_id=chance.randint(1, 200),
        priority=chance.choices((0, 10, 20), weights=(2, 7, 1))[0],
        job_class=JobClass.GUARANTEED,
        gpu_type=chance.choice((*_TYPES, None)),
        gpus=gpus,
        nodes=chance.choice((1, 2, 4)) if gpus == GPUS_PER_NODE else 1,
        cpus=gpus * 4,
        memory_mib=gpus * 16_384,
        submitted_at=_NOW - chance.uniform(0, 86_400),
        eligible_at=0.0,
        time_limit_s=None,
        attained_gpu_s=0.0,
        avoid_nodes=(),
        preemptible=False,
        still_stopping=False,
    )


def _running(number: int, node: Node, chance: random.Random) -> Running:
    share = AllocationView(node.id, 0, tuple(gpu.id for gpu in node.gpus), 64, _MEMORY_MIB // 2)
    job = _job(number, chance)
    job = replace(
        job,
        request=request_of(gpu_type=job.request.only_type, gpus=GPUS_PER_NODE, cpus=64, memory_mib=_MEMORY_MIB // 2),
        vc_id=number % _VCS + 1,
    )
    return Running(
        attempt_id=number, job=job, state=AttemptState.RUNNING, allocations=(share,), placed_at=_NOW - number
    )
