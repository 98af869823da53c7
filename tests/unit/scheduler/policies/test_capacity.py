"""The capacity policy keeps guarantees, lends idle GPUs, and reclaims them late and little at a time."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.engine.usage import ResourceUsage
from scheduler.model import Job, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Plan, apply
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import demand_of
from scheduler.policies.capacity import CapacityQueues
from scheduler.policies.drf import Drf
from scheduler.policies.fair import Fair
from tests.profiles import examples
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

VCS = [make_vc(1, "a", {"A100": 6}), make_vc(2, "b", {"A100": 2}), make_vc(3, "c", {})]


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="capacity", policy_params=params, admission="open")


def jobs(line: int, count: int, **fields: Any) -> list[Job]:
    return [make_job(line * 100 + n, **{"vc_id": line, "cpus": 0} | fields) for n in range(count)]


def runs(vc_id: int, *indexes: range, **fields: Any) -> list[Running]:
    return [
        make_running(make_share(1, some), attempt_id=vc_id * 10 + n, vc_id=vc_id, **fields)
        for n, some in enumerate(indexes)
    ]


def of_vcs(world: Snapshot, plan: Plan) -> dict[int, int]:
    """The GPUs of the placed jobs, by virtual cluster."""
    found: dict[int, int] = {}
    for place in plan.places:
        vc_id = world.waiting_by_id[place.job_id].vc_id
        found[vc_id] = found.get(vc_id, 0) + sum(len(share.gpu_ids) for share in place.allocations)
    return found


def leaf(vc_id: int, name: str, gpus: int, tenant_id: int = 1, borrow: int | None = None) -> VirtualCluster:
    """A virtual cluster with a share; a tenant other than 1 is not in the snapshot, so it is below the root."""
    return VirtualCluster(vc_id, tenant_id, name, {"A100": gpus}, borrowing={} if borrow is None else {"A100": borrow})


# Eight GPUs: a and b share a tenant with half of them.
TREE = [leaf(1, "a", 2), leaf(2, "b", 2), leaf(3, "c", 4, 2)]
LIMITED = [leaf(1, "a", 2, borrow=2), leaf(2, "b", 6)]
SHARES: dict[str, tuple[list[VirtualCluster], list[Running], list[Job], dict[int, int]]] = {
    "by default a guarantee is the part that the quota is of all": (VCS, [], jobs(1, 9) + jobs(2, 9), {1: 6, 2: 2}),
    "what is idle is anybody's": (VCS, [], jobs(2, 9), {2: 8}),
    "even of one without a guarantee": (VCS, [], jobs(3, 3) + jobs(1, 2), {1: 2, 3: 3}),
    "who has no guarantee comes last": (VCS, [], jobs(3, 9) + jobs(1, 7), {1: 7, 3: 1}),
    "what runs counts": (VCS, runs(1, range(6)), jobs(1, 2) + jobs(2, 2), {2: 2}),
    "in a tree the inner queues are compared first": (
        TREE,
        [],
        jobs(1, 9) + jobs(2, 9) + jobs(3, 9),
        {1: 2, 2: 2, 3: 4},
    ),
    "a sibling has what its sibling leaves": (TREE, [], jobs(1, 9) + jobs(3, 9), {1: 4, 3: 4}),
    "one without a share comes last": ([leaf(1, "a", 0), TREE[2]], [], jobs(1, 9) + jobs(3, 6), {1: 2, 3: 6}),
    "no queue gets more than its maximum": (LIMITED, [], jobs(1, 9) + jobs(2, 1), {1: 4, 2: 1}),
}


@pytest.mark.parametrize(("vcs", "running", "waiting", "expected"), SHARES.values(), ids=SHARES)
def test_free_gpus_go_to_the_queue_that_uses_the_least_of_its_guarantee(
    vcs: list[VirtualCluster], running: list[Running], waiting: list[Job], expected: dict[int, int]
) -> None:
    world = make_snapshot(vcs=vcs, running=running, waiting=waiting)
    assert of_vcs(world, decide(world, config())) == expected


def test_in_a_leaf_the_first_is_served_first() -> None:
    world = make_snapshot(vcs=VCS, waiting=[*jobs(1, 8), make_job(7, vc_id=1, priority=1, cpus=0)])
    assert decide(world, config()).holds[0].job_id == 107


def test_the_reason_of_a_job_beyond_the_maximum_says_so() -> None:
    world = make_snapshot(
        vcs=LIMITED, waiting=[*jobs(1, 1, gpus=4), make_job(107, vc_id=1, gpus=5), make_job(108, vc_id=1)]
    )
    holds = {hold.job_id: hold for hold in decide(world, config()).holds}
    assert holds[107].reason is HoldReason.QUOTA_TOO_SMALL
    assert holds[108].reason is HoldReason.QUOTA
    assert "queue a may hold 4 A100 at most and holds" in holds[108].detail


USERS: dict[str, tuple[dict[str, object], list[Job], dict[int, int]]] = {
    "no limit by default": ({}, jobs(1, 9), {1: 8}),
    "two users have half each": (
        {"minimum_user_limit_percent": 25},
        jobs(1, 7, owner_id=1) + jobs(2, 7, vc_id=1, owner_id=2),
        {1: 4, 2: 4},
    ),
    "of many users each has the least part": (
        {"minimum_user_limit_percent": 50},
        jobs(1, 7, owner_id=1) + jobs(2, 1, vc_id=1, owner_id=2) + jobs(3, 1, vc_id=1, owner_id=3),
        {1: 4, 2: 1, 3: 1},
    ),
    "one user has at most a multiple of the guarantee": ({"user_limit_factor": 0.5}, jobs(1, 9), {1: 4}),
}


@pytest.mark.parametrize(("limits", "waiting", "expected"), USERS.values(), ids=USERS)
def test_a_user_has_a_limit_inside_a_leaf(
    limits: dict[str, object], waiting: list[Job], expected: dict[int, int]
) -> None:
    world = make_snapshot(vcs=[leaf(1, "a", 8)], waiting=waiting)
    plan = decide(world, config(**limits))
    owners = [world.waiting_by_id[place.job_id].owner_id for place in plan.places]
    assert {owner: owners.count(owner) for owner in sorted(set(owners))} == expected


# Virtual cluster 1 has a guarantee of six, 2 of two, 3 of none; jobs wait for 600 s less their id.
LATE = {"submitted_at": NOW - 300}
TAKEN: dict[str, tuple[dict[str, Any], list[Running], list[Job], list[int]]] = {
    "not before the grace is over": (
        {"preemption_grace_s": 301},
        runs(2, range(4), range(4, 8)),
        jobs(1, 1, **LATE),
        [],
    ),
    "the newest of the queue that is beyond its guarantee": (
        {},
        runs(2, range(4), range(4, 8)),
        jobs(1, 1, **LATE),
        [1021],
    ),
    "of the VC furthest over its share": (
        {},
        runs(1, range(1)) + runs(2, range(1, 4)) + runs(3, range(4, 8)),
        jobs(1, 1, **LATE),
        [1030],
    ),
    "not from one within its guarantee": ({}, runs(2, range(2)) + runs(1, range(2, 8)), jobs(2, 1, **LATE), []),
    "not for one that would be beyond its own": ({}, runs(2, range(8)), jobs(1, 1, gpus=7, **LATE), []),
    "not for one that is beyond it already": ({}, runs(3, range(5)) + runs(2, range(5, 8)), jobs(2, 1, **LATE), []),
    "no more than the share at a time": (
        {"preemption_share": 0.49},
        runs(2, range(4), range(4, 8)),
        jobs(1, 1, **LATE),
        [],
    ),
    "never, if the share is nothing": ({"preemption_share": 0}, runs(2, range(8)), jobs(1, 1, **LATE), []),
    "a branch within its guarantee gives nothing to another": (
        {"vcs": TREE},
        runs(1, range(4)) + runs(3, range(4, 8)),
        jobs(3, 1, **LATE),
        [],
    ),
    "but to a sibling it does": (
        {"vcs": TREE},
        runs(1, range(2), range(2, 4)) + runs(3, range(4, 8)),
        jobs(2, 1, **LATE),
        [1011],
    ),
}


@pytest.mark.parametrize(("params", "running", "waiting", "expected"), TAKEN.values(), ids=TAKEN)
def test_a_guarantee_is_taken_back_late_and_a_bounded_share_at_a_time(
    params: dict[str, Any], running: list[Running], waiting: list[Job], expected: list[int]
) -> None:
    params = {"vcs": VCS, "preemption_share": 1.0} | params
    world = make_snapshot(vcs=params.pop("vcs"), running=running, waiting=waiting)
    plan = decide(world, config(**params))
    assert [preempt.job_id for preempt in plan.preempts] == expected


def halves(**fields: Any) -> Snapshot:
    """Sixteen GPUs: half are the maximum of a tenant with two leaves, half are the share of a third leaf."""
    vcs = [leaf(1, "a", 4), leaf(2, "b", 4), leaf(3, "c", 8, 2)]
    world = make_snapshot(nodes=[make_node(1), make_node(2)], vcs=vcs, **fields)
    return replace(world, tenants=(Tenant(1, "team", 1.0, borrowing={"A100": 0}),))


@pytest.mark.parametrize("policy", ["capacity", "fair"])
def test_a_leaf_takes_its_guarantee_back_inside_a_queue_at_its_maximum(policy: str) -> None:
    # The queue holds its eight GPUs by jobs of one leaf; eight more are free, or in use by a leaf of the root.
    of_sibling = [run_on(1, range(n, n + 1), n, 1) for n in range(8)]
    of_another = [run_on(2, range(n, n + 1), n, 3) for n in range(8)]
    waiting = jobs(2, 1, gpus=2, submitted_at=NOW - 2000)
    for others in ([], of_another):
        world = halves(running=of_sibling + others, waiting=waiting)
        chosen = CycleConfig(policy=policy, policy_params={"preemption_share": 1.0}, admission="open")
        plan = decide(world, chosen)
        assert [preempt.job_id for preempt in plan.preempts] == [1016, 1017]
        assert check(world, plan, compose(chosen).admission) == ()


def test_a_leaf_beyond_its_guarantee_waits_inside_a_queue_at_its_maximum() -> None:
    running = [run_on(1, range(n, n + 1), n, 1 if n < 4 else 2) for n in range(8)]
    plan = decide(halves(running=running, waiting=jobs(2, 2, **LATE)), config(preemption_share=1.0))
    assert not plan.preempts
    assert {hold.reason for hold in plan.holds} == {HoldReason.QUOTA}


def run_on(node_id: int, indexes: range, number: int, vc_id: int, **fields: Any) -> Running:
    return make_running(make_share(node_id, indexes), attempt_id=vc_id * 10 + number, vc_id=vc_id, **fields)


def test_what_a_sibling_loses_may_let_its_branch_take_from_another() -> None:
    # The branch of 1 and 2 is within its half with the new job only once 2 has lost two; then 3 is beyond its quarter.
    vcs = [*TREE[:2], leaf(3, "c", 2, 2), leaf(4, "d", 2, 3)]
    one = [range(n, n + 1) for n in range(4)]
    running = [run_on(1, one[0], 2, 2), *(run_on(1, one[n], n, 3) for n in (1, 2, 3)), run_on(2, one[0], 0, 3)]
    running += [run_on(2, one[1], 0, 2), run_on(2, one[2], 1, 2), run_on(2, one[3], 3, 2)]
    nodes = [make_node(1, gpus=4), make_node(2, gpus=4)]
    world = make_snapshot(nodes=nodes, vcs=vcs, running=running, waiting=jobs(1, 1, gpus=2, **LATE))
    plan = decide(world, config(preemption_share=1.0))
    assert [preempt.job_id for preempt in plan.preempts] == [1022, 1033]


def test_who_is_asked_in_vain_may_be_asked_again() -> None:
    running = [run_on(node_id, range(2), node_id, 2) for node_id in (1, 2)]
    running += [run_on(node_id, range(2, 4), node_id, 3, preemptible=False) for node_id in (1, 2)]
    waiting = [make_job(1, vc_id=1, gpus=4, cpus=0, **LATE), make_job(2, vc_id=1, cpus=0, **LATE)]
    nodes = [make_node(1, gpus=4), make_node(2, gpus=4)]
    plan = decide(make_snapshot(nodes=nodes, vcs=VCS, running=running, waiting=waiting), config(preemption_share=1.0))
    assert [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts] == [(1022, 2)]


def test_what_stops_already_counts_against_the_share() -> None:
    running = runs(2, *(range(n, n + 1) for n in range(8)))
    world = make_snapshot(vcs=VCS, running=running, waiting=jobs(1, 1, **LATE))
    first = decide(world, config(preemption_share=0.125))
    assert [preempt.job_id for preempt in first.preempts] == [1027]
    after = replace(apply(world, first), waiting=tuple(jobs(1, 2, **LATE)))
    assert decide(after, config(preemption_share=0.125)).preempts == ()


CHANGES = {
    "at the end of its grace": (make_job(1, submitted_at=NOW - 100), {}, NOW + 200),
    "no more after it": (make_job(1, submitted_at=NOW - 300), {}, None),
    "never without preemption": (make_job(1, submitted_at=NOW - 100), {"preemption_share": 0}, None),
}


@pytest.mark.parametrize(("job", "params", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_waiting_job_is_looked_at_again(job: Job, params: Any, expected: float | None) -> None:
    assert CapacityQueues(**params).next_change(job, None, NOW) == expected


@st.composite
def shared_worlds(draw: st.DrawFn) -> Snapshot:
    """Two nodes and jobs of three virtual clusters; some run, put there by a policy without limits."""

    def job(job_id: int) -> Job:
        gpus = draw(st.integers(0, 4))
        return make_job(
            job_id,
            gpus=gpus,
            nodes=draw(st.integers(1, 2)),
            gpu_type=draw(st.sampled_from(["A100", None])) if gpus else None,
            vc_id=draw(st.integers(1, 4)),  # jobs of virtual cluster 4 have none
            owner_id=draw(st.integers(1, 2)),
            preemptible=draw(st.integers(0, 3)) > 0,
            cpus=draw(st.sampled_from([1, 30])),
            submitted_at=NOW - draw(st.integers(0, 1000)),
        )

    world = make_snapshot(
        nodes=[make_node(1, gpus=4), make_node(2, gpus=3), make_node(3, gpus=2, gpu_type="V100")],
        vcs=VCS,
        waiting=[job(n) for n in range(1, 1 + draw(st.integers(0, 5)))],
    )
    world = apply(world, decide(world, CycleConfig(admission="open")))
    return replace(world, now=NOW + 100, waiting=(*world.waiting, *(job(n) for n in range(11, 17))))


@given(shared_worlds(), st.sampled_from(["capacity", "fair"]), st.sampled_from([VCS, TREE]), st.sampled_from([1, 256]))
def test_a_plan_never_breaks_the_law(world: Snapshot, policy: str, vcs: list[VirtualCluster], max_places: int) -> None:
    world = replace(world, vcs=tuple(vcs))
    chosen = replace(config(preemption_share=0.5), policy=policy, max_places=max_places)
    plan = decide(world, chosen)
    assert check(world, plan, compose(chosen).admission) == ()
    answered = [place.job_id for place in plan.places] + [hold.job_id for hold in plan.holds]
    assert sorted(answered) == sorted(job.id for job in world.waiting)
    freed = sum(world.running_by_job[preempt.job_id].gpus for preempt in plan.preempts)
    assert freed <= 4


@settings(max_examples=examples(60))
@given(shared_worlds(), st.sampled_from(["capacity", "fair"]))
def test_nothing_that_fits_is_left_idle(world: Snapshot, policy: str) -> None:
    plan = decide(world, replace(config(), policy=policy))
    after = apply(world, plan)
    greedy = decide(replace(after, running=after.running), CycleConfig(admission="open"))
    assert greedy.places == ()


POLICIES: dict[str, CapacityQueues | Fair | Drf] = {
    "capacity": CapacityQueues(),
    "fair": Fair(),
    "fair with minimums": Fair(nominal_minimum=True),
    "drf by virtual cluster": Drf(over="vc"),
    "drf by user": Drf(over="user"),
}


@given(shared_worlds(), st.sampled_from([VCS, TREE]), st.data())
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_who_is_of_another_family_stands_as_it_stood_when_one_goes(
    policy: CapacityQueues | Fair | Drf, world: Snapshot, vcs: list[VirtualCluster], data: st.DataObject
) -> None:
    world = replace(world, vcs=tuple(vcs))
    ledger = policy.ledger(world, Capacity(world), ResourceUsage(world))
    job = data.draw(st.sampled_from(world.waiting))
    demand = demand_of(job.request, job.request.choices_among(("A100",))[0])

    def standing() -> dict[int, float]:
        groups = [group for group in ledger.runs if group != ledger.group_of(job)]
        return {group: ledger.excess(group, job, demand, ledger.newest(group)[0]) for group in groups}

    for goes in [run for runs in ledger.runs.values() for run in runs]:
        before, keys = standing(), {group: ledger.key(group) for group in ledger.runs}
        family = ledger.family(ledger.group_of(goes.job))
        ledger.charge(goes.job, ledger.held(goes), -1)
        if family != ledger.family(ledger.group_of(job)):
            after = standing()
            assert {group: before[group] for group in before if ledger.family(group) != family} == {
                group: after[group] for group in after if ledger.family(group) != family
            }
        assert ledger.key(ledger.group_of(goes.job)) <= keys[ledger.group_of(goes.job)]
        ledger.charge(goes.job, ledger.held(goes), 1)
        assert {group: ledger.key(group) for group in ledger.runs} == keys
