"""A screening run takes no quota: virtual clusters hold what they held, and other jobs start as they would.

Screening runs become part of snapshots here as they do in production, and lie on nodes of their own: what they take of
the machines is theirs to take, and everything else is not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.dispatch.snapshot.screening import while_screened
from muster.jobs.attempt.runs import ScreeningRun
from scheduler.admission import ADMISSIONS
from scheduler.admission.screening import FIRST_ID, with_screening_clusters
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.engine.policy import POLICIES
from scheduler.model import AllocationView, Job, Snapshot, Tenant
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import Plan
from tests.factories import make_request
from tests.profiles import examples
from tests.unit.scheduler.engine.test_scheduler_properties import TYPES, configs_of, snapshots
from tests.unit.scheduler.factories import asking, make_job, make_node, make_running, make_snapshot, make_vc

FIRST_NODE, FIRST_JOB, STRANGERS = 900, 500, 700
CAP = 2


def screened(job: Job, *, gpus: int, gpu_type: str) -> Job:
    """The job as it is in the queue of the screening pool."""
    request = make_request(gpus=gpus, gpu_type=gpu_type, cpus=1, memory_mib=1)
    run = ScreeningRun(request, time_limit_s=300.0, world=2, since=0.0, until=600.0)
    told = while_screened({"tenant_id": job.tenant_id, "grace_s": job.grace_s}, run)
    return replace(job, **{name: value for name, value in told.items() if name != "relax_after_s"})


def with_nodes(world: Snapshot, jobs: list[Job]) -> Snapshot:
    """The world with a node for each of the jobs, which takes nothing else."""
    nodes = [
        make_node(
            FIRST_NODE + place, gpus=job.request.first.gpus, gpu_type=job.request.only_type or "", schedulable=False
        )
        for place, job in enumerate(jobs)
    ]
    return replace(world, nodes=(*world.nodes, *nodes))


def with_running(world: Snapshot, jobs: list[Job]) -> Snapshot:
    """The world in which each of the jobs runs on its node."""
    nodes = [world.node_by_id[FIRST_NODE + place] for place in range(len(jobs))]
    runs = [
        make_running(AllocationView(node.id, 0, tuple(gpu.id for gpu in node.gpus), 1, 1), attempt_id=-job.id, job=job)
        for node, job in zip(nodes, jobs, strict=True)
    ]
    return replace(world, running=(*world.running, *runs))


@st.composite
def screening_runs(draw: st.DrawFn, *, of_others: bool) -> list[Job]:
    """Jobs of the world's virtual clusters that are tried, of several tenants; maybe of none that have other jobs."""
    first = STRANGERS if of_others else 1
    return [
        screened(
            make_job(
                FIRST_JOB + place,
                gpus=8,
                vc_id=draw(st.integers(1, 2)),
                tenant_id=first + draw(st.integers(0, 2)),
                owner_id=first,
                job_class=draw(st.sampled_from(JobClass)),
            ),
            gpus=draw(st.integers(1, 2)),
            gpu_type=draw(st.sampled_from(TYPES)),
        )
        for place in range(draw(st.integers(1, 4)))
    ]


def what_others_get(plan: Plan) -> object:
    """All that a plan does, and why each job waits."""
    return plan.places, plan.preempts, {hold.job_id: hold.reason for hold in plan.holds}


@pytest.mark.parametrize("policy", POLICIES.names)
@settings(max_examples=examples(12))
@given(data=st.data())
def test_no_virtual_cluster_and_no_other_job_is_charged_for_a_screening_run(policy: str, data: st.DataObject) -> None:
    # To share by users or tenants is to count all that they hold in a pool, also what their screening runs do.
    world, tried = data.draw(snapshots()), data.draw(screening_runs(of_others=policy == "drf"))
    # Under cells the runs use GPUs that opportunistic jobs could have.
    admissions = [name for name in ADMISSIONS.names if not ADMISSIONS.make(name, {}).chooses_gpus]
    admission = data.draw(st.sampled_from(admissions))
    config = replace(data.draw(configs_of(policy)), admission=admission, admission_params={})
    tenants = [Tenant(pk, f"tenant {pk}", 1.0) for pk in sorted({job.tenant_id for job in tried})]
    world = with_nodes(world, tried)
    beside = with_screening_clusters(with_running(world, tried), tenants, cap=CAP)
    assert {key: held for key, held in beside.held_by_vc.items() if key[0] < FIRST_ID} == world.held_by_vc
    assert what_others_get(decide(beside, config)) == what_others_get(decide(world, config))


@pytest.mark.parametrize("admission", ["quota", "borrow"])
def test_were_a_screening_run_its_jobs_own_the_job_behind_it_would_wait(admission: str) -> None:
    tried, config = make_job(FIRST_JOB, gpus=8), CycleConfig(admission=admission)
    world = make_snapshot(waiting=[make_job(1, gpus=4)], vcs=[make_vc(quotas={"A100": 4})])
    for job, starts in ((screened(tried, gpus=2, gpu_type="A100"), 1), (asking(tried, gpus=2, gpu_type="A100"), 0)):
        plan = decide(
            with_screening_clusters(with_running(with_nodes(world, [job]), [job]), world.tenants, cap=CAP), config
        )
        assert len(plan.places) == starts


def test_the_screening_runs_of_one_tenant_are_bounded_and_take_nothing_of_anothers() -> None:
    waiting = [
        screened(make_job(number, tenant_id=tenant), gpus=2, gpu_type="A100")
        for number, tenant in ((1, 1), (2, 1), (3, 2))
    ]
    world = with_screening_clusters(
        make_snapshot(waiting=waiting), [Tenant(1, "one", 1.0), Tenant(2, "two", 1.0)], cap=CAP
    )
    assert {place.job_id for place in decide(world, CycleConfig()).places} == {1, 3}
