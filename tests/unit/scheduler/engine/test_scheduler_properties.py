"""Invariants of every world, policy and placement: never an unlawful plan, and in the end every feasible job runs.

Each policy is tried on its defaults and on what `PARAMS` draws for it, with any placement. A new plug-in is tried
without a line here.
"""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.admission.hived.measured import measured
from scheduler.authoring import RoundPolicy
from scheduler.engine.cycle import CycleConfig, compose, decide, decide_on
from scheduler.engine.policy import POLICIES
from scheduler.model import (
    SLOTS,
    AllocationView,
    Job,
    Node,
    Organisation,
    Running,
    Snapshot,
    Tenant,
    VirtualCluster,
)
from scheduler.model.codec import from_json, to_json
from scheduler.model.invariants import awaits_preemption, check
from scheduler.model.lifecycle import RuntimeNeed
from scheduler.model.plan import Plan, apply, release
from scheduler.model.request import ElasticRange, Over, Request
from scheduler.model.sharing import may_share
from scheduler.placement import PLACEMENTS
from scheduler.sim import engine as sim
from scheduler.sim.options import Options
from scheduler.sim.start import start_of
from tests.profiles import IS_LONG, examples
from tests.unit.scheduler.factories import NOW, asking, make_job, make_node, make_snapshot, make_vc

pytestmark = pytest.mark.timeout(3600 if IS_LONG else 120)

TYPES = ["A100", "V100"]
GIB = 1024  # in MiB
NAMES = [f"node{number}" for number in range(1, 6)]
T = TypeVar("T")
# A node that has said nothing, and those with processes, with containers, and with an image for jobs that name none.
FORMS = [
    (),
    (RuntimeNeed.PLAIN,),
    (RuntimeNeed.IMAGE,),
    (RuntimeNeed.IMAGE, RuntimeNeed.IMAGE_VOLUMES),
    (RuntimeNeed.PLAIN, RuntimeNeed.IMAGE, RuntimeNeed.CONTAINER),
]
LABELS = st.sampled_from([{}, {"net": "ib"}, {"net": "eth"}])


# A strategy is made once: to make and validate one anew for each draw takes longer than the draw.
@lru_cache(maxsize=None, typed=True)
def one_of(*values: Any) -> st.SearchStrategy[Any]:
    """One of these values."""
    return st.sampled_from(values)


@cache
@st.composite
def node_of(draw: st.DrawFn, node_id: int) -> Node:
    node = make_node(
        node_id,
        gpus=draw(st.integers(0, 4)),
        gpu_type=draw(one_of(*TYPES)),
        unhealthy=draw(st.sets(st.integers(0, 3), max_size=1)),
        rack=draw(one_of("r1", "r2")),
        cpus=draw(st.integers(1, 8)),
        memory_mib=draw(st.integers(1, 8)) * GIB,
        schedulable=draw(st.integers(0, 5)) > 0,
        runtimes=draw(one_of(*FORMS)),
        maintenance_starts_at=draw(one_of(None, None, NOW, NOW + 500.0, NOW + 6000.0)),
        drains=draw(st.booleans()),
        maintenance_ends_at=draw(one_of(None, None, NOW + 100.0, NOW + 7000.0)),
        labels=draw(LABELS),
    )
    if draw(st.booleans()):
        return node
    mixed = draw(st.lists(one_of(*TYPES), min_size=len(node.gpus), max_size=len(node.gpus)))
    return replace(node, gpus=tuple(replace(gpu, type=kind) for gpu, kind in zip(node.gpus, mixed, strict=True)))


@cache
@st.composite
def job_of(draw: st.DrawFn, job_id: int) -> Job:
    split = draw(st.integers(0, 2)) == 0
    bare = split and draw(st.booleans())  # GPUs and nothing else, which may be cut last
    expected_s = draw(one_of(None, 50.0, 500.0, 5000.0))
    ran_s = draw(one_of(0.0, 0.0, 40.0, 4000.0))
    job = make_job(
        job_id,
        gpus=draw(st.integers(1, 8) if split else st.integers(0, 4)),
        nodes=1 if split else draw(st.integers(1, 3)),
        split=split,
        gpu_type=draw(one_of(None, *TYPES)),
        vc_id=draw(st.integers(1, 3)),
        cpus=0 if bare else draw(st.integers(0, 4)),
        memory_mib=0 if bare else draw(st.integers(0, 4)) * GIB,
        time_limit_s=draw(one_of(None, 60.0, 6000.0)),
        expected_s=expected_s,
        remaining_s=expected_s and max(0.0, expected_s - ran_s),
        ran_s=ran_s,
        attained_gpu_s=ran_s * 4,
        checkpoints=draw(st.booleans()),
        preemptible=draw(st.integers(0, 4)) > 0,
        owner_id=draw(st.integers(1, 3)),
        priority=draw(st.integers(0, 1)),
        submitted_at=NOW - draw(st.integers(0, 100)),
        eligible_at=NOW + draw(one_of(-1, -1, -1, 5)),
        avoid_nodes=tuple(sorted(draw(st.sets(st.integers(1, 5), max_size=2)))),
        still_stopping=draw(st.integers(0, 9)) == 0,
        bumped=draw(one_of(0, 0, 0, 1, 2)),
        own_rank=draw(one_of(None, None, 1.0, 2.0)),
        packs=draw(st.booleans()),
        gpu_memory_mib=draw(one_of(10 * GIB, 30 * GIB, None)),
        form=draw(one_of(*RuntimeNeed)),
    )
    return replace(job, request=draw(narrowed(job.request)))


@st.composite
def narrowed(draw: st.DrawFn, request: Request) -> Request:
    """The request on some nodes only, and with another size for GPUs of another type."""
    if not draw(st.integers(0, 2)):
        left = draw(st.sets(one_of(*NAMES), min_size=1))
        named = sorted(left) if draw(st.booleans()) else []
        excluded = draw(st.sets(one_of(*NAMES))) - (left if named else set())
        request = replace(request, nodes_in=tuple(named), exclude_nodes=tuple(sorted(excluded)))
    if not draw(st.integers(0, 3)):
        request = replace(request, node_labels=(("net", "ib"),))
    (choice,) = request.choices
    if choice.gpu_type is None or not draw(st.booleans()):
        return request
    (other,) = {*TYPES} - {choice.gpu_type}
    second = replace(choice, gpu_type=other, gpus=draw(st.integers(1, 4)), cpus=draw(st.integers(0, 4)))
    return replace(request, choices=(choice, second))


@st.composite
def with_pairs(draw: st.DrawFn, world: Snapshot) -> Snapshot:
    """The world, in which some of those who run share all their GPUs with a job like them."""
    pairs = list[Running]()
    for run in world.running:
        job = asking(run.job, id=100 + run.job.id, cpus=0, memory_mib=0)
        held = tuple(replace(share, cpus=0, memory_mib=0) for share in run.allocations)
        gpus = [world.gpu_by_id[gpu_id] for share in run.allocations for gpu_id in share.gpu_ids]
        if gpus and all(may_share(gpu, (run.job, job)) for gpu in gpus) and draw(st.integers(0, 3)):
            rates = draw(one_of(None, 0.4, 0.9))
            pairs.append(replace(run, attempt_id=-job.id, job=job, allocations=held, rate=rates))
    return replace(world, running=(*world.running, *pairs))


SHARES = st.dictionaries(one_of(*TYPES), st.integers(0, 12))
LIMITS = st.just({}) | st.dictionaries(one_of(*TYPES), st.integers(0, 4))


@cache
def vc_of(vc_id: int) -> st.SearchStrategy[VirtualCluster]:
    return st.builds(
        lambda quotas, borrowing, lending: replace(
            make_vc(vc_id, f"vc{vc_id}", quotas), tenant_id=vc_id, borrowing=borrowing, lending=lending
        ),
        SHARES,
        LIMITS,
        LIMITS,
    )


@cache
def tenant_of(tenant_id: int) -> st.SearchStrategy[Tenant]:
    return st.builds(
        Tenant,
        st.just(tenant_id),
        st.just(f"tenant{tenant_id}"),
        st.just(1.0),
        one_of(None, 1, 1, 2),
        st.just({}) | SHARES,
        LIMITS,
        LIMITS,
    )


@st.composite
def with_cells(draw: st.DrawFn, world: Snapshot) -> Snapshot:
    """The first two virtual clusters share the cells of the nodes, whole ones or their parts, and leave some."""
    physical = measured(world.nodes)
    numbers = Counter(top for top, _ in physical.physical)
    shares: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for top in sorted(numbers):
        chain, left = physical.chains[top], numbers[top]
        for share in shares:
            level = draw(st.integers(max(0, chain.top - 1), chain.top))
            cells = draw(st.integers(0, left))
            left -= cells
            if cells:
                share[chain.path(level)] = cells * chain.sizes[chain.top] // chain.sizes[level]
    return replace(world, vcs=tuple(replace(vc, cells=share) for vc, share in zip(world.vcs, shares, strict=True)))


@cache
@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A small pool in which some jobs run already for a while, put there by a cycle."""
    nodes = [draw(node_of(node_id)) for node_id in range(1, draw(st.integers(0, 5)) + 1)]
    vcs = [draw(vc_of(vc_id)) for vc_id in (1, 2)]  # jobs of virtual cluster 3 have none
    early = [draw(job_of(job_id)) for job_id in range(1, draw(st.integers(0, 4)) + 1)]
    late = [draw(job_of(job_id)) for job_id in range(11, 11 + draw(st.integers(0, 8)))]
    world = replace(
        make_snapshot(nodes=nodes, waiting=early, vcs=vcs),
        tenants=tuple(draw(tenant_of(tenant_id)) for tenant_id in (1, 2)),
        organisations=(Organisation(1, "institute"), Organisation(2, "group", 1.0, 1, {}, draw(LIMITS), draw(LIMITS))),
    )
    world = draw(with_cells(world))
    world = apply(world, decide(world, CycleConfig(admission=draw(one_of("hived", "quota", "tree")))))
    since = NOW - draw(one_of(0, 30, 300, 3000))
    running = tuple(replace(run, placed_at=since) for run in world.running)
    return draw(with_pairs(replace(world, waiting=(*world.waiting, *late), running=running)))


# What a policy is tried with, but for its defaults.
PARAMS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "backfill": {
        "mode": st.sampled_from(["easy", "conservative"]),
        "depth": st.integers(1, 4),
        "optimistic": st.booleans(),
        "shortest_first": st.booleans(),
    },
    "fifo": {"skip_blocked": st.booleans(), "patience_s": st.sampled_from([None, 0, 50, 1000])},
    "las": {"quantum_s": st.sampled_from([1, 60])},
    "priority": {"preemptive": st.booleans(), "min_run_s": st.sampled_from([0, 60])},
    "srsf": {"unknown_s": st.sampled_from([None, 0, 400]), "min_run_s": st.sampled_from([0, 60])},
    "srtf": {"unknown_s": st.sampled_from([None, 0, 400]), "min_run_s": st.sampled_from([0, 60])},
    "tiresias": {
        "limits_gpu_s": st.sampled_from([[], [100], [20, 200, 2000]]),
        "promote_knob": st.sampled_from([0, 0.5]),
        "tie": st.sampled_from(["entered", "submitted"]),
        "variant": st.sampled_from(["las", "gittins", "gittins_released"]),
        "service_gpu_s": st.just([50, 500, 5000]),
        "delta_gpu_s": st.sampled_from([10, 300]),
    },
}


ADMISSIONS = st.just({"admission": "quota"}) | st.sampled_from([0, 60]).map(
    lambda min_run_s: {"admission": "tree", "admission_params": {"min_run_s": min_run_s}}
)


WITH_CELLS = ADMISSIONS | st.just({"admission": "hived"})


@cache
@st.composite
def configs_of(draw: st.DrawFn, policy: str) -> CycleConfig:
    return CycleConfig(
        policy=policy,
        policy_params=draw(st.just({}) | st.fixed_dictionaries(PARAMS.get(policy, {}))),
        placement=draw(one_of(*PLACEMENTS.names)),
        max_places=draw(one_of(1, 3, 256)),
        # Cells choose the GPUs, as some policies do.
        **draw(ADMISSIONS if getattr(POLICIES.make(policy, {}), "chooses_gpus", False) else WITH_CELLS),
    )


def worlds(*others: st.SearchStrategy[Any], count: int = 12) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a test with every policy on `count` drawn snapshots, or as many as the profile makes of them."""

    def tried(test: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize("policy", POLICIES.names)
        @settings(max_examples=examples(count))
        @given(data=st.data())
        def with_policy(policy: str, data: st.DataObject) -> None:
            world, config = data.draw(snapshots()), data.draw(configs_of(policy))
            test(world, config, *(data.draw(other) for other in others))

        with_policy.__name__ = test.__name__
        found: Callable[..., None] = with_policy
        return found

    return tried


def carried_out(world: Snapshot, plan: Plan, config: CycleConfig) -> Snapshot:
    """The world after a plan."""
    return apply(world, plan, awaiting=awaits_preemption(world, plan, compose(config).admission))


def job_of_place(world: Snapshot, job_id: int) -> Job:
    return world.waiting_by_id.get(job_id) or world.running_by_job[job_id].job


def with_sizes(world: Snapshot, random: Random) -> Snapshot:
    """The world, in which half of the jobs that share no GPUs may be resized."""

    def resizable(job: Job) -> Job:
        request = job.request
        if not request.needs_gpus or request.shares_gpu or random.random() < 0.5:
            return job
        over = Over.NODE if request.divisible else random.choice(list(Over))
        asked = [choice.gpus * (request.nodes if over is Over.GANG else 1) for choice in request.choices]
        elastic = ElasticRange(random.randint(1, min(asked)), max(asked) + random.randint(0, 4), over)
        request = replace(request, elastic=elastic)
        return replace(job, request=request, speeds=tuple(n**0.9 for n in range(1, request.max_gpus + 1)))

    running = tuple(replace(run, job=resizable(run.job)) for run in world.running)
    return replace(world, waiting=tuple(map(resizable, world.waiting)), running=running)


@worlds(st.randoms(use_true_random=False), count=36)
def test_a_plan_keeps_every_promise(world: Snapshot, config: CycleConfig, random: Random) -> None:
    world = with_sizes(world, random)
    plan = decide(world, config)
    assert check(world, plan, compose(config).admission) == ()
    # The law is checked above by the law's own code; here its promises are counted afresh.
    preempted = {preempt.job_id for preempt in plan.preempts}
    held = [(run.vc_id, share) for run in world.running if run.job.id not in preempted for share in run.allocations]
    held += [(job_of_place(world, place.job_id).vc_id, share) for place in plan.places for share in place.allocations]
    no_gpu_is_held_twice_and_no_node_gives_more_than_it_has(world, [share for _, share in held])
    if config.admission == "quota":
        no_virtual_cluster_holds_more_than_its_quota(world, held)
    a_gang_starts_whole_on_allowed_nodes_of_its_own_in_one_choice(world, plan)
    in_rounds = config.policy == "themis" or isinstance(POLICIES.make(config.policy, config.policy_params), RoundPolicy)
    only_preemptible_jobs_stop_and_for_a_job_that_starts(world, plan, leases=in_rounds)
    # A round is handed out whole: the limit would cut it in half.
    limit = len(world.waiting) if in_rounds else config.max_places
    every_waiting_job_is_placed_or_held_exactly_once(world, plan, max_places=limit)


class EnoughError(Exception):
    """The test has seen enough."""


@worlds(count=6)
def test_a_simulation_that_goes_on_from_a_snapshot_first_decides_as_the_pool_does(
    world: Snapshot, config: CycleConfig
) -> None:
    config = replace(config, max_places=1_000)
    there = {vc.id for vc in world.vcs}
    world = replace(
        world,
        # An attempt that stops holds its job back by itself: no snapshot of a pool has the flag.
        waiting=tuple(replace(job, still_stopping=False) for job in world.waiting if job.vc_id in there),
        running=tuple(run for run in world.running if run.vc_id in there),
    )
    assume(world.waiting or world.running)
    start, plans = start_of(world, config, "a cycle"), list[Plan]()

    def decided(*told: Any, **settings: Any) -> Plan:
        if len(plans) == 20:  # some policies let jobs without checkpoints take turns for ever
            raise EnoughError
        plans.append(decide_on(*told, **settings))
        return plans[-1]

    with patch.object(sim, "decide_on", decided), suppress(EnoughError):
        sim.simulate(start.trace, start.cluster, Options.of(config, config.policy), start=start)
    assert plans[0] == replace(decide(world, config), holds=(), wake_at=plans[0].wake_at)


def no_gpu_is_held_twice_and_no_node_gives_more_than_it_has(world: Snapshot, shares: list[AllocationView]) -> None:
    slots = Counter[int]()
    for share in shares:
        slots.update(dict.fromkeys(share.gpu_ids, share.slots))
    assert all(taken <= SLOTS for taken in slots.values())
    for node in world.nodes:
        here = [share for share in shares if share.node_id == node.id]
        assert sum(share.cpus for share in here) <= node.cpus
        assert sum(share.memory_mib for share in here) <= node.memory_mib
        assert {gpu_id for share in here for gpu_id in share.gpu_ids} <= {gpu.id for gpu in node.gpus if gpu.healthy}
        assert node.schedulable or not here


def no_virtual_cluster_holds_more_than_its_quota(world: Snapshot, held: list[tuple[int, AllocationView]]) -> None:
    gpu_type = {gpu.id: gpu.type for node in world.nodes for gpu in node.gpus}
    for vc in world.vcs:
        gpu_ids = {gpu_id for vc_id, share in held if vc_id == vc.id for gpu_id in share.gpu_ids}
        types = [gpu_type[gpu_id] for gpu_id in gpu_ids]
        # What runs may have begun under another admission.
        most = {kind: max(vc.quotas.get(kind, 0), world.held_by_vc.get((vc.id, kind), 0)) for kind in TYPES}
        assert all(types.count(kind) <= most[kind] for kind in TYPES)


def a_gang_starts_whole_on_allowed_nodes_of_its_own_in_one_choice(world: Snapshot, plan: Plan) -> None:
    gpu_type = {gpu.id: gpu.type for node in world.nodes for gpu in node.gpus}
    for place in plan.places:
        job = job_of_place(world, place.job_id)
        assert sorted(share.rank for share in place.allocations) == list(range(len(place.allocations)))
        assert len({share.node_id for share in place.allocations}) == len(place.allocations)
        types = {gpu_type[gpu_id] for share in place.allocations for gpu_id in share.gpu_ids}
        assert len(types) == min(job.request.first.gpus, 1)
        choice = job.request.choice_of(next(iter(types), None))
        assert choice is not None
        gpus = [len(share.gpu_ids) for share in place.allocations]
        assert sum(gpus) in job.request.sizes(choice)
        if not job.request.divisible:
            assert len(set(gpus)) == 1
            assert job.request.over_gang or len(gpus) == job.request.nodes
        nodes = [world.node_by_id[share.node_id] for share in place.allocations]
        names = {node.name for node in nodes}
        assert names <= set(job.request.nodes_in or names) - set(job.request.exclude_nodes)
        assert all(set(job.request.node_labels) <= set(node.labels.items()) for node in nodes)


def only_preemptible_jobs_stop_and_for_a_job_that_starts(world: Snapshot, plan: Plan, *, leases: bool) -> None:
    placed = {place.job_id for place in plan.places}
    for preempt in plan.preempts:
        assert world.running_by_job[preempt.job_id].job.preemptible
        assert preempt.for_job_id in placed or (leases and preempt.for_job_id is None)
        assert preempt.detail


def every_waiting_job_is_placed_or_held_exactly_once(world: Snapshot, plan: Plan, *, max_places: int) -> None:
    answered = [place.job_id for place in plan.places if place.job_id in world.waiting_by_id]
    answered += [hold.job_id for hold in plan.holds]
    assert sorted(answered) == sorted(job.id for job in world.waiting)
    assert len(plan.places) <= max_places
    assert all(hold.detail and hold.helps for hold in plan.holds)
    for vc_id in {job.vc_id for job in world.waiting}:
        positions = [hold.position for hold in plan.holds if world.waiting_by_id[hold.job_id].vc_id == vc_id]
        assert positions == list(range(1, len(positions) + 1))


@worlds(st.randoms(use_true_random=False))
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
def test_a_second_cycle_without_a_change_preempts_no_other_job(world: Snapshot, config: CycleConfig) -> None:
    config = replace(config, max_places=256)
    after = carried_out(world, decide(world, config), config)
    again = decide(after, config)
    assert again.preempts == ()
    assert again.places == ()


@worlds(count=6)
def test_stored_cycles_replay(world: Snapshot, config: CycleConfig) -> None:
    stored_world, stored_plan = json.dumps(to_json(world)), json.dumps(to_json(decide(world, config)))
    assert from_json(Snapshot, json.loads(stored_world)) == world
    assert from_json(Plan, json.loads(stored_plan)) == decide(from_json(Snapshot, json.loads(stored_world)), config)


@worlds()
def test_in_the_end_every_feasible_job_runs(world: Snapshot, config: CycleConfig) -> None:
    healed = tuple(
        replace(
            node,
            schedulable=True,
            maintenance_starts_at=None,
            maintenance_ends_at=None,
            gpus=tuple(replace(gpu, healthy=True) for gpu in node.gpus),
        )
        for node in world.nodes
    )
    eager = tuple(replace(job, still_stopping=False, eligible_at=0.0) for job in world.waiting)
    world = replace(world, nodes=healed, waiting=eager, running=())
    # Whether a job can run at all is asked of a pool that it has to itself.
    alone = replace(config, policy="fifo", policy_params={})
    feasible = {job.id for job in eager if decide(replace(world, waiting=(job,)), alone).places}
    ended: set[int] = set()
    for _ in range(4 * len(eager) + 1):
        plan = decide(world, config)
        world = release(carried_out(world, plan, config), [preempt.job_id for preempt in plan.preempts])
        if world.running:  # the attempt that has run for longest ends
            first: Running = min(world.running, key=lambda run: (run.placed_at, run.job.id))
            ended.add(first.job.id)
            world = replace(world, running=tuple(run for run in world.running if run is not first))
        world = replace(world, now=world.now + 400)
    # Parts of nodes promise no nodes of their own to the ranks of a gang: what others hold can make them lie apart.
    assert ended == feasible or (config.admission == "hived" and ended > feasible)
    assert {job.id for job in world.waiting} == {job.id for job in eager} - ended
