"""The admission by the tree of tenants: what lends, what borrows, and what comes back when it is needed."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission.ledger import Ledger
from scheduler.admission.tree.admission import SHARE_EXCEEDED
from scheduler.admission.tree.arithmetic import Level, Loan, Tree, Use, loans
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Organisation, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.invariants import awaits_preemption, check
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import Place, Plan, apply, release
from tests.profiles import examples
from tests.unit.scheduler.driving import carried_out
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot

A100 = "A100"
OPPORTUNISTIC = {"job_class": JobClass.OPPORTUNISTIC}


def vc(vc_id: int, gpus: int, tenant_id: int = 1, *, borrow: int | None = None, lend: int | None = None) -> Any:
    return VirtualCluster(vc_id, tenant_id, f"vc{vc_id}", {A100: gpus}, borrowing=_limit(borrow), lending=_limit(lend))


def _limit(gpus: int | None) -> dict[str, int]:
    return {} if gpus is None else {A100: gpus}


def pool(*vcs: VirtualCluster, nodes: int = 1, gpus: int = 8, **fields: Any) -> Snapshot:
    """Virtual clusters of tenants 1 and 2 in one organisation, with what runs and waits in `fields`."""
    world = make_snapshot(vcs=vcs, nodes=[make_node(number, gpus=gpus) for number in range(1, nodes + 1)])
    tenants = (Tenant(1, "lab", 1.0, 1), Tenant(2, "other", 1.0, 1))
    return replace(world, **{"tenants": tenants, "organisations": (Organisation(1, "institute"),), **fields})


def run(
    attempt_id: int, indexes: range, vc_id: int, *, node: int = 1, age_s: float = 10_000.0, **fields: Any
) -> Running:
    return replace(
        make_running(make_share(node, indexes), attempt_id=attempt_id, vc_id=vc_id, **fields), placed_at=NOW - age_s
    )


def config(policy: str = "fifo", *, min_run_s: float = 300, **params: Any) -> CycleConfig:
    return CycleConfig(policy=policy, policy_params=params, admission="tree", admission_params={"min_run_s": min_run_s})


def placed(plan: Plan) -> list[int]:
    return sorted(place.job_id for place in plan.places)


def preempted(plan: Plan) -> list[int]:
    return sorted(preempt.job_id for preempt in plan.preempts)


LEAF = (Level.VIRTUAL_CLUSTER, 1)
# The virtual clusters, what each of them uses, and what is available to the first one.
AVAILABLE: dict[str, tuple[list[VirtualCluster], list[int], int]] = {
    "its own and all that others do not use": ([vc(1, 4), vc(2, 4)], [0, 0], 8),
    "not what others use": ([vc(1, 4), vc(2, 4)], [1, 3], 4),
    "nothing when others have borrowed its share": ([vc(1, 4), vc(2, 4)], [0, 8], 0),
    "up to its borrowing limit": ([vc(1, 4, borrow=1), vc(2, 4)], [2, 0], 3),
    "not beyond the lending limit of another": ([vc(1, 4), vc(2, 4, lend=1)], [0, 0], 5),
    "what another does not lend stays its own": ([vc(1, 4), vc(2, 4, lend=1)], [5, 0], 0),
    "of what another lends, what is left": ([vc(1, 4), vc(2, 4, lend=2)], [0, 3], 5),
    "across tenants": ([vc(1, 4), vc(2, 4, 2)], [0, 1], 7),
}


@pytest.mark.parametrize(("vcs", "used", "expected"), AVAILABLE.values(), ids=AVAILABLE)
def test_what_is_available_follows_the_limits(vcs: list[VirtualCluster], used: list[int], expected: int) -> None:
    use = Use(Tree(pool(*vcs)))
    for vc_id, gpus in enumerate(used, start=1):
        use.add((Level.VIRTUAL_CLUSTER, vc_id), A100, gpus)
    assert use.available(LEAF, A100) == expected


def test_limits_of_tenants_and_organisations_bind_what_is_below() -> None:
    world = pool(vc(1, 2), vc(2, 4, 2), organisations=(Organisation(1, "institute", quotas={A100: 3}),))
    free = Tree(world)
    bound = Tree(replace(world, tenants=(replace(world.tenants[0], borrowing={A100: 1}), world.tenants[1])))
    kept = Tree(replace(world, tenants=(world.tenants[0], replace(world.tenants[1], lending={A100: 1}))))
    assert [tree.potential(LEAF, A100) for tree in (free, bound, kept)] == [9, 3, 6]


def test_tenants_without_a_common_organisation_lend_each_other_nothing() -> None:
    world = pool(vc(1, 4), vc(2, 4, 2), organisations=())
    assert Tree(world).potential(LEAF, A100) == 4


def test_a_guaranteed_job_borrows_and_an_opportunistic_one_takes_what_is_idle() -> None:
    jobs = (make_job(1, gpus=6), make_job(2, gpus=2, vc_id=3, **OPPORTUNISTIC), make_job(3, gpus=5))
    plan = decide(pool(vc(1, 4), vc(2, 4, borrow=0), waiting=jobs), config())
    assert placed(plan) == [1, 2]
    (hold,) = plan.holds
    assert hold.reason is HoldReason.QUOTA
    assert hold.detail == "vc1 uses 6 of its 4 A100, and 2 more are available to it in institute; this job needs 5"
    assert "3 A100 of guaranteed jobs in institute become free" in hold.helps


def test_a_job_larger_than_all_it_may_borrow_is_told_so() -> None:
    plan = decide(pool(vc(1, 4, borrow=2), vc(2, 4), waiting=(make_job(1, gpus=7),)), config())
    assert plan.holds[0].reason is HoldReason.QUOTA_TOO_SMALL
    assert plan.holds[0].detail == "vc1 may have 6 A100 at most with what it may borrow; this job needs 7"


def test_a_plan_that_exceeds_the_tree_is_refused() -> None:
    world = pool(vc(1, 4, borrow=2), vc(2, 4), waiting=(make_job(1, gpus=7),))
    plan = Plan((Place(1, (make_share(1, range(7)),)),), ())
    (found,) = check(world, plan, compose(config()).admission)
    assert (found.code, found.message) == (SHARE_EXCEEDED, "vc1 would hold 7 A100, more than it may")


# What runs, by (GPUs, age in seconds) in virtual cluster 2 with a share of 4 of 8 GPUs; the GPUs that virtual cluster 1
# then needs; the jobs that stop: 1001, 1002 and so on in that order.
RECLAIMED: dict[str, tuple[list[tuple[int, float]], int, list[int]]] = {
    "one suffices": ([(4, 900), (3, 900), (1, 900)], 1, [1003]),
    "the youngest of equals": ([(4, 900), (1, 900), (1, 600), (1, 800), (1, 950)], 1, [1003]),
    "one of three, not three of one": ([(2, 900), (1, 400), (1, 500), (1, 600), (3, 900)], 3, [1005]),
    "two of two": ([(4, 900), (2, 900), (1, 800), (1, 700)], 4, [1001]),
    "nothing before its minimum run time": ([(4, 900), (4, 200)], 4, [1001]),
    "nothing at all while all are young": ([(4, 100), (4, 200)], 4, []),
}


@pytest.mark.parametrize(("running", "needed", "expected"), RECLAIMED.values(), ids=RECLAIMED)
@pytest.mark.parametrize("policy", ["fifo", "srtf", "drf", "capacity", "fair", "tetris"])
def test_the_fewest_and_the_youngest_are_stopped(
    policy: str, running: list[tuple[int, float]], needed: int, expected: list[int]
) -> None:
    runs, start = [], 0
    for number, (gpus, age_s) in enumerate(running, start=1):
        runs.append(run(number, range(start, start + gpus), 2, age_s=age_s))
        start += gpus
    world = pool(vc(1, 4), vc(2, 4), running=tuple(runs), waiting=(make_job(1, gpus=needed),))
    plan = decide(world, config(policy))
    assert preempted(plan) == expected
    assert placed(plan) == ([1] if expected else [])
    if not expected:
        assert plan.wake_at is not None
        assert plan.wake_at <= NOW + 200


def test_a_job_is_stopped_so_that_its_grace_ends_with_its_minimum_time() -> None:
    lent = run(1, range(8), 2, age_s=250, grace_s=60.0)
    world = pool(vc(1, 4), vc(2, 4), running=(lent,), waiting=(make_job(1),))
    assert preempted(decide(world, config())) == [1001]
    assert preempted(decide(replace(world, now=NOW - 11), config())) == []


def test_what_is_not_lent_is_not_reclaimed() -> None:
    inside = run(1, range(4), 2)
    beyond = make_job(1, gpus=5)
    assert preempted(decide(pool(vc(1, 4), vc(2, 4), running=(inside,), waiting=(beyond,)), config())) == []


def test_a_tenant_reclaims_what_another_tenant_borrows_of_its_own_share() -> None:
    tenants = (Tenant(1, "lab", 1.0, 1, {A100: 4}), Tenant(2, "other", 1.0, 1))
    world = pool(vc(1, 0), vc(2, 4, 2), tenants=tenants, running=(run(1, range(6), 2), run(2, range(6, 8), 2)))
    plan = decide(replace(world, waiting=(make_job(1, gpus=2),)), config())
    assert (preempted(plan), placed(plan)) == ([1002], [1])


def test_opportunistic_jobs_go_at_once_and_before_guaranteed_ones() -> None:
    runs = (run(1, range(6), 2), run(2, range(6, 8), 2, age_s=1, **OPPORTUNISTIC))
    world = pool(vc(1, 4), vc(2, 4), running=runs, waiting=(make_job(1, gpus=2),))
    assert preempted(decide(world, config())) == [1002]


def test_a_policy_does_not_preempt_for_what_would_be_on_loan() -> None:
    own = run(1, range(8), 1, remaining_s=1e6, expected_s=1e6)
    short = make_job(1, vc_id=2, gpus=8, remaining_s=1.0, expected_s=1.0)
    world = pool(vc(1, 8), vc(2, 0), running=(own,), waiting=(short,))
    assert preempted(decide(world, config("srtf"))) == []


def test_while_a_job_waits_for_its_share_nothing_more_of_it_is_lent() -> None:
    """The two GPUs that are free go to no borrower: the waiting job needs them with those that come back."""
    young = run(1, range(6), 2, age_s=100)
    jobs = (make_job(1, vc_id=2, gpus=2), make_job(2, gpus=4))
    world = pool(vc(1, 4), vc(2, 4), running=(young,), waiting=jobs)
    assert placed(decide(world, config(skip_blocked=True))) == []
    assert placed(decide(replace(world, waiting=jobs[:1]), config())) == [1]


def test_a_job_beyond_its_borrowing_limit_calls_nothing_back() -> None:
    """It fits the share of its tenant, but its virtual cluster may have no more, whatever comes back."""
    tenants = (Tenant(1, "lab", 1.0, 1), Tenant(2, "other", 1.0, 1, {A100: 4}))
    runs = (run(1, range(4), 1), run(2, range(4, 5), 2), run(3, range(5, 6), 1, age_s=1))
    jobs = (make_job(1, gpus=2), make_job(2, vc_id=2))
    for limit, expected in ((1, [1]), (2, [2])):
        world = pool(vc(1, 4), vc(2, 0, 2, borrow=limit), tenants=tenants, running=runs, waiting=jobs)
        assert placed(decide(world, config(skip_blocked=True))) == expected


def test_a_job_that_no_node_can_hold_calls_nothing_back() -> None:
    young = (run(1, range(4), 2, age_s=1), run(2, range(1), 2, node=2, age_s=1))
    for gpus, expected in ((4, []), (5, [2])):
        jobs = (make_job(1, gpus=gpus), make_job(2, vc_id=2, gpus=3))
        world = pool(vc(1, 5), vc(2, 3), nodes=2, gpus=4, running=young, waiting=jobs)
        assert placed(decide(world, config(skip_blocked=True))) == expected


@pytest.mark.parametrize(("idle", "expected"), [(0, [1003]), (1, [])])
def test_a_job_ahead_of_others_of_its_virtual_cluster_stops_no_more_than_it_needs(
    idle: int, expected: list[int]
) -> None:
    """They hold more than their share, so it does not fit; yet it needs only one GPU, and an idle one will do."""
    lasts = {1: (4, 500.0), 2: (1, 300.0), 3: (1, 700.0)}
    runs, start = [], 0
    for number, (gpus, left_s) in lasts.items():
        own = make_job(1000 + number, gpus=gpus, remaining_s=left_s, expected_s=left_s)
        runs.append(replace(run(number, range(start, start + gpus), 1, age_s=1.0), job=own))
        start += gpus
    runs.append(run(4, range(start, 8 - idle), 2))
    world = pool(vc(1, 4), vc(2, 4), running=tuple(runs), waiting=(make_job(1, remaining_s=100.0, expected_s=100.0),))
    plan = decide(world, config("srtf"))
    assert (preempted(plan), placed(plan)) == (expected, [1])


LENDERS: dict[str, tuple[list[VirtualCluster], list[Running], list[tuple[int, Level, int, int]]]] = {
    "none within the shares": ([vc(1, 4), vc(2, 4)], [run(1, range(4), 1)], []),
    "another one of the tenant first": (
        [vc(1, 1), vc(2, 2, 2), vc(3, 2)],
        [run(1, range(4), 1)],
        [(1, Level.VIRTUAL_CLUSTER, 2, 1), (1, Level.VIRTUAL_CLUSTER, 3, 2)],
    ),
    "as far as it lends": (
        [vc(1, 1), vc(2, 2, 2), vc(3, 2, lend=1)],
        [run(1, range(4), 1)],
        [(1, Level.VIRTUAL_CLUSTER, 2, 2), (1, Level.VIRTUAL_CLUSTER, 3, 1)],
    ),
    "an opportunistic job after the own share": (
        [vc(1, 2), vc(2, 2, 2)],
        [run(1, range(3), 1, **OPPORTUNISTIC)],
        [(1, Level.VIRTUAL_CLUSTER, 2, 1)],
    ),
    "of no lender what is in no share": ([vc(1, 2)], [run(1, range(4), 1, **OPPORTUNISTIC)], []),
}


@pytest.mark.parametrize(("vcs", "running", "expected"), LENDERS.values(), ids=LENDERS)
def test_the_nearest_lender_comes_first(
    vcs: list[VirtualCluster], running: list[Running], expected: list[tuple[int, Level, int, int]]
) -> None:
    world = pool(*vcs, running=tuple(running))
    assert loans(world) == tuple(Loan(borrower, kind, lender, A100, gpus) for borrower, kind, lender, gpus in expected)


# Random trees


def a_tree(random: Random) -> Snapshot:
    """A random tree over a pool of nodes with one GPU each, which has as many GPUs as the tree has shares."""

    def shares(most: int) -> dict[str, Any]:
        limits = [{}, {}, {A100: random.randint(0, 4)}]
        return {
            "quotas": {A100: random.randint(0, most)},
            "borrowing": random.choice(limits),
            "lending": random.choice(limits),
        }

    organisations = tuple(
        Organisation(number, f"o{number}", parent_id=random.choice([None, *range(1, number)]), **shares(2))
        for number in range(1, random.randint(1, 3) + 1)
    )
    tenants = tuple(
        Tenant(number, f"t{number}", 1.0, random.choice([None, *(one.id for one in organisations)] * 2), **shares(2))
        for number in range(1, random.randint(1, 4) + 1)
    )
    vcs = tuple(
        VirtualCluster(number, random.choice(tenants).id, f"v{number}", **shares(4))
        for number in range(1, random.randint(2, 6) + 1)
    )
    total = sum(one.quotas[A100] for one in (*organisations, *tenants, *vcs))
    nodes = [make_node(number, gpus=1) for number in range(1, total + 1)]
    return replace(make_snapshot(nodes=nodes, vcs=vcs), organisations=organisations, tenants=tenants)


def a_job(random: Random, job_id: int, world: Snapshot, grace_s: float) -> Job:
    return make_job(
        job_id,
        vc_id=random.choice(world.vcs).id,
        gpus=random.choice([1, 1, 1, 2, 3, 4]),
        split=True,
        cpus=0,
        memory_mib=0,
        submitted_at=world.now,
        grace_s=grace_s,
        job_class=random.choice([JobClass.GUARANTEED] * 3 + [JobClass.OPPORTUNISTIC]),
    )


def entitled(world: Snapshot, tree: Tree, job: Job) -> bool:
    """True if the job fits the unused share of its virtual cluster."""
    ledger, use = Ledger(world), Use(tree)
    for one in world.vcs:
        use.add((Level.VIRTUAL_CLUSTER, one.id), A100, ledger.usage[one.id, A100] - ledger.usage[-one.id, A100])
    for kept in world.reservations:
        other = world.waiting_by_id.get(kept.job_id)
        if other is not None and other.id != job.id and other.job_class is JobClass.GUARANTEED:
            use.add((Level.VIRTUAL_CLUSTER, other.vc_id), A100, other.request.gpus_total)
    leaf, gpus = (Level.VIRTUAL_CLUSTER, job.vc_id), job.request.gpus_total
    return gpus + use.of(leaf, A100) <= tree.subtree(leaf, A100)


def story(seed: int) -> tuple[float, float, float]:
    """The longest wait in a random tree of a job that fitted its share; the grace; the minimum run time. All in s."""
    random = Random(seed)
    world, grace_s, min_run_s = a_tree(random), random.choice([0.0, 20.0, 200.0]), random.choice([0.0, 60.0, 300.0])
    how = config(random.choice(["fifo", "srtf"]), min_run_s=min_run_s)
    if how.policy == "fifo":
        how = replace(how, policy_params={"skip_blocked": True})
    tree, since, worst = Tree(world), dict[int, float](), 0.0
    arrivals = [(NOW + random.uniform(0, 1000), 1, job_id) for job_id in range(1, 40)]
    events: list[tuple[float, int, int]] = [*arrivals]  # (time, kind, job id): 0 wake, 1 arrival, 2 end, 3 stopped
    heapq.heapify(events)
    while events:
        moment, kind, job_id = heapq.heappop(events)
        if moment > NOW + 3000:
            break
        world = replace(world, now=moment)
        if kind == 1:
            world = replace(world, waiting=(*world.waiting, a_job(random, job_id, world, grace_s)))
        gone = world.running_by_job.get(job_id)
        if kind == 2 and gone is not None and gone.placed_at <= moment - 1.0 and not gone.stopping:
            world = replace(world, running=tuple(one for one in world.running if one.job.id != job_id))
        if kind == 3:
            world = release(world, [job_id])
        plan = decide(world, how)
        admission = compose(how).admission
        assert check(world, plan, admission) == ()
        started = set(world.running_by_job)
        world = apply(world, plan, awaiting=awaits_preemption(world, plan, admission))
        for preempt in plan.preempts:
            victim = world.running_by_job[preempt.job_id]
            lent = victim.job.job_class is JobClass.GUARANTEED
            if lent and how.policy == "fifo":
                assert moment - victim.placed_at >= min_run_s - grace_s - 1e-6
            heapq.heappush(events, (moment + grace_s, 3, preempt.job_id))
        for job_id in sorted(set(world.running_by_job) - started):
            heapq.heappush(events, (moment + random.choice([30.0, 300.0, 3000.0]), 2, job_id))
        if plan.wake_at is not None:
            heapq.heappush(events, (plan.wake_at, 0, 0))
        fit = {job.id for job in world.waiting if job.job_class is JobClass.GUARANTEED and entitled(world, tree, job)}
        since = {one: since.get(one, moment) for one in fit}
        worst = max([worst, *(moment - began for began in since.values())])
    return worst, grace_s, min_run_s


@pytest.mark.parametrize("batch", range(10))
def test_no_share_stays_unused_for_longer_than_the_grace_or_the_minimum_run_time(batch: int) -> None:
    """A waiting job that fits its unused share gets it in time; 1,000 random trees in the long form."""
    for seed in range(batch * 100, batch * 100 + examples(20)):
        waited_s, grace_s, min_run_s = story(seed)
        assert waited_s <= max(grace_s, min_run_s) + 2.0, f"seed {seed}"


@pytest.mark.parametrize("policy", ["srtf", "las", "priority"])
@settings(max_examples=examples(50))
@given(seed=st.integers(0, 10**9))
def test_decisions_about_one_moment_settle_and_stop_no_job_twice(policy: str, seed: int) -> None:
    random = Random(seed)
    world, how = a_tree(random), config(policy, min_run_s=0)
    for first in (1, 21):
        jobs = [
            replace(
                a_job(random, job_id, world, 0.0),
                expected_s=float(random.randint(1, 999)),
                priority=random.randint(0, 2),
                attained_gpu_s=random.choice([0.0, 100.0, 5000.0]),
            )
            for job_id in range(first, first + 12)
        ]
        jobs = [replace(job, remaining_s=job.expected_s) for job in jobs]
        world = carried_out(replace(world, waiting=(*world.waiting, *jobs), now=world.now + 60), how)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 10**9))
def test_what_is_due_is_the_most_that_fits_a_share_within_the_limits_below_it(seed: int) -> None:
    random = Random(seed)
    world = a_tree(random)
    tree = Tree(world)
    use, leaves = Use(tree), [(Level.VIRTUAL_CLUSTER, one.id) for one in world.vcs]
    for leaf in leaves:
        use.add(leaf, A100, random.randint(0, 6))
    for leaf in leaves:
        for below in tree.path(leaf)[1:]:
            branch = tree.path(leaf)[: tree.path(leaf).index(below)]
            fits = []
            for gpus in range(1, 30):
                then = use.copy()
                then.add(leaf, A100, gpus)
                within = [then.of(one, A100) <= tree.subtree(one, A100) for one in branch]
                limits = [tree.borrowing(one, A100) for one in branch]
                over = [then.of(one, A100) - tree.subtree(one, A100) for one in branch]
                allowed = [limit is None or more <= limit for limit, more in zip(limits, over, strict=True)]
                fits += [gpus] if any(each and all(allowed[:at]) for at, each in enumerate(within)) else []
            assert use.due(leaf, below, A100) == max(fits, default=0)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 10**9))
def test_loans_account_for_what_is_held_beyond_shares(seed: int) -> None:
    """Each borrower borrows what it holds beyond its own share and no more, and no lender lends more than it has."""
    random = Random(seed)
    world = a_tree(random)
    world = replace(world, waiting=tuple(a_job(random, job_id, world, 0.0) for job_id in range(1, 20)))
    world = apply(world, decide(world, config(skip_blocked=True)))
    held, borrowed, lent = Counter(dict(world.held_by_vc)), Counter[int](), Counter[tuple[Level, int]]()
    for loan in loans(world):
        borrowed[loan.borrower_vc] += loan.gpus
        lent[loan.lender_kind, loan.lender_id] += loan.gpus
    for one in world.vcs:
        assert borrowed[one.id] == max(0, held[one.id, A100] - one.quotas[A100])
        assert lent[Level.VIRTUAL_CLUSTER, one.id] <= max(0, one.quotas[A100] - held[one.id, A100])
