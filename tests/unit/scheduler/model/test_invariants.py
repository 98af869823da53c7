"""One case for each invariant that a plan can break, and plans that break none."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.admission.quota import QUOTA_EXCEEDED, Quota
from scheduler.model import HALF, AllocationView, Cap, Job, Node, Reservation, Running, Snapshot, VirtualCluster
from scheduler.model.invariants import Code, changed_since, check
from scheduler.model.lifecycle import AttemptState, RuntimeNeed
from scheduler.model.plan import Place, Plan, Preempt, apply
from scheduler.model.request import Over
from tests.unit.scheduler.factories import (
    NOW,
    asking,
    make_job,
    make_node,
    make_packing,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)

VALID = Place(1, (make_share(1, (0, 1)), make_share(2, (6, 7), rank=1)))
GANG = make_job(1, gpus=2, nodes=2)


@dataclass(frozen=True)
class Case:
    """A valid snapshot and place, except for what the case states."""

    codes: set[str]
    message: str
    places: tuple[Place, ...] = (VALID,)
    preempts: tuple[Preempt, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    waiting: tuple[Job, ...] = (GANG,)
    running: tuple[Running, ...] = ()
    nodes: tuple[Node, ...] = (make_node(1), make_node(2))
    vcs: tuple[VirtualCluster, ...] = (make_vc(),)
    caps: tuple[Cap, ...] = ()

    def world(self) -> Snapshot:
        world = make_snapshot(nodes=self.nodes, waiting=self.waiting, running=self.running, vcs=self.vcs)
        return replace(world, reservations=self.reservations, caps=self.caps)

    def plan(self) -> Plan:
        return Plan(self.places, (), preempts=self.preempts)


def gang(*shares: AllocationView) -> tuple[Place, ...]:
    return (Place(1, shares),)


def with_type(node: Node, *types: str) -> Node:
    return replace(node, gpus=tuple(replace(gpu, type=kind) for gpu, kind in zip(node.gpus, types, strict=False)))


PACKING = make_packing(1)
BESIDE = make_share(1, (0,), slots=HALF)
ONE_BESIDE = (Place(1, (BESIDE,)),)
HOST = make_running(BESIDE, attempt_id=5, job=make_packing(5))

SHARE_1, SHARE_2 = VALID.allocations
CASES = {
    "a place of a job that does not wait": Case(
        {Code.JOB_NOT_WAITING}, "this job is not waiting", waiting=(make_job(5),)
    ),
    "a job that is placed twice": Case(
        {Code.JOB_NOT_WAITING},
        "the plan places this job twice",
        places=(VALID, Place(1, (make_share(1, (2, 3)), make_share(2, (2, 3), rank=1)))),
    ),
    "an image on a node without containers": Case(
        {Code.WRONG_RUNTIME},
        "node1 runs no containers, and this job names an image",
        waiting=(asking(GANG, form=RuntimeNeed.IMAGE),),
        nodes=(make_node(1, runtimes=(RuntimeNeed.PLAIN,)), make_node(2, runtimes=(RuntimeNeed.IMAGE,))),
    ),
    "a job on the single-user node of another tenant": Case(
        {Code.WRONG_TENANT},
        "node2 runs all jobs as one account and takes another tenant's jobs",
        nodes=(make_node(1, single_user=True, tenant_id=GANG.tenant_id), make_node(2, single_user=True, tenant_id=7)),
    ),
    "a job on a single-user node without a tenant": Case(
        {Code.WRONG_TENANT},
        "node2 runs all jobs as one account and takes no tenant's jobs",
        nodes=(make_node(1), make_node(2, single_user=True)),
    ),
    "a job on a node that it excludes": Case(
        {Code.NODE_NOT_ALLOWED},
        "node2 is excluded by this job",
        waiting=(replace(GANG, request=replace(GANG.request, exclude_nodes=("node2",))),),
    ),
    "a job on a node beside those that it names": Case(
        {Code.NODE_NOT_ALLOWED},
        "node2 is not among the nodes_in of this job",
        waiting=(replace(GANG, request=replace(GANG.request, nodes_in=("node1", "node3"))),),
    ),
    "a job on a node without its labels": Case(
        {Code.NODE_NOT_ALLOWED},
        "node2 does not have net=ib, the node_labels of this job",
        waiting=(replace(GANG, request=replace(GANG.request, node_labels=(("net", "ib"),))),),
        nodes=(make_node(1, labels={"net": "ib"}), make_node(2, labels={"net": "eth"})),
    ),
    "a job that would reach into the maintenance of a node": Case(
        {Code.MAINTENANCE},
        "node2 has maintenance from 1970-01-12 14:46 UTC: new driver",
        waiting=(replace(GANG, time_limit_s=3601.0),),
        nodes=(make_node(1), make_node(2, maintenance_starts_at=NOW + 3600.0, maintenance_reason="new driver")),
    ),
    "a job that backs off": Case(
        {Code.JOB_NOT_ELIGIBLE}, "this job may not start for another 1 s", waiting=(replace(GANG, eligible_at=NOW + 1),)
    ),
    "a job whose last attempt still stops": Case(
        {Code.JOB_NOT_ELIGIBLE},
        "the last attempt of this job is still stopping",
        waiting=(replace(GANG, still_stopping=True),),
    ),
    "all of a GPU for a job that shares": Case(
        {Code.WRONG_SLOTS}, "gets 64 slots", places=(Place(1, (make_share(1, (0,)),)),), waiting=(PACKING,)
    ),
    "a part of a GPU for a job that does not share": Case(
        {Code.WRONG_SLOTS}, "gets 32 slots", places=ONE_BESIDE, waiting=(make_job(1),)
    ),
    "a job beside one that does not share": Case(
        {Code.GPU_TAKEN},
        "GPU 0 of node1 is held by a live attempt",
        places=ONE_BESIDE,
        waiting=(PACKING,),
        running=(make_running(make_share(1, (0,)), attempt_id=5),),
    ),
    "a job beside one of another virtual cluster": Case(
        {Code.GPU_TAKEN},
        "held by a live attempt with which this job may not share it",
        places=ONE_BESIDE,
        waiting=(PACKING,),
        running=(make_running(BESIDE, attempt_id=5, job=make_packing(5, vc_id=2)),),
        vcs=(make_vc(), make_vc(2, "speech")),
    ),
    "a job beside one that leaves too little of the GPU's memory": Case(
        {Code.GPU_TAKEN},
        "may not share it",
        places=ONE_BESIDE,
        waiting=(PACKING,),
        running=(make_running(BESIDE, attempt_id=5, job=make_packing(5, gpu_memory_mib=40 * 1024 + 1)),),
    ),
    "a third job on a GPU": Case(
        {Code.GPU_TAKEN},
        "may not share it",
        places=ONE_BESIDE,
        waiting=(asking(PACKING, gpu_memory_mib=0),),
        running=tuple(
            make_running(BESIDE, attempt_id=number, job=make_packing(number, gpu_memory_mib=0)) for number in (5, 6)
        ),
    ),
    "a plan that puts a third job on a GPU": Case(
        {Code.GPU_TWICE},
        "the plan gives GPU 0 of node1 twice",
        places=(*ONE_BESIDE, Place(2, (BESIDE,))),
        waiting=(asking(PACKING, gpu_memory_mib=0), make_packing(2, gpu_memory_mib=0)),
        running=(make_running(BESIDE, attempt_id=5, job=make_packing(5, gpu_memory_mib=0)),),
    ),
    "a job that shares a GPU with itself": Case(
        {Code.GPU_TWICE},
        "the plan gives GPU 0 of node1 twice",
        places=(Place(1, (make_share(1, (0, 0), slots=HALF),)),),
        waiting=(make_packing(1, gpus=2, gpu_memory_mib=0),),
    ),
    "a gang that lacks a rank": Case({Code.PARTIAL_GANG}, "ranks 0 to 1 once each, not [0]", places=gang(SHARE_1)),
    "a gang without any rank": Case({Code.PARTIAL_GANG}, "ranks 0 to 1 once each, not []", places=gang()),
    "a gang with a rank too many": Case(
        {Code.PARTIAL_GANG},
        "not [0, 1, 2]",
        places=gang(SHARE_1, SHARE_2, make_share(3, (0, 1), rank=2)),
        nodes=(make_node(1), make_node(2), make_node(3)),
    ),
    "the same rank twice": Case({Code.PARTIAL_GANG}, "not [0, 0]", places=gang(SHARE_1, replace(SHARE_2, rank=0))),
    "two ranks on one node": Case(
        {Code.TWO_ALLOCATIONS_ONE_NODE},
        "two ranks share a node: [1, 1]",
        places=gang(SHARE_1, make_share(1, (2, 3), rank=1)),
    ),
    "a rank with too few GPUs": Case(
        {Code.WRONG_GPU_COUNT}, "rank 1 gets 1 GPUs, not 2", places=gang(SHARE_1, make_share(2, (0,), rank=1))
    ),
    "a rank with too many GPUs": Case(
        {Code.WRONG_GPU_COUNT}, "rank 1 gets 3 GPUs, not 2", places=gang(SHARE_1, make_share(2, (0, 1, 2), rank=1))
    ),
    "GPUs of another type": Case(
        {Code.WRONG_GPU_TYPE}, "needs A100, not A100, V100", nodes=(make_node(1), make_node(2, gpu_type="V100"))
    ),
    "two types for a gang that takes any one": Case(
        {Code.WRONG_GPU_TYPE},
        "needs one type, not A100, V100",
        waiting=(asking(GANG, gpu_type=None),),
        nodes=(with_type(make_node(1), "A100", "V100"), make_node(2)),
    ),
    "fewer CPUs than the job asked for": Case(
        {Code.WRONG_CPUS_OR_MEMORY},
        "rank 0 gets 0 CPUs and 1024 MiB, not 1 and 1024",
        places=gang(replace(SHARE_1, cpus=0), SHARE_2),
    ),
    "less memory than the job asked for": Case(
        {Code.WRONG_CPUS_OR_MEMORY},
        "rank 0 gets 1 CPUs and 1 MiB",
        places=gang(replace(SHARE_1, memory_mib=1), SHARE_2),
    ),
    "a node that takes no jobs": Case(
        {Code.NODE_NOT_SCHEDULABLE},
        "node2 takes no jobs: cordoned",
        nodes=(make_node(1), make_node(2, schedulable=False, unschedulable_reason="cordoned")),
    ),
    "a node of another pool": Case({Code.NODE_NOT_SCHEDULABLE}, "node 2 is not in this pool", nodes=(make_node(1),)),
    "a GPU that does not exist": Case(
        {Code.GPU_UNKNOWN}, "node2 has no GPU 206", nodes=(make_node(1), make_node(2, gpus=4))
    ),
    "a GPU of another node": Case(
        {Code.GPU_UNKNOWN}, "node2 has no GPU 102", places=gang(SHARE_1, replace(SHARE_2, gpu_ids=(102, 103)))
    ),
    "a GPU that is not healthy": Case(
        {Code.GPU_UNHEALTHY}, "GPU 7 of node2 is not healthy", nodes=(make_node(1), make_node(2, unhealthy=[7]))
    ),
    "a GPU of a live attempt": Case(
        {Code.GPU_TAKEN}, "GPU 6 of node2 is held by a live attempt", running=(make_running(make_share(2, (6,))),)
    ),
    "a GPU twice in one allocation": Case(
        {Code.GPU_TWICE}, "the plan gives GPU 0 of node1 twice", places=gang(make_share(1, (0, 0)), SHARE_2)
    ),
    "a GPU for two jobs of the plan": Case(
        {Code.GPU_TWICE},
        "the plan gives GPU 1 of node1 twice",
        places=(VALID, Place(2, (make_share(1, (1,)),))),
        waiting=(GANG, make_job(2)),
    ),
    "more CPUs than are left": Case(
        {Code.CPU_OVERCOMMIT},
        "node1 has 64 CPUs; 64 are used and the plan takes 1",
        running=(make_running(make_share(1, (), cpus=64)),),
    ),
    "more CPUs than the node has, by two places": Case(
        {Code.CPU_OVERCOMMIT},
        "node1 has 64 CPUs; 0 are used and the plan takes 65",
        places=(VALID, Place(2, (make_share(1, (2,), cpus=64),))),
        waiting=(GANG, make_job(2, cpus=64)),
    ),
    "more memory than is left": Case(
        {Code.MEMORY_OVERCOMMIT},
        "node1 has 524288 MiB; 524000 are used and the plan takes 1024",
        running=(make_running(make_share(1, (), memory_mib=524_000)),),
    ),
    "more memory than the node has, by two places": Case(
        {Code.MEMORY_OVERCOMMIT},
        "node1 has 524288 MiB; 0 are used and the plan takes 525312",
        places=(VALID, Place(2, (make_share(1, (2,), memory_mib=1 << 19),))),
        waiting=(GANG, make_job(2, memory_mib=1 << 19)),
    ),
    "more GPUs than the cap of their owner": Case(
        {Code.CAP_EXCEEDED},
        "olivia would hold 4 GPUs; the cap is 3",
        caps=(Cap(tenant_id=1, owner_id=1, owner="olivia", gpus=3),),
    ),
    "more GPUs than the quota": Case(
        {QUOTA_EXCEEDED}, "vision would hold 4 A100; its quota is 3", vcs=(make_vc(quotas={"A100": 3}),)
    ),
    "more GPUs than the quota, with those that it holds": Case(
        {QUOTA_EXCEEDED},
        "vision would hold 5 A100; its quota is 4",
        running=(make_running(make_share(1, (7,))),),
        vcs=(make_vc(quotas={"A100": 4}),),
    ),
    "a type for which there is no quota": Case(
        {QUOTA_EXCEEDED}, "vision would hold 4 A100; its quota is 0", vcs=(make_vc(quotas={"V100": 9}),)
    ),
    "a GPU that is reserved for another job": Case(
        {Code.GPU_RESERVED},
        "GPU 1 of node1 is reserved for another job",
        reservations=(Reservation(9, (make_share(1, (1,)),), until=NOW + 60),),
    ),
    "a preemption of a job that does not run": Case(
        {Code.NOT_RUNNING}, "no running attempt to preempt", preempts=(Preempt(77, 1, ""),)
    ),
    "a preemption of a job that stops already": Case(
        {Code.NOT_RUNNING},
        "no running attempt to preempt",
        preempts=(Preempt(1001, 1, ""),),
        running=(replace(make_running(make_share(1, (5,))), state=AttemptState.STOPPING),),
    ),
    "a preemption of a job twice": Case(
        {Code.NOT_RUNNING},
        "no running attempt to preempt",
        preempts=(Preempt(1001, 1, ""), Preempt(1001, 1, "")),
        running=(make_running(make_share(1, (5,))),),
    ),
    "a preemption of a job that may not be preempted": Case(
        {Code.NOT_PREEMPTIBLE},
        "may not be preempted",
        preempts=(Preempt(1001, 1, ""),),
        running=(make_running(make_share(1, (5,)), preemptible=False),),
    ),
    "a preemption of a job of another planner": Case(
        {Code.FOREIGN_VICTIM},
        "another planner decides on this job",
        preempts=(Preempt(1001, 1, ""),),
        running=(replace(make_running(make_share(1, (5,)), preemptible=False), foreign=True, reclaimable=True),),
    ),
    "a preemption for a job that is not placed": Case(
        {Code.NEEDLESS_PREEMPTION},
        "preempted for job 8, which the plan does not place",
        preempts=(Preempt(1001, 8, ""),),
        running=(make_running(make_share(1, (5,))),),
    ),
    "a lot of GPUs that is not whole": Case(
        {Code.WRONG_GPU_COUNT},
        "the gang gets 3 GPUs, not 4",
        places=gang(make_share(1, (0, 1), cpus=2, memory_mib=2048), make_share(2, (6,), rank=1)),
        waiting=(make_job(1, gpus=4, split=True),),
    ),
    "a lot of GPUs with the CPUs of a rank instead of those of its GPUs": Case(
        {Code.WRONG_CPUS_OR_MEMORY},
        "rank 0 gets 1 CPUs and 1024 MiB, not 2 and 2048",
        places=gang(make_share(1, (0, 1))),
        waiting=(make_job(1, gpus=2, split=True),),
    ),
    "more GPUs than an elastic job takes": Case(
        {Code.WRONG_GPU_COUNT},
        "the gang gets 4 GPUs, not 1 to 3",
        places=gang(make_share(1, (0, 1, 2, 3), cpus=4, memory_mib=4096)),
        waiting=(make_job(1, gpus=2, split=True, max_gpus=3),),
    ),
    "more GPUs than a job takes that is elastic over its gang": Case(
        {Code.WRONG_GPU_COUNT},
        "the gang gets 4 GPUs, not 1 to 3",
        waiting=(make_job(1, gpus=2, cpus=1, max_gpus=3, over=Over.GANG),),
    ),
    "a job that is elastic over its gang with more GPUs on one node than on another": Case(
        {Code.WRONG_GPU_COUNT},
        "rank 1 gets 1 GPUs, not 2",
        places=gang(make_share(1, (0, 1)), make_share(2, (6,), rank=1)),
        waiting=(make_job(1, gpus=2, max_gpus=4, over=Over.GANG),),
    ),
    "a job that is elastic over its gang without its CPUs": Case(
        {Code.WRONG_CPUS_OR_MEMORY},
        "rank 1 gets 1 CPUs and 1024 MiB, not 2 and 2048",
        waiting=(make_job(1, gpus=1, cpus=1, max_gpus=4, over=Over.GANG),),
    ),
    "a virtual cluster that is gone": Case({QUOTA_EXCEEDED}, "virtual cluster 1 would hold 4 A100", vcs=()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_check_finds_the_violation(case: Case) -> None:
    found = check(case.world(), case.plan(), Quota())
    assert {violation.code for violation in found} == case.codes
    assert case.message in " / ".join(violation.message for violation in found)


VICTIM = make_running(make_share(1, (5,)), make_share(2, (11,), rank=1))
STOPS = {"places": (), "preempts": (Preempt(1001, None, ""),)}
# The world after the snapshot that the plan was made from. It differs from that of an empty case.
CHANGES = {
    "a GPU of another type": Case(
        {Code.GPU_CHANGED},
        "GPU 1 of node1 has the type V100 now; the plan chose it as A100",
        nodes=(with_type(make_node(1), "A100", "V100", *["A100"] * 4), make_node(2)),
    ),
    "two racks instead of one": Case(
        {Code.RACK_CHANGED}, "not in one rack any more", nodes=(make_node(1), replace(make_node(2), rack="far"))
    ),
    "both nodes in another rack": Case(
        set(), "", nodes=tuple(replace(make_node(number), rack="far") for number in (1, 2))
    ),
    "another attempt of the victim": Case(
        {Code.VICTIM_CHANGED}, "another attempt", **STOPS, running=(replace(VICTIM, attempt_id=9),)
    ),
    "a victim that holds less": Case(
        {Code.VICTIM_CHANGED},
        "has released resources",
        **STOPS,
        running=(replace(VICTIM, allocations=VICTIM.allocations[:1]),),
    ),
    "a victim that stops": Case(set(), "", **STOPS, running=(replace(VICTIM, state=AttemptState.STOPPING),)),
    "a victim that has ended": Case(set(), "", **STOPS),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_what_changed_since_the_plan_was_made_is_found(case: Case) -> None:
    seen = Case(set(), "", running=(VICTIM,)).world()
    found = changed_since(seen, case.world(), case.plan())
    assert {violation.code for violation in found} == case.codes
    assert case.message in " / ".join(violation.message for violation in found)


def test_every_code_has_a_case() -> None:
    cases = [*CASES.values(), *CHANGES.values()]
    assert set().union(*(case.codes for case in cases)) == {*Code, QUOTA_EXCEEDED}


VALID_CASES: dict[str, dict[str, Any]] = {
    "a job beside another one": {"places": ONE_BESIDE, "waiting": (PACKING,), "running": (HOST,)},
    "two jobs on one GPU at once": {
        "places": (*ONE_BESIDE, Place(2, (BESIDE,))),
        "waiting": (PACKING, make_packing(2)),
    },
    "a job beside another one when the quota is used up": {
        "places": ONE_BESIDE,
        "waiting": (PACKING,),
        "running": (HOST,),
        "vcs": (make_vc(quotas={"A100": 1}),),
    },
    "a job in the place of one of two": {
        "places": ONE_BESIDE,
        "waiting": (PACKING,),
        "running": (HOST, make_running(BESIDE, attempt_id=6, job=make_packing(6))),
        "preempts": (Preempt(6, 1, "it goes"),),
    },
    "one of two goes for the other": {
        "places": (),
        "waiting": (),
        "running": (HOST, make_running(BESIDE, attempt_id=6, job=make_packing(6))),
        "preempts": (Preempt(6, 5, "it goes"),),
    },
    "a gang on two nodes": {},
    "a job whose back-off ends now": {"waiting": (replace(GANG, eligible_at=NOW),)},
    "a gang of any type": {"waiting": (asking(GANG, gpu_type=None),)},
    "ranks in any order": {"places": gang(SHARE_2, SHARE_1)},
    "a quota that is used up exactly": {"vcs": (make_vc(quotas={"A100": 4}),)},
    "a quota that another virtual cluster uses up": {
        "running": (make_running(make_share(1, (2, 3, 4)), vc_id=2),),
        "vcs": (make_vc(quotas={"A100": 4}), make_vc(2, "speech", {"A100": 3})),
    },
    "no quota for a job without GPUs": {
        "places": (Place(2, (make_share(1, ()),)),),
        "waiting": (make_job(2, gpus=0),),
        "vcs": (make_vc(quotas={}),),
    },
    "the GPUs and CPUs of a job that is preempted for it": {
        "preempts": (Preempt(1001, 1, ""),),
        "running": (make_running(make_share(1, (0, 1), cpus=64, memory_mib=1 << 19)),),
        "vcs": (make_vc(quotas={"A100": 4}),),
    },
    "a job that moves": {
        "places": (Place(1001, (make_share(2, (3,)),)),),
        "preempts": (Preempt(1001, 1001, ""),),
        "running": (make_running(make_share(1, (0,))),),
        "vcs": (make_vc(quotas={"A100": 1}),),
    },
    "a job that moves although its quota was lowered": {
        "places": (Place(1001, (make_share(2, (3,)),)),),
        "preempts": (Preempt(1001, 1001, ""),),
        "running": (make_running(make_share(1, (0,))),),
        "vcs": (make_vc(quotas={"A100": 0}),),
    },
    "GPUs that are kept for the job itself": {
        "reservations": (Reservation(1, (make_share(1, (0, 1)),), until=NOW + 60),),
    },
    "GPUs that were kept for another job until now": {
        "reservations": (Reservation(9, (make_share(1, (0, 1)),), until=NOW),),
    },
    "a lot of GPUs cut unevenly": {
        "places": gang(make_share(1, (0, 1, 2), cpus=3, memory_mib=3072), make_share(2, (6,), rank=1)),
        "waiting": (make_job(1, gpus=4, split=True),),
    },
    "another number of nodes for a job that is elastic over its gang": {
        "places": gang(make_share(1, (0, 1), cpus=2, memory_mib=2048), make_share(2, (6, 7), 1, 2, 2048)),
        "waiting": (make_job(1, gpus=1, max_gpus=4, over=Over.GANG),),
    },
    "a rank without CPUs on a node that is overcommitted": {
        "places": (Place(2, (make_share(1, (0,), cpus=0),)),),
        "waiting": (make_job(2, cpus=0),),
        "running": (make_running(make_share(1, (), cpus=65)),),
    },
}


@pytest.mark.parametrize("world", VALID_CASES.values(), ids=VALID_CASES)
def test_check_accepts(world: dict[str, Any]) -> None:
    case = Case(set(), "", **world)
    assert check(case.world(), case.plan(), Quota()) == ()


def test_a_plan_that_was_carried_out_is_not_valid_again() -> None:
    world = Case(set(), "").world()
    after = apply(world, Plan((VALID,), ()))
    codes = {violation.code for violation in check(after, Plan((VALID,), ()), Quota())}
    assert codes == {Code.JOB_NOT_WAITING, Code.GPU_TAKEN}
