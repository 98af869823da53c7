"""The open admission admits every job; the invariants still hold."""

from scheduler.admission import ANY_GPUS
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model.invariants import check
from scheduler.model.lifecycle import JobClass
from scheduler.model.request import Config
from tests.unit.scheduler.factories import make_job, make_snapshot, make_vc

OPEN = CycleConfig(admission="open")


def test_a_job_is_admitted_whatever_its_virtual_cluster_holds() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=8)], vcs=[make_vc(quotas={})])
    admission = compose(OPEN).admission
    ledger = admission.ledger(world)
    ledger.charge(1, JobClass.GUARANTEED, "A100", 99)
    assert ledger.offer(make_job(1), Config("A100", 8)) == ANY_GPUS
    plan = decide(world, OPEN)
    assert [place.job_id for place in plan.places] == [1]
    assert check(world, plan, admission) == ()


def test_a_job_of_an_unknown_virtual_cluster_starts_too() -> None:
    world = make_snapshot(waiting=[make_job(1, vc_id=7)])
    assert [place.job_id for place in decide(world, OPEN).places] == [1]


def test_an_infeasible_job_still_waits() -> None:
    assert decide(make_snapshot(waiting=[make_job(1, gpus=9)]), OPEN).places == ()
