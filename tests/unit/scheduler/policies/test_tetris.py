"""Tetris packs jobs that align with the free resources, and runs short jobs first."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Node, Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import Plan, apply
from scheduler.policies.tetris import Tetris
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

VCS = [make_vc(1, "a"), make_vc(2, "b")]


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="tetris", policy_params=params, admission="open")


def where(plan: Plan) -> dict[int, list[int]]:
    return {place.job_id: [share.node_id for share in place.allocations] for place in plan.places}


def job(job_id: int, gpus: int = 1, cpus: int = 1, left_s: float | None = 100.0, **fields: Any) -> Job:
    return make_job(job_id, gpus=gpus, cpus=cpus, memory_mib=0, remaining_s=left_s, **fields)


# One node has a GPU and many CPUs, the other GPUs and few CPUs.
CPUS_HERE, GPUS_HERE = make_node(1, gpus=8, cpus=64), make_node(2, gpus=8, cpus=64)
MIXED = make_snapshot(
    nodes=[CPUS_HERE, GPUS_HERE],
    running=[
        make_running(make_share(1, range(7), cpus=0), attempt_id=1),
        make_running(make_share(2, (0,), cpus=56), attempt_id=2),
    ],
)
PACKED: dict[str, tuple[Job, int]] = {
    "what takes CPUs goes where CPUs are": (job(1, gpus=0, cpus=8, gpu_type=None), 1),
    "what takes GPUs goes where GPUs are": (job(1, gpus=1, cpus=0), 2),
    "what fits in one place only goes there": (job(1, gpus=1, cpus=20), 1),
}


@pytest.mark.parametrize(("one", "node_id"), PACKED.values(), ids=PACKED)
def test_a_job_goes_where_it_aligns_with_what_is_free(one: Job, node_id: int) -> None:
    assert where(decide(replace(MIXED, waiting=(one,)), config())) == {1: [node_id]}


def test_the_placement_chooses_the_node_if_configured() -> None:
    waiting = replace(MIXED, waiting=(job(1, gpus=1, cpus=0),))
    assert where(decide(waiting, config(aligned_nodes=False))) == {1: [1]}


FIRST: dict[str, tuple[list[Job], dict[str, Any], list[int]]] = {
    "the better aligned, where only that counts": ([job(1, 2, left_s=1), job(2, 8, left_s=1e6)], {"m": 0}, [2]),
    "the shorter, where it counts much": ([job(1, 8, left_s=1e6), job(2, 2, left_s=1)], {"m": 100}, [2]),
    "the shorter of equal demands": ([job(1, 8, left_s=200), job(2, 8, left_s=100)], {}, [2]),
    "one without a prediction counts as the mean": (
        [job(1, 8, left_s=None), job(2, 8, cpus=2, left_s=9e5), job(3, 8, cpus=3, left_s=1)],
        {"m": 100},
        [3],
    ),
    "a higher priority before all": ([job(1, 8, left_s=1), job(2, 1, left_s=1e6, priority=1)], {"m": 100}, [2]),
    "the earlier of equals": ([job(2, 8), job(1, 8)], {}, [1]),
    "what does not fit is passed": ([job(1, 9, left_s=1), job(2, 8)], {}, [2]),
}


@pytest.mark.parametrize(("waiting", "params", "expected"), FIRST.values(), ids=FIRST)
def test_the_highest_score_goes_first(waiting: list[Job], params: dict[str, Any], expected: list[int]) -> None:
    world = make_snapshot(waiting=waiting)
    assert list(where(decide(world, config(**params))))[:1] == expected


def test_what_is_placed_changes_the_scores_of_the_rest() -> None:
    # Job 1 takes all the CPUs of node 1; job 2 finds its own only on node 2, with which it aligned less.
    nodes = [make_node(1, gpus=8), make_node(2, gpus=4, cpus=32)]
    world = make_snapshot(nodes=nodes, waiting=[job(1, 4, cpus=64), job(2, 3, cpus=16)])
    assert where(decide(world, config())) == {1: [1], 2: [2]}


def racks(*names: str) -> list[Node]:
    return [make_node(n, gpus=4, rack=name) for n, name in enumerate(names, start=1)]


PENALTY: dict[str, tuple[list[Node], float, list[int]]] = {
    # Both align alike but for their CPUs: the gang of two nodes a little more.
    "a gang on one rack loses nothing": (racks("r1", "r1"), 0.5, [1]),
    "a gang over two racks does": (racks("r1", "r2"), 0.5, [2]),
    "unless the penalty is nothing": (racks("r1", "r2"), 0.0, [1]),
}


@pytest.mark.parametrize(("nodes", "penalty", "first"), PENALTY.values(), ids=PENALTY)
def test_a_scattered_job_loses_a_part_of_its_alignment(nodes: list[Node], penalty: float, first: list[int]) -> None:
    world = make_snapshot(nodes=nodes, waiting=[job(1, 4, cpus=9, nodes=2), job(2, 4, cpus=1)])
    assert list(where(decide(world, config(m=0, remote_penalty=penalty))))[:1] == first


FAIRNESS: dict[str, tuple[float, list[int]]] = {
    "with no fairness the best score counts": (0.0, [1]),
    "with full fairness the job furthest behind its share": (1.0, [11]),
}


@pytest.mark.parametrize(("fairness", "first"), FAIRNESS.values(), ids=FAIRNESS)
def test_fairness_looks_at_those_furthest_behind(fairness: float, first: list[int]) -> None:
    world = make_snapshot(
        nodes=[make_node(1), make_node(2)],
        vcs=VCS,
        running=[make_running(make_share(2, range(4)), vc_id=1)],
        waiting=[job(1, 8, vc_id=1), job(11, 1, vc_id=2)],
    )
    assert list(where(decide(world, config(fairness=fairness))))[:1] == first


def test_fairness_leaves_nothing_idle() -> None:
    world = make_snapshot(vcs=VCS, waiting=[job(1, 8, vc_id=2, cpus=65), job(2, 8, vc_id=1)])
    assert where(decide(world, config(fairness=1.0))) == {2: [1]}


def test_jobs_of_one_class_go_one_after_the_other() -> None:
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=[job(n, 4, left_s=n) for n in range(1, 7)])
    plan = decide(world, config())
    assert sorted(where(plan)) == [1, 2, 3, 4]
    assert [hold.reason for hold in plan.holds] == [HoldReason.NO_FREE_GPUS] * 2


def test_a_cycle_places_no_more_than_its_limit() -> None:
    world = make_snapshot(waiting=[job(n) for n in range(1, 5)])
    plan = decide(world, replace(config(), max_places=2))
    assert len(plan.places) == 2
    assert [hold.reason for hold in plan.holds] == [HoldReason.CYCLE_LIMIT] * 2


def test_the_order_is_by_priority_and_remaining_time() -> None:
    jobs = [job(1, left_s=None), job(2, left_s=9), job(3, left_s=5), job(4, left_s=99, priority=1)]
    assert [one.id for one in Tetris().order(make_snapshot(waiting=jobs))] == [4, 3, 2, 1]


def test_what_a_job_that_may_be_split_reclaims_goes_to_no_later_job() -> None:
    lent = make_running(make_share(1, (0,), cpus=0), attempt_id=1, job_class=JobClass.OPPORTUNISTIC)
    jobs = (job(1, gpus=2, cpus=0, split=True), job(2, cpus=0, job_class=JobClass.OPPORTUNISTIC))
    world = make_snapshot(nodes=[make_node(1, gpus=2)], running=[lent], waiting=jobs)
    plan = decide(world, replace(config(), admission="borrow"))
    assert where(plan) == {1: [1]}
    assert [one.job_id for one in plan.preempts] == [lent.job.id]


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    def one(job_id: int) -> Job:
        split = draw(st.booleans())
        return job(
            job_id,
            draw(st.integers(1 if split else 0, 4)),
            draw(st.sampled_from([0, 1, 30])),
            draw(st.sampled_from([None, 10.0, 1e5])),
            nodes=1 if split else draw(st.integers(1, 2)),
            split=split,
            vc_id=draw(st.integers(1, 3)),
            gpu_type=draw(st.sampled_from(["A100", None])),
            avoid_nodes=draw(st.sampled_from([(), (1,)])),
        )

    nodes = [make_node(1, gpus=4), make_node(2, gpus=3, rack="r2"), make_node(3, gpus=2, gpu_type="V100")]
    world = make_snapshot(nodes=nodes, vcs=VCS, waiting=[one(n) for n in range(1, 1 + draw(st.integers(0, 4)))])
    world = apply(world, decide(world, config()))
    return replace(world, now=NOW + 9, waiting=(*world.waiting, *(one(n) for n in range(11, 18))))


@given(worlds(), st.sampled_from(["open", "quota"]), st.sampled_from([0, 0.5, 1]), st.sampled_from([1, 256]))
def test_a_plan_never_breaks_the_law(world: Snapshot, admission: str, fairness: float, max_places: int) -> None:
    chosen = replace(config(fairness=fairness), admission=admission, max_places=max_places)
    plan = decide(world, chosen)
    assert check(world, plan, compose(chosen).admission) == ()
    answered = [place.job_id for place in plan.places] + [hold.job_id for hold in plan.holds]
    assert sorted(answered) == sorted(one.id for one in world.waiting)
    if max_places > 1:
        greedy = decide(apply(world, plan), CycleConfig(admission=admission))
        assert greedy.places == ()  # nothing that fits is left idle
