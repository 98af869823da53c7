"""The borrowing admission: guaranteed jobs have the quota, opportunistic ones what is idle until it is wanted."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission.borrow import GUARANTEE_EXCEEDED
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Running, Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import Place, Plan, Preempt, apply, release
from tests.profiles import examples
from tests.unit.scheduler.factories import (
    NOW,
    make_job,
    make_node,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)

VCS = [make_vc(1, "a", {"A100": 4}), make_vc(2, "b", {"A100": 4})]
LENT = {"job_class": JobClass.OPPORTUNISTIC}


def config(policy: str = "fifo", **params: Any) -> CycleConfig:
    return CycleConfig(policy=policy, policy_params=params, admission="borrow")


def run(attempt_id: int, indexes: range, **fields: Any) -> Running:
    return make_running(make_share(1, indexes), attempt_id=attempt_id, **fields)


def placed(plan: Plan) -> list[int]:
    return sorted(place.job_id for place in plan.places)


def preempted(plan: Plan) -> list[tuple[int, int]]:
    return [(preempt.job_id, preempt.for_job_id) for preempt in plan.preempts]


# Eight GPUs; virtual clusters 1 and 2 have a quota of four each.
ADMITTED: dict[str, tuple[list[Running], list[Job], list[int]]] = {
    "a guaranteed job within the quota": ([], [make_job(1, gpus=4)], [1]),
    "not beyond it": ([], [make_job(1, gpus=4), make_job(2)], [1]),
    "an opportunistic one beyond it": ([], [make_job(1, gpus=4), make_job(2, gpus=4, **LENT)], [1, 2]),
    "one of a virtual cluster without any quota": ([], [make_job(1, vc_id=3, **LENT)], [1]),
    "what opportunistic jobs use is not of the quota": ([run(1, range(4), **LENT)], [make_job(1, gpus=4)], [1]),
    "what guaranteed jobs use is": ([run(1, range(1))], [make_job(1, gpus=4), make_job(2, gpus=3)], [2]),
    "of jobs that ask for the same, those that may start do": (
        [run(1, range(4))],
        [make_job(1), make_job(2), make_job(3, **LENT)],
        [3],
    ),
    "guaranteed jobs go first": ([], [make_job(1, gpus=8, **LENT), make_job(2)], [2]),
}


@pytest.mark.parametrize(("running", "waiting", "expected"), ADMITTED.values(), ids=ADMITTED)
def test_quotas_bind_guaranteed_jobs_only(running: list[Running], waiting: list[Job], expected: list[int]) -> None:
    assert placed(decide(make_snapshot(vcs=VCS, running=running, waiting=waiting), config())) == expected


def test_a_job_beyond_the_quota_is_told_so() -> None:
    world = make_snapshot(vcs=VCS, running=[run(1, range(2))], waiting=[make_job(1, gpus=3), make_job(2, gpus=5)])
    holds = {hold.job_id: hold for hold in decide(world, config()).holds}
    assert holds[1].reason is HoldReason.QUOTA
    assert holds[1].detail == "guaranteed jobs of a use 2 of its 4 A100; this job needs 3"
    assert "one A100 of its guaranteed jobs becomes free" in holds[1].helps
    assert holds[2].reason is HoldReason.QUOTA_TOO_SMALL


POLICIES = ["fifo", "srtf", "drf", "capacity", "fair"]
LOANS = [run(1, range(3), **LENT), replace(run(2, range(3, 8), vc_id=2, **LENT), placed_at=NOW - 30)]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_guaranteed_job_reclaims_lent_gpus(policy: str) -> None:
    world = make_snapshot(vcs=VCS, running=LOANS, waiting=[make_job(1, gpus=4)])
    assert preempted(decide(world, config(policy))) == [(1002, 1)]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_gpus_are_reclaimed_than_needed(policy: str) -> None:
    world = make_snapshot(vcs=VCS, running=LOANS[:1], waiting=[make_job(1, gpus=4)])
    plan = decide(world, config(policy))
    assert (placed(plan), preempted(plan)) == ([1], [])


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_reclaimed_for_a_job_beyond_its_quota(policy: str) -> None:
    world = make_snapshot(vcs=VCS, running=LOANS, waiting=[make_job(1, gpus=5)])
    assert preempted(decide(world, config(policy))) == []


@pytest.mark.parametrize("policy", ["fifo", "drf"])
def test_an_opportunistic_job_reclaims_nothing(policy: str) -> None:
    world = make_snapshot(vcs=VCS, running=LOANS, waiting=[make_job(1, priority=9, **LENT)])
    assert preempted(decide(world, config(policy))) == []


def test_a_job_that_is_not_preemptible_keeps_its_gpus() -> None:
    world = make_snapshot(vcs=VCS, running=[run(1, range(8), preemptible=False, **LENT)], waiting=[make_job(1)])
    assert preempted(decide(world, config())) == []


OUT = make_node(2, gpus=4, schedulable=False, unschedulable_reason="drains")
USELESS: dict[str, tuple[Running, Job]] = {
    "it is on a node that drains": (make_running(make_share(2, range(4)), **LENT), make_job(1, gpus=4)),
    "a part of it is": (
        make_running(make_share(1, range(2)), make_share(2, range(2), rank=1), **LENT),
        make_job(1, gpus=4, nodes=2),
    ),
    "its GPUs are broken": (make_running(make_share(3, range(4)), **LENT), make_job(1, gpus=4)),
}


@pytest.mark.parametrize(("lent", "job"), USELESS.values(), ids=USELESS)
def test_gpus_that_help_no_job_are_not_reclaimed(lent: Running, job: Job) -> None:
    taken = make_running(make_share(1, range(2, 4)), attempt_id=2, preemptible=False, vc_id=2)
    nodes = [make_node(1, gpus=4), OUT, make_node(3, gpus=4, unhealthy=range(4))]
    world = make_snapshot(nodes=nodes, vcs=[make_vc()], running=[lent, taken], waiting=[job])
    assert preempted(decide(world, config())) == []


def test_a_useless_victim_stays_beside_a_useful_one() -> None:
    useless = replace(make_running(make_share(2, range(4)), attempt_id=1, **LENT), placed_at=NOW)  # the newest
    useful = make_running(make_share(1, range(4)), attempt_id=2, **LENT)
    world = make_snapshot(nodes=[make_node(1, gpus=4), OUT], running=[useless, useful], waiting=[make_job(1, gpus=4)])
    assert preempted(decide(world, config())) == [(1002, 1)]


def test_an_opportunistic_job_is_not_preempted_back_by_the_order_of_a_policy() -> None:
    # By the order of srtf, job 1 with its 10 s goes before the running job.
    world = make_snapshot(
        vcs=VCS,
        running=[run(1, range(4), expected_s=9e5, remaining_s=9e5), run(2, range(4, 8), vc_id=2, remaining_s=9e5)],
        waiting=[make_job(1, expected_s=10.0, remaining_s=10.0, **LENT)],
    )
    assert preempted(decide(world, config("srtf"))) == []
    guaranteed = replace(world, waiting=(make_job(1, expected_s=10.0, remaining_s=10.0),))
    assert preempted(decide(guaranteed, config("srtf"))) == [(1001, 1)]


CHECKED: dict[str, tuple[list[Running], Job, list[Preempt], bool]] = {
    "a guaranteed place beyond the quota": ([run(1, range(2))], make_job(1, gpus=3), [], True),
    "one within it": ([run(1, range(1))], make_job(1, gpus=3), [], False),
    "one beside opportunistic jobs": ([run(1, range(4), **LENT)], make_job(1, gpus=3), [], False),
    "an opportunistic one beyond it": ([run(1, range(4))], make_job(1, gpus=3, **LENT), [], False),
    "one that a preemption makes room for": ([run(1, range(4))], make_job(1, gpus=3), [Preempt(1001, 1, "")], False),
    "one that takes the place of an opportunistic job": (
        [run(1, range(4), **LENT), run(2, range(4, 6))],
        make_job(1, gpus=3),
        [Preempt(1001, 1, "")],
        True,
    ),
    "an opportunistic job that takes a guaranteed one's place": (
        [run(1, range(4))],
        make_job(1, gpus=3, **LENT),
        [Preempt(1001, 1, "")],
        True,
    ),
}


@pytest.mark.parametrize(("running", "job", "preempts", "invalid"), CHECKED.values(), ids=CHECKED)
def test_the_admission_finds_violations(
    running: list[Running], job: Job, preempts: list[Preempt], invalid: bool
) -> None:
    nodes = [make_node(1), make_node(2)]
    world = make_snapshot(nodes=nodes, vcs=VCS, running=running, waiting=[job])
    plan = Plan((Place(1, (make_share(2, range(3)),)),), (), tuple(preempts))
    codes = [violation.code for violation in check(world, plan, compose(config()).admission)]
    assert codes == ([GUARANTEE_EXCEEDED] if invalid else [])


@st.composite
def lent_worlds(draw: st.DrawFn) -> Snapshot:
    """Two nodes, jobs of both classes, of which some run."""

    def job(job_id: int) -> Job:
        left_s, split = draw(st.floats(1, 1e5)), draw(st.booleans())
        return make_job(
            job_id,
            gpus=draw(st.integers(1 if split else 0, 4)),
            nodes=1 if split else draw(st.integers(1, 2)),
            **{"split": True, "cpus": 0, "memory_mib": 0} if split else {},
            vc_id=draw(st.integers(1, 3)),
            owner_id=draw(st.integers(1, 2)),
            job_class=draw(st.sampled_from(JobClass)),
            preemptible=draw(st.integers(0, 4)) > 0,
            priority=draw(st.integers(0, 1)),
            expected_s=left_s,
            remaining_s=left_s,
        )

    def jobs(first: int, most: int) -> list[Job]:
        return [job(n) for n in range(first, first + draw(st.integers(0, most)))]

    nodes = [make_node(1, gpus=4), make_node(2, gpus=4)]
    world = make_snapshot(nodes=nodes, vcs=VCS, waiting=jobs(1, 6))
    world = apply(world, decide(world, config()))
    return replace(world, now=NOW + 100, waiting=(*world.waiting, *jobs(11, 6)))


@settings(max_examples=examples(150))
@given(lent_worlds(), st.sampled_from([*POLICIES, "tiresias"]))
def test_plans_are_valid_and_preempt_no_guaranteed_job_for_another(world: Snapshot, policy: str) -> None:
    for _ in range(3):
        plan = decide(world, config(policy))
        assert check(world, plan, compose(config(policy)).admission) == ()
        after = apply(world, plan)
        world = release(after, [run.job.id for run in after.running if run.stopping])
        held = {vc.id: 0 for vc in VCS}
        for one in world.running:
            if one.job.job_class is JobClass.GUARANTEED and one.job.vc_id in held:
                held[one.job.vc_id] += one.gpus
        assert all(gpus <= 4 for gpus in held.values())


@settings(max_examples=examples(80))
@given(lent_worlds(), st.sampled_from(["fifo", "srtf", "drf"]))
def test_no_job_starts_only_to_be_preempted(world: Snapshot, policy: str) -> None:
    plan = decide(world, config(policy))
    after = apply(world, plan)
    after = release(after, [run.job.id for run in after.running if run.stopping])
    second = decide(after, config(policy))
    started = {place.job_id for place in plan.places if world.waiting_by_id.get(place.job_id)}
    assert not started & {preempt.job_id for preempt in second.preempts}
