"""What must hold for every world: never an unlawful plan, and in the end every feasible job runs."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cycle import CycleConfig, compose, decide
from scheduler.law import check
from scheduler.model import Job, Node, Snapshot, VirtualCluster, snapshot_from_dict, snapshot_to_dict
from scheduler.plan import apply, plan_from_dict, plan_to_dict
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_snapshot, make_vc

TYPES = ["A100", "V100"]
GIB = 1024  # in MiB
T = TypeVar("T")


@st.composite
def node_of(draw: st.DrawFn, node_id: int) -> Node:
    node = make_node(
        node_id,
        gpus=draw(st.integers(0, 4)),
        gpu_type=draw(st.sampled_from(TYPES)),
        unhealthy=draw(st.sets(st.integers(0, 3), max_size=1)),
        rack=draw(st.sampled_from(["r1", "r2"])),
        cpus=draw(st.integers(1, 8)),
        memory_mib=draw(st.integers(1, 8)) * GIB,
        schedulable=draw(st.integers(0, 5)) > 0,
    )
    if draw(st.booleans()):
        return node
    mixed = draw(st.lists(st.sampled_from(TYPES), min_size=len(node.gpus), max_size=len(node.gpus)))
    return replace(node, gpus=tuple(replace(gpu, type=kind) for gpu, kind in zip(node.gpus, mixed, strict=True)))


@st.composite
def job_of(draw: st.DrawFn, job_id: int) -> Job:
    return make_job(
        job_id,
        gpus=draw(st.integers(0, 4)),
        nodes=draw(st.integers(1, 3)),
        gpu_type=draw(st.sampled_from([None, *TYPES])),
        vc_id=draw(st.integers(1, 3)),
        cpus=draw(st.integers(0, 4)),
        memory_mib=draw(st.integers(0, 4)) * GIB,
        priority=draw(st.integers(0, 1)),
        submitted_at=NOW - draw(st.integers(0, 100)),
        eligible_at=NOW + draw(st.sampled_from([-1, -1, -1, 5])),
        avoid_nodes=tuple(sorted(draw(st.sets(st.integers(1, 5), max_size=2)))),
        still_stopping=draw(st.integers(0, 9)) == 0,
    )


def vc_of(vc_id: int) -> st.SearchStrategy[VirtualCluster]:
    quotas = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 12))
    return quotas.map(lambda drawn: make_vc(vc_id, f"vc{vc_id}", drawn))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A small pool in which some jobs run already, put there by a cycle."""
    nodes = [draw(node_of(node_id)) for node_id in range(1, draw(st.integers(0, 5)) + 1)]
    vcs = [draw(vc_of(vc_id)) for vc_id in (1, 2)]  # jobs of virtual cluster 3 have none
    early = [draw(job_of(job_id)) for job_id in range(1, draw(st.integers(0, 4)) + 1)]
    late = [draw(job_of(job_id)) for job_id in range(11, 11 + draw(st.integers(0, 8)))]
    world = make_snapshot(nodes=nodes, waiting=early, vcs=vcs)
    world = apply(world, decide(world, CycleConfig()))
    return replace(world, waiting=(*world.waiting, *late))


def worlds(*others: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a test on drawn snapshots; without a deadline, for a machine may be busy with other things."""
    return lambda test: settings(max_examples=60, deadline=None)(given(snapshots(), *others)(test))


CONFIGS = st.builds(
    CycleConfig,
    policy_params=st.fixed_dictionaries(
        {"skip_blocked": st.booleans(), "patience_s": st.sampled_from([None, 0, 50, 1000])}
    ),
    max_places=st.sampled_from([1, 3, 256]),
)


@worlds(CONFIGS)
def test_a_plan_never_breaks_the_law(world: Snapshot, config: CycleConfig) -> None:
    assert check(world, decide(world, config), compose(config).guard) == ()


# The law is checked above by the law's own code; here its promises are counted afresh.
@worlds(CONFIGS)
def test_no_gpu_is_held_twice_and_no_node_gives_more_than_it_has(world: Snapshot, config: CycleConfig) -> None:
    after = apply(world, decide(world, config))
    shares = [share for attempt in after.running for share in attempt.allocations]
    gpu_ids = [gpu_id for share in shares for gpu_id in share.gpu_ids]
    assert len(gpu_ids) == len(set(gpu_ids))
    for node in after.nodes:
        here = [share for share in shares if share.node_id == node.id]
        assert sum(share.cpus for share in here) <= node.cpus
        assert sum(share.memory_mib for share in here) <= node.memory_mib
        assert {gpu_id for share in here for gpu_id in share.gpu_ids} <= {gpu.id for gpu in node.gpus if gpu.healthy}
        assert node.schedulable or not here


@worlds(CONFIGS)
def test_no_virtual_cluster_holds_more_than_its_quota(world: Snapshot, config: CycleConfig) -> None:
    after = apply(world, decide(world, config))
    gpu_type = {gpu.id: gpu.type for node in after.nodes for gpu in node.gpus}
    for vc in after.vcs:
        held = [
            gpu_type[gpu_id]
            for attempt in after.running
            if attempt.vc_id == vc.id
            for share in attempt.allocations
            for gpu_id in share.gpu_ids
        ]
        assert all(held.count(kind) <= vc.quotas.get(kind, 0) for kind in TYPES)


@worlds(CONFIGS)
def test_a_gang_starts_whole_on_nodes_of_its_own_with_one_type_of_gpu(world: Snapshot, config: CycleConfig) -> None:
    gpu_type = {gpu.id: gpu.type for node in world.nodes for gpu in node.gpus}
    for place in decide(world, config).places:
        job = world.waiting_by_id[place.job_id]
        assert [share.rank for share in place.allocations] == list(range(job.nodes))
        assert len({share.node_id for share in place.allocations}) == job.nodes
        assert {len(share.gpu_ids) for share in place.allocations} == {job.gpus}
        assert len({gpu_type[gpu_id] for share in place.allocations for gpu_id in share.gpu_ids}) == min(job.gpus, 1)


@worlds(CONFIGS)
def test_every_waiting_job_is_placed_or_held_exactly_once(world: Snapshot, config: CycleConfig) -> None:
    plan = decide(world, config)
    answered = [place.job_id for place in plan.places] + [hold.job_id for hold in plan.holds]
    assert sorted(answered) == sorted(job.id for job in world.waiting)
    assert len(plan.places) <= config.max_places
    assert all(hold.detail and hold.helps for hold in plan.holds)


@worlds(CONFIGS)
def test_the_positions_of_a_virtual_cluster_count_from_one(world: Snapshot, config: CycleConfig) -> None:
    holds = decide(world, config).holds
    for vc_id in {job.vc_id for job in world.waiting}:
        positions = [hold.position for hold in holds if world.waiting_by_id[hold.job_id].vc_id == vc_id]
        assert positions == list(range(1, len(positions) + 1))


@worlds(CONFIGS, st.randoms(use_true_random=False))
def test_the_same_world_in_any_order_has_the_same_plan(world: Snapshot, config: CycleConfig, random: Random) -> None:
    def shuffled(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(random.sample(items, len(items)))

    twin = replace(
        world,
        nodes=shuffled(tuple(replace(node, gpus=shuffled(node.gpus)) for node in world.nodes)),
        vcs=shuffled(world.vcs),
        waiting=shuffled(world.waiting),
        running=shuffled(world.running),
    )
    assert decide(twin, config) == decide(world, config)


@worlds()
def test_a_second_cycle_without_a_change_places_nobody(world: Snapshot) -> None:
    after = apply(world, decide(world, CycleConfig()))
    again = decide(after, CycleConfig())
    assert again.places == ()
    assert again.holds == decide(world, CycleConfig()).holds


@worlds(CONFIGS)
def test_stored_cycles_replay(world: Snapshot, config: CycleConfig) -> None:
    stored_world, stored_plan = json.dumps(snapshot_to_dict(world)), json.dumps(plan_to_dict(decide(world, config)))
    assert snapshot_from_dict(json.loads(stored_world)) == world
    assert plan_from_dict(json.loads(stored_plan)) == decide(snapshot_from_dict(json.loads(stored_world)), config)


@worlds(CONFIGS)
def test_in_the_end_every_feasible_job_runs(world: Snapshot, config: CycleConfig) -> None:
    healed = tuple(
        replace(node, schedulable=True, gpus=tuple(replace(gpu, healthy=True) for gpu in node.gpus))
        for node in world.nodes
    )
    eager = tuple(replace(job, still_stopping=False, eligible_at=0.0) for job in world.waiting)
    world = replace(world, nodes=healed, waiting=eager, running=())
    # Whether a job can run at all is asked of a pool that it has to itself.
    feasible = {job.id for job in eager if decide(replace(world, waiting=(job,)), CycleConfig()).places}
    started = set()
    for _ in range(len(eager) + 1):
        plan = decide(world, config)
        started |= {place.job_id for place in plan.places}
        world = apply(world, plan)
        world = replace(world, running=world.running[1:])  # one attempt ends
    assert started == feasible
    assert {job.id for job in world.waiting} == {job.id for job in eager} - feasible
