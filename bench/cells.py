"""Time of one decision on a pool whose virtual clusters own cells, beside the same one under plain quotas.

1,000 nodes with 8 GPUs in racks of 20 nodes of one type; 50 virtual clusters own 20 nodes each, of three types. All but
64 GPUs are taken and 10,000 jobs wait. Every other virtual cluster uses all of its cells and has guaranteed jobs that
wait. The others have opportunistic jobs, which hold the rest of the pool, and a few guaranteed ones that reclaim GPUs.
"""

from __future__ import annotations

import random
from dataclasses import replace

from bench.cycle import measure_snapshot
from bench.figures import ADMISSIONS, Series
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Gpu, Job, Node, Snapshot, Tenant, VirtualCluster
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import apply

GPUS_PER_NODE, WAITING, VCS, NODES_PER_RACK, FREE_NODES = 8, 10_000, 50, 20, 8
RACKS = {"A100": 20, "H100": 15, "V100": 15}
NODES_OF_VC = {"A100": 8, "H100": 6, "V100": 6}
_CPUS, _MEMORY_MIB, _GPU_MEMORY_MIB = 128, 1 << 20, 80 * 1024
_NOW = 1_800_000_000.0
_RECLAIMING = 16  # guaranteed jobs of virtual clusters that lend


def measure(*, samples: int) -> Series:
    """Milliseconds of the processor for `decide`, by admission."""
    series: Series = {}
    for admission in ADMISSIONS:
        config = CycleConfig(admission=admission)
        snapshot = make_snapshot(config)
        _, series[f"cells_{admission}_ms"] = measure_snapshot(snapshot, config, samples=samples)
    return series


def make_snapshot(config: CycleConfig, *, scale: int = 1, seed: int = 1) -> Snapshot:
    """The pool as its own decisions have filled it; with a `scale`, all numbers are divided by it."""
    chance, vcs = random.Random(seed), VCS // scale
    nodes = _nodes(scale)
    empty = Snapshot(
        now=_NOW,
        seed=seed,
        pool_id=1,
        nodes=nodes,
        tenants=tuple(Tenant(number, f"tenant{number}", 1.0) for number in range(1, vcs + 1)),
        vcs=tuple(_vc(number) for number in range(1, vcs + 1)),
        waiting=(),
        running=(),
    )
    closed = frozenset(node.id for node in chance.sample(nodes, max(1, FREE_NODES // scale)))
    waiting = [_job(number, vcs, chance) for number in range(1, WAITING // scale + 1)]
    lenders = [number for number, job in enumerate(waiting) if job.job_class is JobClass.OPPORTUNISTIC]
    for number in lenders[:_RECLAIMING]:
        waiting[number] = replace(waiting[number], job_class=JobClass.GUARANTEED)
    filling = replace(
        empty,
        nodes=tuple(replace(node, schedulable=node.id not in closed) for node in nodes),
        waiting=tuple(_job(WAITING + number, vcs, chance) for number in range(1, WAITING // scale + 1)),
    )
    full = apply(filling, decide(filling, replace(config, max_places=WAITING)))
    return replace(full, nodes=nodes, waiting=tuple(waiting))


def _vc(number: int) -> VirtualCluster:
    return VirtualCluster(
        number,
        number,
        f"vc{number}",
        {kind: nodes * GPUS_PER_NODE for kind, nodes in NODES_OF_VC.items()},
        cells={
            f"{NODES_PER_RACK}-{kind}x{GPUS_PER_NODE}-NODE.{kind}x{GPUS_PER_NODE}-NODE": nodes
            for kind, nodes in NODES_OF_VC.items()
        },
    )


def _nodes(scale: int) -> tuple[Node, ...]:
    kinds = [kind for kind, racks in RACKS.items() for _ in range(racks // scale)]
    return tuple(
        _node(rack * NODES_PER_RACK + number + 1, f"rack{rack:02}", kind)
        for rack, kind in enumerate(kinds)
        for number in range(NODES_PER_RACK)
    )


def _node(number: int, rack: str, kind: str) -> Node:
    return Node(
        id=number,
        name=f"node{number:04}",
        rack=rack,
        cpus=_CPUS,
        memory_mib=_MEMORY_MIB,
        version=1,
        schedulable=True,
        unschedulable_reason="",
        gpus=tuple(
            Gpu(number * 100 + index, number, index, f"GPU-{number}-{index}", kind, _GPU_MEMORY_MIB, True)
            for index in range(GPUS_PER_NODE)
        ),
    )


def _job(number: int, vcs: int, chance: random.Random) -> Job:
    gpus, vc = chance.choices((1, 2, 4, 8), weights=(60, 15, 10, 15))[0], chance.randint(1, vcs)
    return Job.of(
        id=number,
        tenant_id=vc,
        vc_id=vc,
        owner_id=chance.randint(1, 200),
        priority=chance.choices((0, 10, 20), weights=(2, 7, 1))[0],
        job_class=JobClass.GUARANTEED if vc % 2 else JobClass.OPPORTUNISTIC,
        gpu_type=chance.choice((*RACKS, None)),
        gpus=gpus,
        nodes=chance.choice((1, 2, 4)) if gpus == GPUS_PER_NODE else 1,
        cpus=gpus * 4,
        memory_mib=gpus * 16_384,
        submitted_at=_NOW - chance.uniform(0, 86_400),
        eligible_at=0.0,
        time_limit_s=None,
        attained_gpu_s=0.0,
        avoid_nodes=(),
        preemptible=True,
        still_stopping=False,
    )
