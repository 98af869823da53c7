"""Pending reasons: the reason, the sentence and the help that the owner reads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Node, Running, VirtualCluster
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Hold
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


@dataclass(frozen=True)
class Case:
    """A pool in which job 1 waits, and what it is told."""

    reason: HoldReason
    detail: str
    helps: Sequence[str]
    job: Job
    nodes: Iterable[Node] = (make_node(1), make_node(2))
    running: Iterable[Running] = ()
    vcs: Iterable[VirtualCluster] = (make_vc(),)


def using(node_id: int, gpus: int, **size: int) -> Running:
    return make_running(make_share(node_id, range(gpus), **size), attempt_id=node_id)


SIX_OF_EIGHT = (using(1, 6),)
CASES = {
    "a quota in use": Case(
        HoldReason.QUOTA,
        "vision uses 6 of its 8 A100; this job needs 4",
        ["2 A100 of vision become free", "ask an operator to raise the quota of vision"],
        make_job(gpus=4),
        running=SIX_OF_EIGHT,
        vcs=[make_vc(quotas={"A100": 8})],
    ),
    "a quota that is too small": Case(
        HoldReason.QUOTA_TOO_SMALL,
        "the quota of vision is 8 A100; this job needs 16",
        ["ask for at most 8 A100", "ask an operator to raise the quota of vision"],
        make_job(gpus=8, nodes=2),
        vcs=[make_vc(quotas={"A100": 8})],
    ),
    "no quota at all": Case(
        HoldReason.QUOTA_TOO_SMALL,
        "the quota of vision is no A100; this job needs 1",
        ["ask an operator to raise the quota of vision"],
        make_job(),
        vcs=[make_vc(quotas={})],
    ),
    "any type: a quota in use rather than one that is too small": Case(
        HoldReason.QUOTA,
        "vision uses 6 of its 8 V100; this job needs 4",
        ["2 V100 of vision become free", "ask an operator to raise the quota of vision"],
        make_job(gpus=4, gpu_type=None),
        nodes=[make_node(1, gpu_type="V100"), make_node(2)],
        running=SIX_OF_EIGHT,
        vcs=[make_vc(quotas={"V100": 8, "A100": 2})],
    ),
    "a type that the pool does not have": Case(
        HoldReason.INFEASIBLE,
        "no node of this pool has H100",
        ["ask for A100 or V100"],
        make_job(gpu_type="H100"),
        nodes=[make_node(1), make_node(2, gpu_type="V100")],
    ),
    "any type in a pool without GPUs": Case(
        HoldReason.INFEASIBLE,
        "this pool has no GPUs",
        ["use a virtual cluster of another pool"],
        make_job(gpu_type=None),
        nodes=[make_node(1, gpus=0)],
    ),
    "more GPUs per node than any node has": Case(
        HoldReason.INFEASIBLE,
        "this job needs 16 A100 per node; the largest node of this pool has 8",
        ["ask for at most 8 GPUs per node and for more nodes"],
        make_job(gpus=16),
    ),
    "more nodes than the pool has": Case(
        HoldReason.INFEASIBLE,
        "this job needs 3 nodes with 8 A100; this pool has 2",
        ["ask for at most 2 nodes with 8 A100"],
        make_job(gpus=8, nodes=3),
    ),
    "more nodes without GPUs than the pool has": Case(
        HoldReason.INFEASIBLE,
        "this job needs 3 nodes; this pool has 2",
        ["ask for at most 2 nodes"],
        make_job(gpus=0, nodes=3),
    ),
    "more CPUs than any node has": Case(
        HoldReason.INFEASIBLE,
        "of 2 nodes with 1 A100, none has 65 CPUs and 1 GiB of memory; this job needs 1 node",
        ["ask for fewer CPUs or less memory per node"],
        make_job(cpus=65),
    ),
    "a pool whose nodes are yet to join": Case(
        HoldReason.NO_FREE_GPUS, "this pool has no nodes yet", ["a node joins the pool"], make_job(), nodes=[]
    ),
    "any type in a pool whose nodes are yet to join": Case(
        HoldReason.NO_FREE_GPUS,
        "this pool has no nodes yet",
        ["a node joins the pool"],
        make_job(gpu_type=None),
        nodes=[],
    ),
    "too few free GPUs": Case(
        HoldReason.NO_FREE_GPUS,
        "of 16 A100 in this pool, 2 are free; this job needs 4",
        ["2 more A100 become free"],
        make_job(gpus=4),
        running=[using(1, 8), using(2, 6)],
    ),
    "no free GPU, and some out of service": Case(
        HoldReason.NO_FREE_GPUS,
        "of 17 A100 in this pool, none is free and 9 are out of service; this job needs 1",
        ["one more A100 becomes free", "an operator brings A100 back into service"],
        make_job(),
        nodes=[make_node(1), make_node(2, schedulable=False), make_node(3, gpus=1, unhealthy=[0])],
        running=[using(1, 8)],
    ),
    "free GPUs on too many nodes": Case(
        HoldReason.FRAGMENTED,
        "4 A100 are free, at most 2 on one node; this job needs 4 on one",
        ["4 A100 become free on one node", "ask for fewer GPUs per node: the largest free node has 2"],
        make_job(gpus=4),
        running=[using(1, 6), using(2, 6)],
    ),
    "too few nodes with enough free GPUs": Case(
        HoldReason.FRAGMENTED,
        "9 A100 are free, but 1 node has 4 of them; this job needs 2 that do",
        ["4 A100 become free on one more node", "ask for at most 1 node with 4 A100"],
        make_job(gpus=4, nodes=2),
        running=[using(1, 7)],
    ),
    "no node with enough free GPUs for a gang": Case(
        HoldReason.FRAGMENTED,
        "6 A100 are free, but no node has 3 of them; this job needs 2 that do",
        [
            "3 A100 become free on each of 2 more nodes",
            "ask for fewer GPUs per node: the largest free node has 2",
        ],
        make_job(gpus=3, nodes=2),
        nodes=[make_node(1), make_node(2), make_node(3)],
        running=[using(1, 6), using(2, 6), using(3, 6)],
    ),
    "too few CPUs beside the GPUs": Case(
        HoldReason.CPU_OR_MEMORY,
        "of 2 nodes with 1 free A100, none has 16 CPUs free and 2 have 1 GiB of memory; "
        "this job needs 1 node with both",
        ["ask for at most 4 CPUs per node"],
        make_job(cpus=16),
        running=[using(1, 1, cpus=62), using(2, 1, cpus=60)],
    ),
    "too little memory beside the GPUs": Case(
        HoldReason.CPU_OR_MEMORY,
        "of 1 node with 1 free A100, 1 has 1 CPU free and none has 500000 MiB of memory; "
        "this job needs 1 node with both",
        ["ask for at most 487 GiB of memory per node"],
        make_job(memory_mib=500_000),
        nodes=[make_node(1)],
        running=[using(1, 1, memory_mib=25 * 1024)],
    ),
    "CPUs on one node and memory on another": Case(
        HoldReason.CPU_OR_MEMORY,
        "of 2 nodes with 1 free A100, 1 has 16 CPUs free and 1 has 256 GiB of memory; this job needs 1 node with both",
        ["ask for fewer CPUs or less memory per node"],
        make_job(cpus=16, memory_mib=256 * 1024),
        running=[using(1, 1, cpus=60), using(2, 1, memory_mib=400 * 1024)],
    ),
    "a job without GPUs, and nodes out of service": Case(
        HoldReason.CPU_OR_MEMORY,
        "of 1 node in service, 1 has 1 CPU free and 1 has 1 GiB of memory; this job needs 2 nodes with both",
        ["1 more node in service"],
        make_job(gpus=0, nodes=2),
        nodes=[make_node(1), make_node(2, schedulable=False)],
    ),
    "a back-off": Case(
        HoldReason.BACK_OFF,
        "this job is tried again at 1970-01-12T13:47:40+00:00",
        ["nothing to do: it retries by itself"],
        make_job(eligible_at=NOW + 60, requeued_at=NOW),
    ),
    "a time at which it may begin": Case(
        HoldReason.BEGIN,
        "begins at 1970-01-12T13:47:40+00:00",
        ["nothing to do: it is scheduled from then on"],
        make_job(eligible_at=NOW + 60),
    ),
    "a last attempt that still stops": Case(
        HoldReason.STILL_STOPPING,
        "the last attempt of this job has not released all its nodes",
        ["its last processes end"],
        make_job(still_stopping=True),
    ),
    "what lasts for ever goes before what passes": Case(
        HoldReason.INFEASIBLE,
        "no node of this pool has H100",
        ["ask for A100"],
        make_job(gpu_type="H100", still_stopping=True, eligible_at=NOW + 60),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_job_is_told_why_it_waits(case: Case) -> None:
    world = make_snapshot(nodes=case.nodes, waiting=[case.job], running=case.running, vcs=case.vcs)
    plan = decide(world, CycleConfig())
    assert plan.places == ()
    (hold,) = plan.holds
    assert (hold.reason, hold.detail, list(hold.helps)) == (case.reason, case.detail, list(case.helps))
    assert hold.position == 1


def holds(*jobs: Job, max_places: int = 256) -> dict[int, Hold]:
    world = make_snapshot(waiting=jobs, vcs=[make_vc(1), make_vc(2, "speech")])
    return {hold.job_id: hold for hold in decide(world, CycleConfig(max_places=max_places)).holds}


def test_the_evidence_has_the_numbers_of_the_sentence() -> None:
    world = make_snapshot(waiting=[make_job(gpus=4)], running=SIX_OF_EIGHT, vcs=[make_vc(quotas={"A100": 8})])
    (hold,) = decide(world, CycleConfig()).holds
    assert hold.evidence == {"vc": "vision", "gpu_type": "A100", "used": 6, "quota": 8, "needed": 4}


def test_the_numbers_are_those_after_all_places_of_the_plan() -> None:
    told = holds(make_job(1, gpus=6), make_job(2, gpus=3), make_job(3, gpus=2))
    assert told[2].detail == "of 8 A100 in this pool, none is free; this job needs 3"


def test_the_position_counts_the_jobs_of_the_same_virtual_cluster_that_still_wait() -> None:
    blocked = make_job(gpus=8)
    told = holds(
        make_job(1),
        replace(blocked, id=2, submitted_at=2.0),
        replace(blocked, id=3, submitted_at=1.0),
        replace(blocked, id=4, submitted_at=3.0, vc_id=2),
        replace(blocked, id=5, submitted_at=0.0, eligible_at=NOW + 1),
        asking(blocked, id=6, priority=1, submitted_at=9.0, gpus=9),
        make_job(7, priority=2),
    )
    assert {job_id: hold.position for job_id, hold in told.items()} == {6: 1, 5: 2, 3: 3, 2: 4, 4: 1}


def test_a_job_after_the_limit_of_a_cycle_is_told_so_unless_the_limit_is_not_what_keeps_it() -> None:
    told = holds(
        make_job(1, gpus=8, cpus=1),
        make_job(2, gpus=1, cpus=1),
        make_job(3, gpus=8, cpus=2),
        make_job(4, gpus=9, cpus=1),
        make_job(5, priority=1),
        max_places=2,
    )
    assert {job_id: hold.reason for job_id, hold in told.items()} == {
        1: HoldReason.NO_FREE_GPUS,  # tried before the limit
        3: HoldReason.NO_FREE_GPUS,  # not tried, but larger than what failed
        4: HoldReason.INFEASIBLE,
    }
    told = holds(make_job(1), make_job(2), max_places=1)
    assert told[2].reason is HoldReason.CYCLE_LIMIT
    assert told[2].detail == "this cycle started its limit of 1 job before it reached this one"


def helps_of(vcs: Sequence[VirtualCluster], running: Sequence[Running], *jobs: Job) -> dict[int, str]:
    """The first thing that would help each job that waits."""
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=jobs, running=running, vcs=vcs)
    return {hold.job_id: hold.helps[0] for hold in decide(world, CycleConfig()).holds}


AHEAD = "the jobs ahead of it in the queue start or leave"


def test_only_the_next_job_of_a_quota_is_told_that_free_gpus_help() -> None:
    vcs = [make_vc(quotas={"A100": 4})]
    told = helps_of(vcs, [using(1, 4)], *(make_job(number) for number in (1, 2, 3)))
    assert told == {1: "one A100 of vision becomes free", 2: AHEAD, 3: AHEAD}


def test_a_small_job_behind_a_large_one_is_helped_by_gpus_that_the_large_one_cannot_use_yet() -> None:
    vcs = [make_vc(quotas={"A100": 8})]
    told = helps_of(vcs, [using(1, 8)], make_job(1, gpus=4), make_job(2, gpus=1), make_job(3, gpus=4))
    assert told == {1: "4 A100 of vision become free", 2: "one A100 of vision becomes free", 3: AHEAD}


def test_jobs_of_another_virtual_cluster_do_not_take_the_gpus_of_a_quota() -> None:
    vcs = [make_vc(quotas={"A100": 1}), make_vc(2, "speech", quotas={"A100": 1})]
    running = [using(1, 1), make_running(make_share(2, [0]), attempt_id=2, job=make_job(99, vc_id=2))]
    told = helps_of(vcs, running, make_job(1), make_job(2, vc_id=2))
    assert told == {1: "one A100 of vision becomes free", 2: "one A100 of speech becomes free"}


def test_the_next_job_of_a_full_pool_is_told_that_free_gpus_help_whatever_its_virtual_cluster() -> None:
    vcs = [make_vc(), make_vc(2, "speech")]
    told = helps_of(vcs, [using(1, 8), using(2, 8)], make_job(1), make_job(2, vc_id=2))
    assert told == {1: "one more A100 becomes free", 2: AHEAD}


def test_equal_jobs_of_two_virtual_clusters_are_told_of_their_own_quotas() -> None:
    vcs = [make_vc(1, "vision", {"A100": 1}), make_vc(2, "speech", {"A100": 2})]
    jobs = [make_job(number, gpus=4, vc_id=1 + number % 2) for number in range(1, 5)]
    plan = decide(make_snapshot(nodes=[make_node(1)], vcs=vcs, waiting=jobs), CycleConfig())
    told = {hold.job_id: hold.detail for hold in plan.holds}
    vision, speech = (
        "the quota of vision is 1 A100; this job needs 4",
        "the quota of speech is 2 A100; this job needs 4",
    )
    assert told == {1: speech, 2: vision, 3: speech, 4: vision}


def test_equal_jobs_are_told_of_their_own_back_off() -> None:
    backs_off = make_job(2, gpus=4, eligible_at=NOW + 60, requeued_at=NOW)
    jobs = [make_job(1, gpus=4), backs_off, make_job(3, gpus=4, still_stopping=True)]
    plan = decide(make_snapshot(nodes=[make_node(1)], running=[using(1, 8)], waiting=jobs), CycleConfig())
    reasons = {hold.job_id: hold.reason for hold in plan.holds}
    assert reasons == {1: HoldReason.NO_FREE_GPUS, 2: HoldReason.BACK_OFF, 3: HoldReason.STILL_STOPPING}
