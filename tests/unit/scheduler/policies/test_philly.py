"""Philly's preset: quotas that may be exceeded while GPUs are idle, and locality relaxed by tries."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Locality, Running, Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Plan, apply, release
from scheduler.policies.philly.policy import Philly
from tests.profiles import examples
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

VCS = [make_vc(1, "a", {"A100": 6}), make_vc(2, "b", {"A100": 2})]


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="philly", policy_params=params, admission="open")


def lot(job_id: int, gpus: int, **fields: Any) -> Job:
    """A divisible gang."""
    return make_job(job_id, gpus=gpus, **{"split": True, "cpus": 0, "memory_mib": 0} | fields)


def where(plan: Plan) -> dict[int, dict[int, int]]:
    """The GPUs by node of each placed job."""
    return {p.job_id: {share.node_id: len(share.gpu_ids) for share in p.allocations} for p in plan.places}


def on(node_id: int, indexes: range, attempt_id: int, **fields: Any) -> Running:
    cpus = {"cpus": 0, "memory_mib": 0}
    return make_running(make_share(node_id, indexes, **cpus), attempt_id=attempt_id, **{**cpus, **fields})


def jobs(vc_id: int, count: int, **fields: Any) -> list[Job]:
    return [make_job(vc_id * 100 + n, vc_id=vc_id, **fields) for n in range(count)]


# Eight GPUs, six of which are the quota of virtual cluster 1.
SHARES: dict[str, tuple[list[Job], dict[int, int]]] = {
    "each its quota": (jobs(1, 9) + jobs(2, 9), {1: 6, 2: 2}),
    "idle GPUs are used beyond it": (jobs(2, 9), {2: 8}),
    "but not before those within theirs": (jobs(2, 9) + jobs(1, 4), {1: 4, 2: 4}),
}


@pytest.mark.parametrize(("waiting", "expected"), SHARES.values(), ids=SHARES)
def test_quotas_come_first_and_idle_gpus_are_anybodys(waiting: list[Job], expected: dict[int, int]) -> None:
    world = make_snapshot(vcs=VCS, waiting=waiting)
    vcs = [world.waiting_by_id[place.job_id].vc_id for place in decide(world, config()).places]
    assert {vc_id: vcs.count(vc_id) for vc_id in sorted(set(vcs))} == expected


PREEMPTED: dict[str, tuple[list[Running], Job, dict[str, Any], list[int]]] = {
    "the newest of who is beyond the quota": (
        [on(1, range(4), 1, vc_id=2), on(1, range(4, 8), 2, vc_id=2)],
        make_job(1),
        {},
        [1002],
    ),
    "not from one within it": ([on(1, range(6), 1), on(1, range(6, 8), 2, vc_id=2)], make_job(1, vc_id=2), {}, []),
    "not for one that would be beyond its own": ([on(1, range(8), 1, vc_id=2)], make_job(1, gpus=7), {}, []),
    "not while the pool is not full enough": ([on(1, range(7), 1, vc_id=2)], make_job(1, gpus=2), {}, []),
    "unless that is full enough": ([on(1, range(7), 1, vc_id=2)], make_job(1, gpus=2), {"preempt_above": 0.8}, [1001]),
}


@pytest.mark.parametrize(("running", "job", "params", "expected"), PREEMPTED.values(), ids=PREEMPTED)
def test_jobs_beyond_the_quota_are_preempted_in_a_full_pool(
    running: list[Running], job: Job, params: dict[str, Any], expected: list[int]
) -> None:
    plan = decide(make_snapshot(vcs=VCS, running=running, waiting=[job]), config(**params))
    assert [preempt.job_id for preempt in plan.preempts] == expected


# Racks r1 with nodes 1 and 2, r2 with 3 and 4; four GPUs each.
FOUR = [make_node(n, gpus=4, rack="r1" if n < 3 else "r2") for n in (1, 2, 3, 4)]


def after_tries(job: Job, times: int) -> Job:
    return replace(job, policy_state={"tries": float(times), "again_at": NOW - 1, "since": job.waiting_since})


PLACES: dict[str, tuple[list[Running], Job, dict[str, Any], dict[int, int] | None]] = {
    "a small job packs onto a server used in part": ([on(3, range(2), 1)], lot(1, 2), {}, {3: 2}),
    "also one that may not be split": ([on(3, range(2), 1)], make_job(1, gpus=2), {}, {3: 2}),
    "a gang goes to the rack with the most free GPUs": ([on(1, range(1), 1)], lot(1, 8), {}, {3: 4, 4: 4}),
    "a gang of ranks too": ([on(1, range(1), 1)], make_job(1, gpus=2, nodes=2), {}, {3: 2, 4: 2}),
    "on the fewest servers": ([on(1, range(3), 1)], lot(1, 4), {}, {2: 4}),
    "not on more of them at first": ([on(n, range(2), n) for n in (1, 2, 3, 4)], lot(1, 4), {}, None),
    "but after some tries": ([on(n, range(2), n) for n in (1, 2, 3, 4)], after_tries(lot(1, 4), 3), {}, {1: 2, 2: 2}),
    "not on several racks then": ([on(n, range(3), n) for n in (1, 2, 3, 4)], after_tries(lot(1, 4), 5), {}, None),
    "but after more": (
        [on(n, range(3), n) for n in (1, 2, 3, 4)],
        after_tries(lot(1, 4), 6),
        {},
        dict.fromkeys(range(1, 5), 1),
    ),
    "if its locality allows it": (
        [on(n, range(3), n) for n in (1, 2, 3, 4)],
        after_tries(lot(1, 4, locality=Locality.RACK), 9),
        {},
        None,
    ),
    "or after some time": (
        [on(n, range(2), n) for n in (1, 2, 3, 4)],
        lot(1, 4),
        {"relax_after_s": 500},
        {1: 2, 2: 2},
    ),
    "a long job waits for longer": (
        [on(n, range(2), n) for n in (1, 2, 3, 4)],
        after_tries(lot(1, 4, expected_s=14400.0), 11),
        {"long_jobs_wait_for_locality": True},
        None,
    ),
    "but a shorter one does not": (
        [on(n, range(2), n) for n in (1, 2, 3, 4)],
        after_tries(lot(1, 4, expected_s=14399.0), 11),
        {"long_jobs_wait_for_locality": True},
        {1: 2, 2: 2},
    ),
    "a gang has servers for itself": (
        [on(1, range(1), 1), on(3, range(1), 2)],
        make_job(1, gpus=2, nodes=2),
        {"dedicated_nodes": True},
        None,
    ),
    "when told so only": ([on(1, range(1), 1), on(3, range(1), 2)], make_job(1, gpus=2, nodes=2), {}, {1: 2, 2: 2}),
    "and no job joins a gang": (
        [make_running(make_share(1, (0,)), make_share(2, (0,), rank=1), attempt_id=1)],
        make_job(1),
        {"dedicated_nodes": True},
        {3: 1},
    ),
    "in a pool where nothing runs it waits for nothing": ([], lot(1, 13), {}, {1: 4, 2: 4, 3: 4, 4: 1}),
    "what it avoids is better than nothing": (
        [on(n, range(4), n) for n in (2, 3, 4)],
        lot(1, 2, avoid_nodes=(1,)),
        {},
        {1: 2},
    ),
    "but only than nothing": ([], lot(1, 4, avoid_nodes=(1, 2)), {}, {3: 4}),
}


@pytest.mark.parametrize(("running", "job", "params", "expected"), PLACES.values(), ids=PLACES)
def test_a_gang_lies_as_close_together_as_its_tries_ask(
    running: list[Running], job: Job, params: dict[str, Any], expected: dict[int, int] | None
) -> None:
    world = make_snapshot(nodes=FOUR, running=running, waiting=[job])
    assert where(decide(world, config(**params))).get(1) == expected


@pytest.mark.parametrize(("takes_jobs", "expected"), [(True, None), (False, {1: 2, 2: 2})])
def test_it_waits_only_for_jobs_on_schedulable_nodes(takes_jobs: bool, expected: dict[int, int] | None) -> None:
    nodes = [make_node(n, gpus=2, rack=f"r{n % 2}") for n in (1, 2)]
    apart = make_node(3, gpus=4, rack="r3", schedulable=takes_jobs)
    world = make_snapshot(nodes=[*nodes, apart], running=[on(3, range(1), 1)], waiting=[lot(1, 4)])
    assert where(decide(world, config())).get(1) == expected


SCATTERED = make_snapshot(
    nodes=FOUR, running=[on(n, range(2), n, checkpoints=True) for n in (1, 2, 3, 4)], waiting=[lot(1, 4)]
)


def test_an_incomplete_gang_backs_off_with_a_reason() -> None:
    plan = decide(SCATTERED, config())
    assert plan.notes[0].policy_state == {
        "tries": 1.0,
        "again_at": NOW + 120,
        "since": SCATTERED.waiting[0].waiting_since,
    }
    assert (plan.holds[0].reason, plan.holds[0].evidence["tries"]) == (HoldReason.FRAGMENTED, 1)
    assert "1970-01-12T13:48:40" in plan.holds[0].detail


def test_it_is_not_tried_again_before_that() -> None:
    world = apply(SCATTERED, decide(SCATTERED, config(tries=1)))
    soon, late = replace(world, now=NOW + 119), replace(world, now=NOW + 120)
    assert where(decide(soon, config(tries=1))) == {}
    assert decide(soon, config(tries=1)).notes == ()
    assert where(decide(late, config(tries=1))) == {1: {1: 2, 2: 2}}


def test_one_that_lacks_gpus_does_not_back_off() -> None:
    world = make_snapshot(running=[on(1, range(6), 1)], waiting=[lot(1, 4)])
    plan = decide(world, config())
    assert plan.notes == ()
    assert plan.holds[0].reason is HoldReason.NO_FREE_GPUS


def test_the_tries_of_an_earlier_wait_do_not_count() -> None:
    old = replace(after_tries(lot(1, 4), 9), requeued_at=NOW - 5)
    assert where(decide(replace(SCATTERED, waiting=(old,)), config())) == {}


def test_while_one_backs_off_another_that_asks_for_the_same_is_tried() -> None:
    first = replace(lot(1, 4), policy_state={"tries": 1.0, "again_at": NOW + 60, "since": lot(1, 4).waiting_since})
    world = make_snapshot(nodes=FOUR, running=[on(1, range(1), 1)], waiting=[first, lot(2, 4)])
    assert list(where(decide(world, config()))) == [2]


def test_one_that_backs_off_does_not_preempt_either() -> None:
    backs_off = replace(make_job(1, gpus=2), policy_state={"tries": 1.0, "again_at": NOW + 60, "since": NOW - 599})
    assert backs_off.waiting_since == NOW - 599
    world = make_snapshot(vcs=VCS, running=[on(1, range(8), 1, vc_id=2)], waiting=[backs_off])
    assert decide(world, config()).preempts == ()
    assert len(decide(replace(world, now=NOW + 60), config()).preempts) == 1


DEDICATED = config(dedicated_nodes=True)


@pytest.mark.parametrize(("times", "again_at"), [(5, NOW + 120), (6, 0.0)])
def test_who_has_nothing_more_to_give_up_backs_off_no_longer(times: int, again_at: float) -> None:
    world = replace(SCATTERED, waiting=(after_tries(lot(1, 6), times),))
    (note,) = decide(world, DEDICATED).notes
    assert (note.policy_state["tries"], note.policy_state["again_at"]) == (times + 1, again_at)


def test_it_is_tried_at_each_decision_instead() -> None:
    fully_relaxed = after_tries(lot(1, 6), 7)
    world = replace(SCATTERED, waiting=(fully_relaxed,))
    assert decide(world, DEDICATED).notes == ()
    assert Philly(dedicated_nodes=True).next_change(fully_relaxed, None, NOW) is None
    freed = replace(world, running=world.running[:2])
    assert where(decide(freed, DEDICATED)) == {1: {3: 4, 4: 2}}


def test_it_keeps_its_place_in_the_queue() -> None:
    world = make_snapshot(
        nodes=FOUR, running=[on(n, range(4), n) for n in (2, 3, 4)], waiting=[after_tries(lot(1, 4), 7), lot(2, 4)]
    )
    assert list(where(decide(world, config()))) == [1]
    first = replace(world, waiting=(replace(lot(1, 4), submitted_at=NOW - 700), after_tries(lot(2, 4), 7)))
    assert list(where(decide(first, config()))) == [1]


def test_jobs_that_make_checkpoints_move_to_make_room() -> None:
    plan = decide(SCATTERED, config(migrate_to_defragment=True))
    moved = [preempt.job_id for preempt in plan.preempts]
    assert len(moved) == 1
    assert all(preempt.for_job_id == preempt.job_id for preempt in plan.preempts)
    places = where(plan)
    assert places.keys() == {1, *moved}
    assert list(places[1].values()) == [4]


def test_jobs_without_checkpoints_are_not_moved() -> None:
    still = tuple(replace(run, job=replace(run.job, checkpoints=False)) for run in SCATTERED.running)
    assert decide(replace(SCATTERED, running=still), config(migrate_to_defragment=True)).preempts == ()


CHANGES: dict[str, tuple[Job, dict[str, Any], float | None]] = {
    "at the end of its back-off": (
        replace(after_tries(lot(1, 4), 1), policy_state={"again_at": NOW + 7, "since": NOW - 599}),
        {},
        NOW + 7,
    ),
    "when time lets it lie further apart": (lot(1, 4), {"relax_after_s": 400}, NOW - 599 + 800),
    "else never": (lot(1, 4), {}, None),
}


@pytest.mark.parametrize(("job", "params", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_waiting_job_is_looked_at_again(job: Job, params: dict[str, Any], expected: float | None) -> None:
    assert Philly(**params).next_change(job, None, NOW) == expected


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    def one(job_id: int) -> Job:
        fields: dict[str, Any] = {
            "vc_id": draw(st.integers(1, 3)),
            "locality": draw(st.sampled_from(Locality)),
            "checkpoints": draw(st.booleans()),
            "preemptible": draw(st.integers(0, 3)) > 0,
            "gpu_type": draw(st.sampled_from(["A100", None])),
            "avoid_nodes": draw(st.sampled_from([(), (1,)])),
            "cpus": draw(st.sampled_from([0, 1, 20])),
        }
        if draw(st.booleans()):
            job = lot(job_id, draw(st.integers(1, 6)), **fields)
        else:
            job = make_job(job_id, gpus=draw(st.integers(0, 4)), nodes=draw(st.integers(1, 2)), **fields)
        return after_tries(job, draw(st.integers(1, 7))) if draw(st.booleans()) else job

    nodes = [*FOUR[:3], make_node(4, gpus=2, gpu_type="V100", rack="r2")]
    world = make_snapshot(nodes=nodes, vcs=VCS, waiting=[one(n) for n in range(1, 1 + draw(st.integers(0, 5)))])
    world = apply(world, decide(world, config()))
    return replace(world, now=NOW + 200, waiting=(*world.waiting, *(one(n) for n in range(11, 16))))


SWITCHES = st.fixed_dictionaries(
    {
        "dedicated_nodes": st.booleans(),
        "migrate_to_defragment": st.booleans(),
        "preempt_above": st.sampled_from([0.0, 0.9]),
    }
)


@settings(max_examples=examples(150))
@given(worlds(), SWITCHES, st.sampled_from([1, 256]), st.sampled_from(["open", "borrow", "quota"]))
def test_a_plan_never_breaks_the_law(world: Snapshot, params: dict[str, Any], max_places: int, admission: str) -> None:
    chosen = replace(config(**params), max_places=max_places, admission=admission)
    for _ in range(2):
        plan = decide(world, chosen)
        assert check(world, plan, compose(chosen).admission) == ()
        answered = [place.job_id for place in plan.places if place.job_id in world.waiting_by_id]
        answered += [hold.job_id for hold in plan.holds]
        assert sorted(answered) == sorted(one.id for one in world.waiting)
        after = apply(world, plan)
        world = replace(release(after, [run.job.id for run in after.running if run.stopping]), now=world.now + 200)
