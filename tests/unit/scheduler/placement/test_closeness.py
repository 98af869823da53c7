"""Answers to a waiting job that must lie close together, and to one for which waiting would not help."""

from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Locality, Node, Running
from scheduler.model.lifecycle import HoldReason
from tests.unit.scheduler.factories import make_job, make_node, make_snapshot
from tests.unit.scheduler.pools import nodes, using


def within(level: Locality, **fields: Any) -> Job:
    return make_job(1, locality=level, **fields)


def lot_within(level: Locality, gpus: int) -> Job:
    return within(level, gpus=gpus, split=True, cpus=0, memory_mib=0)


@dataclass(frozen=True)
class Case:
    """A job on a pool, and why it waits; None for one that starts."""

    reason: HoldReason | None
    detail: str
    job: Job
    nodes: tuple[Node, ...]
    running: tuple[Running, ...] = ()


CASES = {
    "ranks within one node": Case(
        HoldReason.INFEASIBLE,
        "this job needs 2 nodes and, by its locality, one node",
        within(Locality.NODE, nodes=2),
        nodes("a", "a"),
    ),
    "ranks within a rack, and no rack has enough nodes": Case(
        HoldReason.INFEASIBLE,
        "this job needs 3 such nodes within one rack; the largest rack of this pool has 2",
        within(Locality.RACK, nodes=3),
        nodes("a", "a", "b", "b"),
    ),
    "ranks within a rack, and no rack has enough nodes with the GPUs": Case(
        HoldReason.INFEASIBLE,
        "this job needs 2 such nodes within one rack; the largest rack of this pool has 1",
        within(Locality.RACK, nodes=2, gpus=8),
        (make_node(1, rack="a"), make_node(2, rack="a", gpus=4), make_node(3, rack="b")),
    ),
    "ranks within a rack, and no rack has enough free": Case(
        HoldReason.FRAGMENTED,
        "24 A100 are free, at most 8 on one node; this job needs 2 times 8 within one rack",
        within(Locality.RACK, nodes=2, gpus=8),
        nodes("a", "a", "b", "b"),
        (using(1, 4), using(3, 4)),
    ),
    "ranks within a rack": Case(None, "", within(Locality.RACK, nodes=2, gpus=8), nodes("a", "b", "b"), (using(1, 1),)),
    "a rank within one node": Case(None, "", within(Locality.NODE), nodes("a")),
    "a lot within a rack, and no rack is so large": Case(
        HoldReason.INFEASIBLE,
        "this job needs 17 A100 within one rack; at most 16 are possible",
        lot_within(Locality.RACK, 17),
        nodes("a", "a", "b"),
    ),
    "a lot within a rack, and no rack has enough free": Case(
        HoldReason.FRAGMENTED,
        "20 A100 are free, at most 8 on one node; this job needs 16 within one rack",
        lot_within(Locality.RACK, 16),
        nodes("a", "a", "b"),
        (using(1, 4),),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_waits_because(case: Case) -> None:
    plan = decide(make_snapshot(nodes=case.nodes, waiting=[case.job], running=case.running), CycleConfig())
    found = [(hold.reason, hold.detail) for hold in plan.holds]
    assert found == ([] if case.reason is None else [(case.reason, case.detail)])
    assert all(hold.helps for hold in plan.holds)
