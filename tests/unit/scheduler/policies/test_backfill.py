"""Backfilling: the jobs that are promised a start, those that may start meanwhile, and promises that are kept."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Reservation, Running, Snapshot
from scheduler.model.lifecycle import HoldReason, JobClass, RuntimeNeed
from scheduler.model.plan import RESERVATION_S, Hold, Plan
from tests.profiles import examples
from tests.unit.scheduler.driving import carried_out, later, running
from tests.unit.scheduler.factories import (
    NOW,
    asking,
    make_job,
    make_node,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="backfill", policy_params=params)


def runs(job_id: int, node_id: int, gpus: range, limit_s: float | None, **fields: Any) -> Running:
    """A job that has just started on these GPUs of a node."""
    job = make_job(job_id, gpus=len(gpus), time_limit_s=limit_s, **fields)
    return replace(make_running(make_share(node_id, gpus), attempt_id=job_id, job=job), placed_at=NOW)


def waits(job_id: int, gpus: int, limit_s: float | None = None, **fields: Any) -> Job:
    return make_job(job_id, gpus=gpus, time_limit_s=limit_s, **fields)


def placed(plan: Plan) -> list[int]:
    return sorted(place.job_id for place in plan.places)


def hold_of(plan: Plan, job_id: int) -> Hold:
    return next(hold for hold in plan.holds if hold.job_id == job_id)


# Node 1 has eight GPUs: six are held for 100 s. Job 1 needs all eight; node 2 helps only in cases that name it.
SIX = [runs(90, 1, range(6), 100)]
EIGHT = waits(1, 8)
PASSING: dict[str, tuple[list[Job], dict[str, Any], list[int]]] = {
    "one that has ended by then": ([EIGHT, waits(2, 2, 100)], {}, [2]),
    "not one that might run on": ([EIGHT, waits(2, 2, 101)], {}, []),
    "not one whose grace ends later": ([EIGHT, waits(2, 2, 100, grace_s=1.0)], {}, []),
    "one whose grace ends by then": ([EIGHT, waits(2, 2, 70, grace_s=30.0)], {}, [2]),
    "not one without a limit": ([EIGHT, waits(2, 2)], {}, []),
    "not on the strength of a prediction": ([EIGHT, waits(2, 2, 500, expected_s=50.0)], {}, []),
    "on the strength of a prediction if told so": (
        [EIGHT, waits(2, 2, 500, expected_s=50.0)],
        {"optimistic": True},
        [2],
    ),
    "one that leaves what is promised free": ([waits(1, 6), waits(2, 2)], {}, [2]),
    "not two of which each alone would": ([waits(1, 7), waits(2, 1), waits(3, 1)], {}, [2]),
    "easy: one that delays the second in the queue": (
        [waits(1, 6, 50), waits(2, 8), waits(3, 2, 160)],
        {},
        [3],
    ),
    "conservative: not one that delays the second in the queue": (
        [waits(1, 6, 50), waits(2, 8), waits(3, 2, 160)],
        {"mode": "conservative"},
        [],
    ),
    "conservative: one that ends before the second in the queue starts": (
        [waits(1, 6, 50), waits(2, 8), waits(3, 2, 150)],
        {"mode": "conservative"},
        [3],
    ),
    "conservative: one that delays those beyond the depth": (
        [waits(1, 6, 50), waits(2, 8), waits(3, 2, 160)],
        {"mode": "conservative", "depth": 1},
        [3],
    ),
    "the first that fits": ([EIGHT, waits(2, 2, 90, expected_s=80.0), waits(3, 2, 90, expected_s=5.0)], {}, [2]),
    "the shortest that fits, if told so": (
        [EIGHT, waits(2, 2, 90, expected_s=80.0), waits(3, 2, 90, expected_s=5.0)],
        {"shortest_first": True},
        [3],
    ),
    "a higher priority is the head whenever it came": ([waits(1, 2), waits(2, 8, priority=1)], {}, []),
}


@pytest.mark.parametrize(("jobs", "params", "expected"), PASSING.values(), ids=PASSING)
def test_who_may_pass_a_job_that_cannot_start(jobs: list[Job], params: dict[str, Any], expected: list[int]) -> None:
    assert placed(decide(make_snapshot(running=SIX, waiting=jobs), config(**params))) == expected


def test_a_job_may_pass_on_other_nodes_than_those_of_the_head() -> None:
    # At 100 s the head gets the whole of node 1; node 2 stays held for longer and has two GPUs free for ever.
    world = make_snapshot(
        nodes=[make_node(1), make_node(2)],
        running=[*SIX, runs(91, 2, range(6), 900)],
        waiting=[EIGHT, waits(2, 2), waits(3, 2)],
    )
    plan = decide(world, config())
    assert placed(plan) == [2]
    assert plan.places[0].allocations[0].node_id == 2
    assert hold_of(plan, 3).reason is HoldReason.BEHIND_HEAD


def test_a_promise_counts_the_grace_of_a_running_job_after_its_limit() -> None:
    world = make_snapshot(running=[runs(90, 1, range(6), 100, grace_s=200.0)], waiting=[EIGHT, waits(2, 2, 300)])
    plan = decide(world, config())
    assert hold_of(plan, 1).evidence["starts_by"] == NOW + 300
    assert placed(plan) == [2]


def test_the_reason_of_a_head_names_its_start_and_the_job_it_waits_for() -> None:
    hold = hold_of(decide(make_snapshot(running=SIX, waiting=[EIGHT]), config()), 1)
    assert hold.reason is HoldReason.NO_FREE_GPUS
    # NOW is 13:46:40, and the limit ends at 13:48:20.
    assert (
        hold.detail == "backfill: starts by 1970-01-12 13:49 UTC at the latest, when the time limit of job 90 is over"
    )
    assert hold.evidence["starts_by"] == NOW + 100


def test_a_job_of_another_virtual_cluster_is_not_named() -> None:
    world = make_snapshot(
        running=[runs(90, 1, range(6), 100, vc_id=2)], waiting=[EIGHT], vcs=[make_vc(1), make_vc(2, "speech")]
    )
    assert "90" not in hold_of(decide(world, config()), 1).detail


def test_the_reason_of_a_job_that_may_not_pass_says_what_helps() -> None:
    hold = hold_of(decide(make_snapshot(running=SIX, waiting=[EIGHT, waits(2, 2)]), config()), 2)
    assert hold.reason is HoldReason.BEHIND_HEAD
    assert "starts by 1970-01-12 13:49 UTC" in hold.detail
    assert hold.helps[0] == "set a time limit that ends by then"


def test_behind_a_job_without_a_limit_only_jobs_with_one_pass() -> None:
    world = make_snapshot(running=[runs(90, 1, range(6), None)], waiting=[EIGHT, waits(2, 1), waits(3, 1, 10_000)])
    plan = decide(world, config())
    assert placed(plan) == [3]
    assert "its start is unknown" in hold_of(plan, 1).detail


def test_a_job_that_lacks_quota_holds_up_its_own_virtual_cluster_only() -> None:
    world = make_snapshot(
        running=[runs(90, 1, range(2), None)],
        waiting=[waits(1, 3), waits(2, 2), waits(3, 6, vc_id=2)],
        vcs=[make_vc(1, quotas={"A100": 4}), make_vc(2, "speech")],
    )
    plan = decide(world, config())
    assert placed(plan) == [3]
    assert hold_of(plan, 1).reason is HoldReason.QUOTA


def test_what_is_promised_counts_against_the_quota() -> None:
    # At 100 s job 1 gets the four A100 for which the quota has room then; job 2 may run no longer than that.
    world = make_snapshot(
        nodes=[make_node(1), make_node(2)],
        running=[runs(90, 1, range(4), 100)],
        waiting=[waits(1, 6), waits(2, 2, 100), waits(3, 2, 500)],
        vcs=[make_vc(quotas={"A100": 6})],
    )
    assert placed(decide(world, config(mode="conservative"))) == [2]


def test_a_conservative_promise_is_kept_when_others_end_early() -> None:
    """With a new plan at 40 s, job 1 would get all four GPUs at 50 s, and job 3 none before 60 s."""
    world = make_snapshot(
        nodes=[make_node(1, gpus=4)],
        running=[runs(90, 1, range(2), 100), runs(91, 1, range(2, 4), 50)],
        waiting=[waits(1, 4, 10), waits(2, 2, 200), waits(3, 2, 50)],
    )
    conservative = config(mode="conservative")
    promised = {hold.job_id: hold.evidence["starts_by"] for hold in decide(world, conservative).holds}
    assert promised == {1: NOW + 100, 2: NOW + 110, 3: NOW + 50}
    world = later(carried_out(world, conservative), NOW + 40, ended=[90])
    again = decide(world, conservative)
    assert placed(again) == [3]
    assert {hold.job_id: hold.evidence["starts_by"] for hold in again.holds} == {1: NOW + 100, 2: NOW + 110}


def test_promises_behind_a_newcomer_of_higher_priority_are_planned_afresh() -> None:
    world = make_snapshot(running=SIX, waiting=[waits(1, 8, 10)])
    conservative = config(mode="conservative")
    world = carried_out(world, conservative)
    plan = decide(later(world, NOW, [waits(2, 8, 10, priority=1)]), conservative)
    assert {hold.job_id: hold.evidence["starts_by"] for hold in plan.holds} == {2: NOW + 100, 1: NOW + 110}


def test_a_promise_is_kept_behind_a_job_that_can_be_promised_nothing() -> None:
    """Job 3 can never start; if it broke job 4's promise, job 1 would take all three GPUs at 50 s."""
    world = make_snapshot(
        nodes=[make_node(1, gpus=3)],
        running=[runs(90, 1, range(2), 100), runs(91, 1, range(2, 3), 50)],
        waiting=[waits(1, 3, 10), waits(3, 0, 10, nodes=2), waits(4, 1, 50)],
    )
    conservative = config(mode="conservative")
    promised = {hold.job_id: hold.evidence.get("starts_by") for hold in decide(world, conservative).holds}
    assert promised == {1: NOW + 100, 3: None, 4: NOW + 50}
    world = later(carried_out(world, conservative), NOW + 50, ended=[90, 91])
    assert placed(decide(world, conservative)) == [4]


def test_a_job_that_has_gone_back_to_the_queue_is_a_newcomer() -> None:
    world = carried_out(make_snapshot(running=SIX, waiting=[waits(2, 8, 10)]), config(mode="conservative"))
    back = waits(1, 8, 10, requeued_at=NOW + 1)
    plan = decide(later(world, NOW + 1, [back]), config(mode="conservative"))
    assert {hold.job_id: hold.evidence["starts_by"] for hold in plan.holds} == {1: NOW + 100, 2: NOW + 110}


def test_a_guaranteed_job_takes_back_what_an_opportunistic_one_has_on_loan() -> None:
    lent = runs(90, 1, range(6), 100, job_class=JobClass.OPPORTUNISTIC)
    world = make_snapshot(running=[lent], waiting=[waits(1, 8, 50)])
    plan = decide(world, replace(config(), admission="borrow"))
    assert placed(plan) == [1]
    assert [preempt.job_id for preempt in plan.preempts] == [90]


def test_a_guaranteed_job_stops_no_more_opportunistic_ones_than_it_needs() -> None:
    lent = [runs(90 + gpu, 1, range(gpu, gpu + 2), 100, job_class=JobClass.OPPORTUNISTIC) for gpu in (0, 2, 4)]
    world = make_snapshot(nodes=[make_node(1, gpus=6)], running=lent, waiting=[waits(1, 2, 50)])
    plan = decide(world, replace(config(), admission="borrow"))
    assert placed(plan) == [1]
    assert [preempt.job_id for preempt in plan.preempts] == [94]


def test_a_job_that_reclaims_promised_gpus_early_must_end_before_the_promise() -> None:
    """After 10,000 s the GPUs of job 90 are promised to job 1, with those of job 91, which is not preemptible."""
    running = [runs(90, 1, range(4), 10_000, job_class=JobClass.OPPORTUNISTIC), runs(91, 1, range(4, 8), 10_000)]
    for limit_s, expected in ((10_000 - RESERVATION_S, [2]), (10_000, [])):
        world = make_snapshot(running=running, waiting=[waits(1, 8, 50), waits(2, 4, limit_s)])
        assert placed(decide(world, replace(config(), admission="borrow"))) == expected


def test_guaranteed_jobs_are_served_before_opportunistic_ones() -> None:
    first = waits(1, 8, 50, job_class=JobClass.OPPORTUNISTIC, priority=9)
    plan = decide(make_snapshot(waiting=[first, waits(2, 8, 50)]), replace(config(), admission="borrow"))
    assert placed(plan) == [2]


def test_the_quota_of_jobs_on_a_draining_node_is_free_when_they_end() -> None:
    drained = make_node(1, schedulable=False, unschedulable_reason="drained")
    world = make_snapshot(
        nodes=[drained, make_node(2)],
        running=[runs(90, 1, range(4), 100)],
        waiting=[waits(1, 6, 10)],
        vcs=[make_vc(quotas={"A100": 6})],
    )
    plan = decide(world, config(mode="conservative"))
    assert plan.notes[0].policy_state["start"] == NOW + 100


def test_no_job_is_promised_offered_resources() -> None:
    offered = Reservation(-7, (make_share(1, range(4)),), NOW + 60)
    world = replace(make_snapshot(waiting=[waits(1, 8, 10), waits(2, 2, 1000)]), reservations=(offered,))
    plan = decide(world, config(mode="conservative"))
    assert placed(plan) == [2]
    assert "never" in plan.notes[0].policy_state


# Nodes under maintenance, now or later, with a known end.
SHUT = make_node(1, schedulable=False, unschedulable_reason="draining", maintenance_ends_at=NOW + 50)
CLOSING = make_node(1, maintenance_starts_at=NOW + 20, maintenance_ends_at=NOW + 50)
BUSY = make_node(2)
COMING_BACK: dict[str, tuple[Any, list[Running], Job, float | None]] = {
    "a node that comes back": (SHUT, [], EIGHT, NOW + 50),
    "a node that closes first": (CLOSING, [], EIGHT, NOW + 50),
    "others end before it comes back": (replace(SHUT, maintenance_ends_at=NOW + 500), [], EIGHT, NOW + 100),
    "without a known end": (replace(SHUT, maintenance_ends_at=None), [], EIGHT, NOW + 100),
    "who is there ends by then": (SHUT, [runs(91, 1, range(4), 50)], EIGHT, NOW + 50),
    "who is there stays": (SHUT, [runs(91, 1, range(4), 60)], EIGHT, NOW + 100),
    "what is left beside them will do": (SHUT, [runs(91, 1, range(4), None)], waits(1, 4), NOW + 50),
    "who shares a GPU there is not counted out": (SHUT, [runs(91, 1, range(1), 10, packs=True)], EIGHT, NOW + 100),
    "a gang over both": (replace(SHUT, maintenance_ends_at=NOW + 150), [], waits(1, 8, nodes=2), NOW + 150),
    "a lot over both": (SHUT, [], waits(1, 8, split=True, cpus=0, memory_mib=0), NOW + 50),
    "one that starts no such job": (
        replace(SHUT, runtimes=(RuntimeNeed.PLAIN,)),
        [],
        waits(1, 8, form=RuntimeNeed.IMAGE),
        NOW + 100,
    ),
    "its CPUs are held for longer": (SHUT, [runs(91, 1, range(0), 60, cpus=64)], EIGHT, NOW + 100),
}


@pytest.mark.parametrize("rack", ["r1", "r2"])
@pytest.mark.parametrize(("node", "there", "job", "by"), COMING_BACK.values(), ids=COMING_BACK)
def test_what_comes_back_from_maintenance_can_be_promised(
    node: Any, there: list[Running], job: Job, by: float | None, rack: str
) -> None:
    there = [
        replace(run, allocations=tuple(replace(s, cpus=run.job.request.first.cpus) for s in run.allocations))
        for run in there
    ]
    held = [runs(90, 2, range(6), 100), *there]
    world = make_snapshot(nodes=[replace(node, rack=rack), BUSY], running=held, waiting=[job, waits(2, 1)])
    for mode in ("easy", "conservative"):
        plan = decide(world, config(mode=mode))
        hold = hold_of(plan, 1)
        assert hold.evidence.get("starts_by") == by
        opens = by == node.maintenance_ends_at
        assert hold.reason is (HoldReason.MAINTENANCE if opens else HoldReason.NO_FREE_GPUS)
        assert ("when the maintenance of node1 is over" in hold.detail) is opens
        # Nothing starts there before.
        assert all(share.node_id == 2 for place in plan.places for share in place.allocations)


@st.composite
def plays(draw: st.DrawFn) -> tuple[Snapshot, dict[int, tuple[float, Job, float]]]:
    """A pool, and jobs: the arrival of each, its request, and its run time within its limit."""
    nodes = [
        make_node(number, gpus=draw(st.integers(2, 4)), cpus=8) for number in range(1, draw(st.integers(1, 3)) + 1)
    ]
    jobs = {}
    at = 0.0
    for job_id in range(1, draw(st.integers(2, 9)) + 1):
        at += draw(st.sampled_from([0, 0, 1, 5]))
        limit_s = draw(st.integers(1, 20))
        job = make_job(
            job_id,
            gpus=draw(st.integers(0, 4)),
            nodes=draw(st.sampled_from([1, 1, 1, 2])),
            cpus=draw(st.integers(0, 4)),
            time_limit_s=float(limit_s),
            submitted_at=NOW + at,
        )
        if draw(st.booleans()):
            job = asking(job, nodes=1, split=True, cpus=0, memory_mib=0, gpus=draw(st.integers(1, 8)))
        jobs[job_id] = (NOW + at, job, float(draw(st.integers(1, limit_s))))
    return make_snapshot(nodes=nodes), jobs


# When the first node becomes free, in seconds from the beginning.
WINDOWS = st.none() | st.tuples(st.integers(0, 30), st.integers(1, 30)).map(lambda it: (NOW + it[0], NOW + sum(it)))
MODES = st.sampled_from([{"mode": "easy"}, {"mode": "conservative"}, {"mode": "conservative", "depth": 2}])


def as_it_is(world: Snapshot, window: tuple[float, float] | None) -> Snapshot:
    """The world with the maintenance of its first node: planned, under way, or over."""
    node, *others = world.nodes
    closed = {"maintenance_starts_at": None, "maintenance_ends_at": None, "schedulable": True}
    if window is not None and world.now < window[1]:
        begun = window[0] <= world.now
        closed = {
            "maintenance_starts_at": None if begun else window[0],
            "maintenance_ends_at": window[1],
            "schedulable": not begun,
        }
    return replace(world, nodes=(replace(node, **closed), *others))


@settings(max_examples=examples(200))
@given(plays(), MODES, WINDOWS)
def test_no_job_starts_later_than_it_was_promised(
    play: tuple[Snapshot, dict[int, tuple[float, Job, float]]],
    params: dict[str, Any],
    window: tuple[float, float] | None,
) -> None:
    world, jobs = play
    promised: dict[int, float] = {}
    started: dict[int, float] = {}
    now, feasible = NOW, set(jobs)
    for _ in range(100):
        arrived = [job for job_id, (at, job, _) in jobs.items() if at == now and job_id not in started]
        ended = [run.job.id for run in world.running if run.placed_at + jobs[run.job.id][2] <= now]
        world = as_it_is(later(world, now, arrived, ended), window)
        plan = decide(world, config(**params))
        for hold in plan.holds:
            if hold.reason is HoldReason.INFEASIBLE:
                feasible.discard(hold.job_id)
            by = hold.evidence.get("starts_by") if hold.reason is not HoldReason.BEHIND_HEAD else None
            if by is not None:
                assert float(by) <= promised.get(hold.job_id, float(by))
                promised[hold.job_id] = float(by)
            assert now < promised.get(hold.job_id, float("inf")), "it should have started by now"
        world = carried_out(world, config(**params))
        for job_id in running(world):
            started.setdefault(job_id, now)
        moments = [at for at, _, _ in jobs.values() if at > now]
        moments += [run.placed_at + jobs[run.job.id][2] for run in world.running]
        moments += [at for at in window or () if at > now]
        if not moments:
            break
        now = min(moments)
    assert all(started[job_id] <= by for job_id, by in promised.items())
    assert set(started) == feasible


@settings(max_examples=examples(60))
@given(plays(), MODES, WINDOWS)
def test_the_first_is_promised_nothing_later_for_what_is_known_of_maintenance(
    play: tuple[Snapshot, dict[int, tuple[float, Job, float]]],
    params: dict[str, Any],
    window: tuple[float, float] | None,
) -> None:
    world, jobs = play
    world = later(world, NOW, [replace(job, submitted_at=NOW - 100 + job_id) for job_id, (_, job, _) in jobs.items()])
    known = carried_out(as_it_is(world, window), config(**params))
    known = replace(known, waiting=tuple(replace(job, policy_state={}) for job in known.waiting))
    unknown = replace(known, nodes=tuple(replace(node, maintenance_ends_at=None) for node in known.nodes))
    plans = decide(known, config(**params)), decide(unknown, config(**params))
    first = min((job.id for job in known.waiting), default=0)
    by, at_the_worst = (
        next((hold.evidence.get("starts_by") for hold in plan.holds if hold.job_id == first), None) for plan in plans
    )
    if at_the_worst is not None:
        assert by is not None
        assert float(by) <= float(at_the_worst)
