"""Times of `themis`: an auction by itself, with several GPU types, and a decision with 10,000 waiting jobs."""

from __future__ import annotations

import random
from dataclasses import replace
from time import process_time

from bench.cycle import measure_snapshot
from bench.figures import Series
from bench.gavel import make_snapshot
from scheduler.engine.cycle import CycleConfig
from scheduler.model import Group, Snapshot
from scheduler.policies.themis.auction import Bid, hold
from scheduler.policies.themis.bidding import Application, Member

_CONFIG = CycleConfig(policy="themis", admission="open", max_places=1_000_000)
_BIDDERS = 64
_TYPES = ("A100", "H100", "T4", "V100")


def measure(*, samples: int) -> Series:
    """CPU milliseconds."""
    one_type, four_types = make_bids({"V100": 256}, seed=1), make_bids(dict.fromkeys(_TYPES, 64), seed=1)
    waiting = make_waiting(10_000, 8_000)
    return {
        "auction_one_ms": [_time(one_type, {"V100": 256}) for _ in range(samples)],
        "auction_four_ms": [_time(four_types, dict.fromkeys(_TYPES, 64)) for _ in range(samples)],
        "auction_cycle_ms": measure_snapshot(waiting, _CONFIG, samples=samples)[1],
    }


def make_bids(supply: dict[str, int], *, seed: int) -> list[Bid]:
    """Bids of sweeps of 1 to 64 members, of 1 to 8 GPUs, that are slower where their GPUs lie apart."""
    chance = random.Random(seed)
    bids = []
    for number in range(_BIDDERS):
        gang = chance.choices((1, 2, 4, 8), (0.7, 0.1, 0.15, 0.05))[0]
        speeds = {kind: chance.uniform(0.3, 1.0) for kind in supply}
        fastest = max(speeds.values())
        members = tuple(
            Member(
                job_id=100 * number + index,
                left=gang * chance.lognormvariate(8, 1),
                done=0.0,
                gangs=dict.fromkeys(supply, gang),
                speeds={kind: speed / fastest for kind, speed in speeds.items()},
                slowdowns=dict.fromkeys(supply, chance.uniform(1.0, 4.0)) if gang > 1 else {},
            )
            for index in range(chance.randint(1, 64))
        )
        sweep = Application(f"sweep {number}", 1, -chance.uniform(0, 36_000), members)
        alone_s = sweep.isolated_s(supply, float(_BIDDERS), sweep.demand)
        bids.append(sweep.bid(1, supply, now=0.0, isolated_s=alone_s, weight=1.0))
    return bids


def make_waiting(jobs: int, gpus: int) -> Snapshot:
    """An empty pool of four GPU types with waiting jobs, half of them in sweeps of 20 members."""
    snapshot = make_snapshot(jobs)
    nodes = []
    for number in range(1, gpus // 8 + 1):
        node = snapshot.nodes[number % len(snapshot.nodes)]
        own = tuple(
            replace(gpu, id=number * 100 + index, node_id=number, uuid=f"GPU-{number}-{index}")
            for index, gpu in enumerate(node.gpus)
        )
        nodes.append(replace(node, id=number, name=f"node{number:04}", gpus=own))
    waiting = [
        replace(job, group_id=job.id // 20 if job.id % 40 < 20 else None, expected_s=7200.0, remaining_s=7200.0)
        for job in snapshot.waiting
    ]
    ids = sorted({job.group_id for job in waiting if job.group_id is not None})
    groups = tuple(Group(group_id, 1, snapshot.now - 600, 0.0, 0.0) for group_id in ids)
    return replace(snapshot, nodes=tuple(nodes), waiting=tuple(waiting), groups=groups)


def _time(bids: list[Bid], supply: dict[str, int]) -> float:
    start = process_time()
    hold(bids, supply, auction=1)
    return (process_time() - start) * 1000
