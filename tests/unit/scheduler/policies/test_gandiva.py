"""Gandiva by tables of cases: places, time slices, moves, and growth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Locality, Node, Running
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import Plan, apply
from scheduler.policies.gandiva.job_state import slice_nodes_of
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

GANDIVA = CycleConfig(policy="gandiva")


def gandiva(**params: Any) -> CycleConfig:
    return CycleConfig(policy="gandiva", policy_params=params)


def job(job_id: int, gpus: int = 1, **fields: Any) -> Job:
    """A gang on one node with checkpoints."""
    return make_job(job_id, gpus=gpus, **{"checkpoints": True, **fields})


def lot(job_id: int, gpus: int, **fields: Any) -> Job:
    """A divisible job."""
    return job(job_id, gpus, split=True, cpus=0, memory_mib=0, **fields)


def runs(job: Job, *shares: tuple[int, Iterable[int]], ago_s: float = 10.0) -> Running:
    """The job on GPUs of these indexes, by node, placed that many seconds ago."""
    found = [
        make_share(node_id, indexes, rank, job.request.first.cpus, job.request.first.memory_mib)
        for rank, (node_id, indexes) in enumerate(shares)
    ]
    return replace(make_running(*found, attempt_id=job.id, job=job), placed_at=NOW - ago_s)


def nodes(count: int, gpus: int = 4) -> list[Node]:
    return [make_node(number, gpus=gpus) for number in range(1, count + 1)]


def where(plan: Plan) -> Mapping[int, list[tuple[int, int]]]:
    """For each placed job: its nodes, and the number of GPUs on each."""
    return {place.job_id: [(share.node_id, len(share.gpu_ids)) for share in place.allocations] for place in plan.places}


@dataclass(frozen=True)
class Search:
    """A world with one waiting job, and the nodes on which it starts; empty: none."""

    waits: Job
    running: tuple[Running, ...]
    found: list[tuple[int, int]]
    nodes: list[Node] = field(default_factory=lambda: nodes(3))


SEARCHES = {
    "it goes to the node of its affinity, though another one is empty": Search(
        job(9, 1), (runs(job(1, 1), (2, [0])),), [(2, 1)]
    ),
    "of nodes of its affinity, it goes to the least loaded one": Search(
        job(9, 1),
        (runs(job(1, 1), (1, [0])), runs(job(2, 1), (1, [1])), runs(job(3, 1), (3, [0]))),
        [(3, 1)],
    ),
    "to an empty node rather than to one of another affinity": Search(
        job(9, 1), (runs(job(1, 2), (1, [0, 1])), runs(job(2, 2), (2, [0, 1]))), [(3, 1)]
    ),
    "to any free GPU when each node has another affinity": Search(
        job(9, 1),
        (runs(job(1, 2), (1, [0, 1])), runs(job(2, 2), (2, [0, 1])), runs(job(3, 3), (3, [0, 1, 2]))),
        [(3, 1)],
    ),
    "a node of its affinity that lacks the room is no choice": Search(
        job(9, 2), (runs(job(1, 2), (1, [0, 1])), runs(job(2, 2), (1, [2, 3]))), [(2, 2)]
    ),
    "what a node's jobs ask for most decides its affinity": Search(
        job(9, 1),
        (runs(job(1, 2), (1, [0, 1])), runs(job(2, 1), (1, [2])), runs(job(3, 1), (2, [0]))),
        [(2, 1)],
    ),
    "a lot that is larger than a node lies on several": Search(lot(9, 6), (), [(1, 4), (2, 2)]),
    "a lot takes scattered GPUs when there are no others": Search(
        lot(9, 4),
        (runs(lot(1, 3), (1, [0, 1, 2])), runs(lot(2, 2), (2, [0, 1])), runs(lot(3, 3), (3, [0, 1, 2]))),
        [(2, 2), (1, 1), (3, 1)],
    ),
    "a node that the job avoids comes last": Search(
        job(9, 1, avoid_nodes=(1,)), (runs(job(1, 1), (1, [0])),), [(2, 1)]
    ),
    "no job is suspended before its time slice is over": Search(
        job(9, 4), (runs(job(1, 4), (1, range(4)), ago_s=59),), [], nodes(1)
    ),
    "it takes the GPUs of a job whose turn is over": Search(
        job(9, 4), (runs(job(1, 4), (1, range(4)), ago_s=60),), [(1, 4)], nodes(1)
    ),
    "it takes no turns with jobs of another size": Search(
        job(9, 2), (runs(job(1, 4), (1, range(4)), ago_s=600),), [], nodes(1)
    ),
    "it takes no turns with a job that makes no checkpoints": Search(
        job(9, 4), (runs(job(1, 4, checkpoints=False), (1, range(4)), ago_s=600),), [], nodes(1)
    ),
    "it takes no turns with a job that may not be preempted": Search(
        job(9, 4), (runs(job(1, 4, preemptible=False), (1, range(4)), ago_s=600),), [], nodes(1)
    ),
    "a job that makes no checkpoints waits for free GPUs": Search(
        job(9, 4, checkpoints=False), (runs(job(1, 4), (1, range(4)), ago_s=600),), [], nodes(1)
    ),
    "a lot on two nodes takes turns with one of its size on the same nodes": Search(
        lot(9, 6), (runs(lot(1, 6), (1, range(4)), (2, [0, 1]), ago_s=60),), [(1, 4), (2, 2)], nodes(2)
    ),
    "one that must lie within a node takes no turns on two": Search(
        lot(9, 4, locality=Locality.NODE),
        (runs(lot(1, 4), (1, [0, 1]), (2, [0, 1]), ago_s=60), runs(lot(2, 1), (1, [2])), runs(lot(3, 1), (2, [2]))),
        [],
        nodes(2, gpus=3),
    ),
}


@pytest.mark.parametrize("case", SEARCHES.values(), ids=list(SEARCHES))
def test_where_a_job_goes(case: Search) -> None:
    world = make_snapshot(nodes=case.nodes, waiting=[case.waits], running=case.running)
    plan = decide(world, gandiva(introspect_s=None))
    assert check(world, plan, compose(GANDIVA).admission) == ()
    assert where(plan).get(case.waits.id, []) == case.found


def test_of_several_expired_slices_the_longest_running_job_is_suspended() -> None:
    world = make_snapshot(
        nodes=nodes(1, gpus=2),
        waiting=[job(9)],
        running=[runs(job(1), (1, [0]), ago_s=70), runs(job(2), (1, [1]), ago_s=80)],
    )
    plan = decide(world, GANDIVA)
    assert [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts] == [(2, 9)]


def test_the_suspended_job_remembers_its_node_and_when_it_has_rested() -> None:
    world = make_snapshot(nodes=nodes(1, gpus=1), waiting=[job(9)], running=[runs(job(1), (1, [0]), ago_s=70)])
    after = apply(world, decide(world, GANDIVA))
    suspended = after.running_by_job[1].job
    assert slice_nodes_of(suspended) == {1: 1}
    assert suspended.policy_state["next"] == NOW + 60


def test_the_reason_of_a_time_sliced_job_names_its_nodes_and_it_checks_again_after_a_slice() -> None:
    world = make_snapshot(nodes=nodes(1, gpus=1), waiting=[job(9)], running=[runs(job(1), (1, [0]), ago_s=25)])
    plan = decide(world, GANDIVA)
    assert [dict(note.policy_state) for note in plan.notes] == [{"node 1": 1.0, "next": NOW + 35}]
    assert "time slices on node1" in plan.holds[0].detail
    waits = apply(world, plan).waiting_by_id[9]
    assert compose(GANDIVA).policy.next_change(waits, None, NOW) == NOW + 35


def test_a_slice_due_after_the_last_start_of_a_cycle_begins_in_the_next_one() -> None:
    over, config = runs(job(1, 4), (1, range(4)), ago_s=100), replace(GANDIVA, max_places=1)
    # The first one finds no room and no time slice, the second one is the cycle's last start.
    waiting = [job(2, 4, checkpoints=False), job(3), job(4, 4)]
    world = make_snapshot(nodes=[*nodes(1), make_node(2, gpus=1)], running=[over], waiting=waiting)
    plan = decide(world, config)
    assert where(plan) == {3: [(2, 1)]}
    assert {hold.job_id: hold.reason for hold in plan.holds}[4] is HoldReason.CYCLE_LIMIT
    assert where(decide(apply(world, plan), config)) == {4: [(1, 4)]}


def test_a_suspended_job_displaces_others_only_after_one_slice() -> None:
    # Three jobs on two GPUs: the slice of job 2 is over, too, but job 1 has only just been suspended.
    rests = job(1, policy_state={"node 1": 1.0}, requeued_at=NOW - 59)
    world = make_snapshot(
        nodes=nodes(1, gpus=2),
        waiting=[rests],
        running=[runs(job(2), (1, [0]), ago_s=200), runs(job(3), (1, [1]))],
    )
    assert decide(world, GANDIVA).preempts == ()
    may_displace = later(world, NOW + 1)
    assert [preempt.job_id for preempt in decide(may_displace, GANDIVA).preempts] == [2]


def test_a_job_that_waits_for_more_slices_reserves_its_node_against_later_jobs() -> None:
    wide = job(1, 2, policy_state={"node 1": 2.0}, requeued_at=NOW - 100)
    world = make_snapshot(
        nodes=nodes(1, gpus=2),
        waiting=[wide, job(9)],
        running=[runs(job(2), (1, [0]), ago_s=30)],
    )
    plan = decide(world, GANDIVA)  # one GPU is free, and job 2 has 30 s to go
    assert plan.places == ()
    assert {note.job_id: note.policy_state.get("next") for note in plan.notes}[1] == NOW + 30
    plan = decide(later(apply(world, plan), NOW + 30), GANDIVA)
    assert where(plan) == {1: [(1, 2)]}


def test_a_suspended_job_goes_on_elsewhere_when_gpus_are_free_there() -> None:
    rests = job(1, policy_state={"node 1": 1.0}, requeued_at=NOW)
    world = make_snapshot(nodes=nodes(2, gpus=1), waiting=[rests], running=[runs(job(2), (1, [0]))])
    after = carried_out(world, GANDIVA)
    assert after.running_by_job[1].allocations[0].node_id == 2
    assert slice_nodes_of(after.running_by_job[1].job) == {}


def test_a_home_that_has_left_the_pool_is_forgotten() -> None:
    lost = job(1, policy_state={"node 7": 1.0, "next": NOW}, requeued_at=NOW - 100)
    world = make_snapshot(nodes=nodes(1, gpus=1), waiting=[lost], running=[runs(job(2), (1, [0]))])
    after = apply(world, decide(world, GANDIVA))
    assert "node 7" not in after.waiting_by_id[1].policy_state


def test_a_suspended_job_counts_for_the_height_of_its_node() -> None:
    rests = job(5, 2, policy_state={"node 1": 2.0}, requeued_at=NOW)
    world = make_snapshot(
        nodes=nodes(2),
        waiting=[rests, job(9, 2)],
        running=[
            runs(job(number, 2), (node, indexes))
            for number, (node, indexes) in enumerate([(1, [0, 1]), (1, [2, 3]), (2, [0, 1]), (2, [2, 3])], start=1)
        ],
    )
    after = apply(world, decide(world, GANDIVA))
    assert {one.id: slice_nodes_of(one) for one in after.waiting} == {5: {1: 2}, 9: {2: 2}}


def test_at_the_largest_height_a_job_is_queued() -> None:
    world = make_snapshot(
        nodes=nodes(1, gpus=1),
        waiting=[job(3), job(4)],
        running=[runs(job(2), (1, [0]))],
    )
    after = apply(world, decide(world, gandiva(max_height=2)))
    assert [slice_nodes_of(one) for one in after.waiting] == [{1: 1}, {}]


def test_without_slices_no_job_is_suspended() -> None:
    world = make_snapshot(nodes=nodes(1, gpus=1), waiting=[job(3)], running=[runs(job(2), (1, [0]), ago_s=1e6)])
    plan = decide(world, gandiva(slice_s=None))
    assert (plan.places, plan.preempts, plan.notes) == ((), (), ())


def test_a_virtual_cluster_without_quota_left_time_slices_its_own_jobs() -> None:
    vcs = [make_vc(1, "a", {"A100": 1}), make_vc(2, "b", {"A100": 1})]
    world = make_snapshot(
        nodes=nodes(1, gpus=2),
        waiting=[job(9, vc_id=2)],
        running=[runs(job(1, vc_id=1), (1, [0]), ago_s=100), runs(job(2, vc_id=2), (1, [1]), ago_s=90)],
        vcs=vcs,
    )
    plan = decide(world, GANDIVA)
    assert check(world, plan, compose(GANDIVA).admission) == ()
    assert [preempt.job_id for preempt in plan.preempts] == [2]


LENT: dict[str, Any] = {"job_class": JobClass.OPPORTUNISTIC}


def test_gpus_on_loan_are_returned_before_the_slice_ends() -> None:
    world = make_snapshot(nodes=nodes(1, gpus=1), waiting=[job(9)], running=[runs(job(1, **LENT), (1, [0]), ago_s=5)])
    plan = decide(world, replace(GANDIVA, admission="borrow"))
    assert [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts] == [(1, 9)]


def test_a_borrower_takes_no_slice_from_the_owner() -> None:
    world = make_snapshot(nodes=nodes(1, gpus=1), waiting=[job(9, **LENT)], running=[runs(job(1), (1, [0]), ago_s=500)])
    assert decide(world, replace(GANDIVA, admission="borrow")).preempts == ()


# Moves


def scattered(ago_s: float = 400.0, **fields: Any) -> Running:
    return runs(lot(1, 2, **fields), (1, [0]), (2, [0]), ago_s=ago_s)


MOVES = {
    "a scattered job is brought together": (scattered(), [(1, 2)], {}),
    "not before it has been there for long enough": (scattered(ago_s=299), None, {}),
    "not without checkpoints": (scattered(checkpoints=False), None, {}),
    "not when it may not be preempted": (scattered(preemptible=False), None, {}),
    "not soon after it was looked at in vain": (scattered(policy_state={"looked": NOW - 10}), None, {}),
    "not when it ends before a restart would": (
        scattered(remaining_s=420.0, expected_s=420.0),
        None,
        {"restart_s": 30},
    ),
    "not when nothing is to be moved": (scattered(), None, {"introspect_s": None}),
}


@pytest.mark.parametrize(("run", "found", "params"), MOVES.values(), ids=list(MOVES))
def test_who_is_moved_closer_together(run: Running, found: Any, params: Mapping[str, Any]) -> None:
    world = make_snapshot(nodes=nodes(2), running=[run])
    plan = decide(world, gandiva(**params))
    assert where(plan).get(1) == found
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == ([] if found is None else [(1, 1)])


def test_a_job_that_was_looked_at_in_vain_is_not_looked_at_again_for_a_while() -> None:
    world = make_snapshot(nodes=nodes(2, gpus=1), running=[scattered()])
    after = apply(world, decide(world, GANDIVA))
    run = after.running_by_job[1]
    assert run.job.policy_state == {"looked": NOW}
    assert compose(GANDIVA).policy.next_change(run.job, run, NOW) == NOW + 300


def test_jobs_are_moved_to_make_room_for_a_gang() -> None:
    world = make_snapshot(
        nodes=nodes(2),
        waiting=[job(9, 4)],
        running=[runs(job(1, 1), (1, [0]), ago_s=400), runs(job(2, 3), (2, [0, 1, 2]), ago_s=400)],
    )
    plan = decide(world, GANDIVA)
    assert check(world, plan, compose(GANDIVA).admission) == ()
    assert where(plan) == {9: [(1, 4)], 1: [(2, 1)]}
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1, 1)]


def test_no_job_is_moved_soon_after_its_start_to_make_room() -> None:
    world = make_snapshot(
        nodes=nodes(2),
        waiting=[job(9, 4)],
        running=[runs(job(1, 1), (1, [0])), runs(job(2, 3), (2, [0, 1, 2]))],
    )
    assert decide(world, GANDIVA).places == ()


# Probation


def moved(speed: float | None, *, before: float = 10.0, ago_s: float = 70.0, **fields: Any) -> Running:
    """A job on two GPUs of node 3 that had one on each of the nodes 1 and 2 before."""
    policy_state = {"before": before, "left 1": 1.0, "left 2": 1.0, "apart 7": 1.0}
    return replace(runs(lot(1, 2, **{"policy_state": policy_state, **fields}), (3, [0, 1]), ago_s=ago_s), speed=speed)


KEPT = {"apart 7": 1.0}
TRIALS: dict[str, tuple[Running, Mapping[str, Any], list[tuple[int, int]] | None, Mapping[str, float] | None]] = {
    "who is slower than before goes back": (moved(9.0), {}, [(1, 1), (2, 1)], {**KEPT, "stays": 1.0}),
    "who is faster stays": (moved(11.0), {}, None, KEPT),
    "who is hardly slower stays": (moved(9.6), {}, None, KEPT),
    "not before the trial is over": (moved(9.0, ago_s=50), {}, None, None),
    "not while its speed is unknown": (moved(None), {}, None, None),
    "not while another one is beside it": (replace(moved(9.0), rate=0.5), {}, None, None),
    "not without trials": (moved(9.0), {"trial_s": None}, None, None),
    "not when it ends before a restart would": (
        moved(9.0, remaining_s=80.0, expected_s=90.0),
        {"restart_s": 30},
        None,
        {**KEPT, "stays": 1.0},
    ),
}


@pytest.mark.parametrize(("run", "params", "found", "policy_state"), TRIALS.values(), ids=list(TRIALS))
def test_who_goes_back_after_a_move(
    run: Running, params: Mapping[str, Any], found: Any, policy_state: Mapping[str, float] | None
) -> None:
    world = make_snapshot(nodes=nodes(3), running=[run])
    plan = decide(world, gandiva(**params))
    assert check(world, plan, compose(GANDIVA).admission) == ()
    assert where(plan).get(1) == found
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == ([] if found is None else [(1, 1)])
    assert {note.job_id: note.policy_state for note in plan.notes}.get(1) == policy_state


def test_who_cannot_go_back_stays_and_is_not_moved_again() -> None:
    world = make_snapshot(nodes=nodes(3, gpus=2), running=[moved(5.0), runs(job(2, 2), (1, [0, 1]))])
    plan = decide(world, GANDIVA)
    assert (plan.places, plan.notes[0].policy_state) == ((), {**KEPT, "stays": 1.0})


def test_a_move_is_remembered_with_the_speed_and_the_place_of_before() -> None:
    config = gandiva(trial_s=30)
    world = make_snapshot(nodes=nodes(2), running=[replace(scattered(), speed=8.0)])
    after = apply(world, decide(world, config))
    stopped = after.running_by_job[1].job.policy_state
    assert stopped == {"before": 8.0, "left 1": 1.0, "left 2": 1.0}
    world = carried_out(world, config)
    run = world.running_by_job[1]
    assert (where_is(run), run.job.policy_state) == ([(1, 2)], stopped)
    assert compose(config).policy.next_change(run.job, run, run.placed_at) == run.placed_at + 30
    # It is slower there, goes back, and stays.
    slow = later(replace(world, running=(replace(run, speed=4.0),)), NOW + 40)
    back = carried_out(slow, config).running_by_job[1]
    assert (where_is(back), back.job.policy_state) == ([(1, 1), (2, 1)], {"stays": 1.0})
    assert decide(later(make_snapshot(nodes=nodes(2), running=[back]), NOW + 1e6), config).places == ()


def test_no_probation_starts_for_a_job_of_unknown_speed() -> None:
    world = make_snapshot(nodes=nodes(2), running=[scattered()])
    assert decide(world, GANDIVA).notes == ()


def test_who_was_slower_elsewhere_makes_no_room_by_moving() -> None:
    world = make_snapshot(
        nodes=nodes(2),
        waiting=[job(9, 4)],
        running=[
            runs(job(1, 1, policy_state={"stays": 1.0}), (1, [0]), ago_s=400),
            runs(job(2, 3, policy_state={"stays": 1.0}), (2, [0, 1, 2]), ago_s=400),
        ],
    )
    assert decide(world, gandiva(slice_s=None)).places == ()


def test_a_job_that_growth_made_slower_shrinks_and_does_not_grow_so_far_again() -> None:
    config = gandiva(grow_after_s=50)
    policy_state = {"before": 10.0, "left 1": 1.0}
    run = replace(runs(elastic(policy_state=policy_state), (1, range(4)), ago_s=70), speed=8.0)
    plan = decide(make_snapshot(nodes=nodes(1), running=[run]), config)
    assert where(plan) == {1: [(1, 1)]}
    learnt = plan.notes[0].policy_state
    assert learnt == {"most": 3.0, "idle": NOW}
    grower = runs(elastic(policy_state={**learnt, "idle": NOW - 60}), (1, [0]), ago_s=70)
    assert where(decide(make_snapshot(nodes=nodes(1), running=[grower]), config)) == {1: [(1, 3)]}


@pytest.mark.parametrize("wide", [True, False], ids=["a lot", "a rank"])
def test_cpus_and_memory_follow_the_gpus_of_one_that_grows(wide: bool) -> None:
    grower = rank(2, policy_state={"idle": NOW - 50}, cpus=6, memory_mib=1000)
    grower = asking(grower, split=wide, **({"cpus": 3, "memory_mib": 500} if wide else {}))
    share = replace(make_share(1, [0, 1]), cpus=6, memory_mib=1000)
    run = replace(make_running(share, attempt_id=1, job=grower), placed_at=NOW - 10)
    plan = decide(make_snapshot(nodes=[make_node(1, gpus=4, cpus=12)], running=[run]), gandiva(grow_after_s=50))
    assert [(share.gpu_ids, share.cpus, share.memory_mib) for share in plan.places[0].allocations] == [
        ((100, 101, 102, 103), 12, 2000)
    ]
    assert (
        decide(make_snapshot(nodes=[make_node(1, gpus=4, cpus=8)], running=[run]), gandiva(grow_after_s=50)).places
        == ()
    )


def rank(gpus: int, **fields: Any) -> Job:
    """A job of variable size on one node."""
    return job(1, gpus, **{"max_gpus": 4, "speeds": SPEEDS, **fields})


def test_a_rank_that_growth_made_slower_goes_back_to_its_size() -> None:
    policy_state = {"before": 10.0, "left 1": 2.0}
    share = replace(make_share(1, range(4)), cpus=2, memory_mib=2048)
    run = replace(make_running(share, attempt_id=1, job=rank(2, policy_state=policy_state)), placed_at=NOW - 70)
    plan = decide(make_snapshot(nodes=nodes(1), running=[replace(run, speed=8.0)]), gandiva(grow_after_s=50))
    assert check(make_snapshot(nodes=nodes(1), running=[run]), plan, compose(GANDIVA).admission) == ()
    assert where(plan) == {1: [(1, 2)]}
    assert plan.notes[0].policy_state["most"] == 3.0


def where_is(run: Running) -> list[tuple[int, int]]:
    return [(share.node_id, len(share.gpu_ids)) for share in run.allocations]


# Growing and shrinking

SPEEDS = (1.0, 1.9, 2.7, 3.4)


def elastic(job_id: int = 1, **fields: Any) -> Job:
    return lot(job_id, 1, **{"max_gpus": 4, "speeds": SPEEDS, **fields})


GROWTHS = {
    "it grows into what has been idle for long enough": (elastic(policy_state={"idle": NOW - 50}), [(1, 4)]),
    "not before that": (elastic(policy_state={"idle": NOW - 49}), None),
    "not beyond its largest size": (elastic(policy_state={"idle": NOW - 50}, max_gpus=2), [(1, 2)]),
    "not where it would become no faster": (
        elastic(policy_state={"idle": NOW - 50}, speeds=(1.0, 1.9, 1.9, 1.9)),
        [(1, 2)],
    ),
    "not without checkpoints": (elastic(policy_state={"idle": NOW - 50}, checkpoints=False), None),
    "not when what it would save is less than a restart": (
        elastic(policy_state={"idle": NOW - 50}, remaining_s=20.0, expected_s=20.0),
        None,
    ),
}


@pytest.mark.parametrize(("grower", "found"), GROWTHS.values(), ids=list(GROWTHS))
def test_who_grows(grower: Job, found: Any) -> None:
    world = make_snapshot(nodes=nodes(1), running=[runs(grower, (1, [0]))])
    plan = decide(world, gandiva(grow_after_s=50, restart_s=10))
    assert check(world, plan, compose(GANDIVA).admission) == ()
    assert where(plan).get(1) == found


def test_that_gpus_are_idle_is_remembered_from_the_first_look_on_and_forgotten_when_they_are_taken() -> None:
    config = gandiva(grow_after_s=50)
    world = make_snapshot(nodes=nodes(1, gpus=2), running=[runs(elastic(), (1, [0]))])
    world = apply(world, decide(world, config))
    run = world.running_by_job[1]
    assert run.job.policy_state == {"idle": NOW}
    assert compose(config).policy.next_change(run.job, run, NOW) == NOW + 50
    world = carried_out(later(world, NOW + 20, arrived=[job(2)]), config)
    assert (running(world), world.running_by_job[1].job.policy_state) == ({1, 2}, {})


def test_no_job_grows_by_default() -> None:
    world = make_snapshot(nodes=nodes(1), running=[runs(elastic(policy_state={"idle": NOW - 1e6}), (1, [0]))])
    assert decide(world, GANDIVA).places == ()


def test_no_job_grows_while_a_job_waits() -> None:
    world = make_snapshot(
        nodes=nodes(1), waiting=[job(9, 4)], running=[runs(elastic(policy_state={"idle": NOW - 100}), (1, [0]))]
    )
    assert where(decide(world, gandiva(grow_after_s=50, slice_s=None))) == {}


def test_a_grown_job_shrinks_as_soon_as_a_job_waits() -> None:
    world = make_snapshot(nodes=nodes(1), waiting=[job(9, 2)], running=[runs(elastic(), (1, range(4)), ago_s=1)])
    plan = decide(world, gandiva(grow_after_s=50))
    assert check(world, plan, compose(GANDIVA).admission) == ()
    assert where(plan) == {9: [(1, 2)], 1: [(1, 1)]}
    assert [(one.job_id, one.for_job_id) for one in plan.preempts] == [(1, 1)]


def test_a_job_that_has_grown_keeps_its_size_when_shrinking_would_not_help() -> None:
    world = make_snapshot(nodes=nodes(1), waiting=[job(9, 4)], running=[runs(elastic(), (1, range(4)), ago_s=1)])
    plan = decide(world, gandiva(grow_after_s=50))
    assert (plan.places, plan.preempts) == ((), ())


# Properties
