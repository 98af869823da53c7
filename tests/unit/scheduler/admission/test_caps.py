"""Caps on users, on top of any admission."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.admission import ADMISSIONS, Ledger
from scheduler.admission.caps import CappedLedger
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Cap, Snapshot
from scheduler.model.invariants import Code, check
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.plan import Hold, Place, Plan, Preempt
from scheduler.model.request import Config
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot

OLIVIA, PETE = 1, 2
FIFO = CycleConfig()


def capped(**limits: Any) -> Cap:
    return Cap(tenant_id=1, owner_id=OLIVIA, owner="olivia", **limits)


def world(cap: Cap, *jobs: Any, running: Any = ()) -> Snapshot:
    return replace(make_snapshot(waiting=jobs, running=running, nodes=(make_node(),)), caps=(cap,))


def hold_of(plan: Plan, job_id: int) -> Hold:
    return next(hold for hold in plan.holds if hold.job_id == job_id)


def started(plan: Plan) -> set[int]:
    return {place.job_id for place in plan.places}


@pytest.mark.parametrize("admission", ["quota", "borrow", "open"])
def test_a_user_gets_the_capped_gpus_and_blocks_no_other(admission: str) -> None:
    jobs = [make_job(number, gpus=2, owner_id=OLIVIA) for number in (1, 2, 3)] + [make_job(4, gpus=2, owner_id=PETE)]
    plan = decide(world(capped(gpus=4), *jobs), replace(FIFO, admission=admission))
    assert started(plan) == {1, 2, 4}
    hold = hold_of(plan, 3)
    assert (hold.reason, hold.detail) == (
        HoldReason.CAP,
        "olivia holds 4 of at most 4 GPUs; this job needs 2",
    )
    assert hold.evidence == {"user": "olivia", "held": 4, "cap": 4, "needed": 2}
    assert "ask a manager of your tenant to raise the cap" in hold.helps


def test_a_smaller_job_of_the_user_still_fits() -> None:
    jobs = [make_job(1, gpus=3), make_job(2, gpus=3), make_job(3, gpus=1)]
    assert started(decide(world(capped(gpus=4), *jobs), FIFO)) == {1, 3}


@pytest.mark.parametrize("policy", ["fifo", "fair", "las", "srtf", "tiresias", "themis", "optimus", "gavel", "philly"])
def test_no_policy_passes_a_cap(policy: str) -> None:
    jobs = [make_job(number, gpus=1, expected_s=3600.0, remaining_s=3600.0) for number in range(1, 7)]
    try:
        compose(replace(FIFO, policy=policy))
    except Exception:  # noqa: BLE001
        pytest.skip("no such policy")
    snapshot = world(capped(jobs=3, gpus=2), *jobs)
    plan = decide(snapshot, replace(FIFO, policy=policy))
    assert len(plan.places) == 2
    assert check(snapshot, plan, compose(FIFO).admission) == ()


def test_jobs_at_once_count_those_elsewhere() -> None:
    jobs = [make_job(1, gpus=0, gpu_type=None), make_job(2), make_job(3)]
    plan = decide(world(capped(jobs=4, jobs_elsewhere=2), *jobs), FIFO)
    assert started(plan) == {1, 2}
    assert hold_of(plan, 3).detail == "olivia runs 4 of at most 4 jobs"


def test_gpu_hours_of_the_month_hold_new_jobs_until_the_next() -> None:
    cap = capped(gpu_hours_month=10, gpu_s_used=36_000.0, renews_at=NOW + 3600)
    plan = decide(world(cap, make_job(1), running=(make_running(make_share(1, [0]), job=make_job(9)),)), FIFO)
    hold = hold_of(plan, 1)
    assert (hold.reason, hold.evidence["again_at"]) == (HoldReason.CAP, NOW + 3600)
    assert hold.detail == "olivia has used 10.0 GPU-hours this month; the cap is 10"
    assert started(decide(world(replace(cap, gpu_s_used=35_999.0), make_job(1)), FIFO)) == {1}


def test_opportunistic_jobs_count_too() -> None:
    jobs = [make_job(number, gpus=2, job_class=JobClass.OPPORTUNISTIC) for number in (1, 2)]
    assert started(decide(world(capped(gpus=2), *jobs), replace(FIFO, admission="borrow"))) == {1}


class TestInvariants:
    @pytest.mark.parametrize(
        ("cap", "message"),
        [
            (capped(gpus=3), "olivia would hold 4 GPUs; the cap is 3"),
            (capped(gpus=5, gpus_elsewhere=2), "olivia would hold 6 GPUs; the cap is 5"),
            (capped(jobs=1), "olivia would run 2 jobs; the cap is 1"),
            (capped(gpu_hours_month=1, gpu_s_used=3600.0), "olivia has used the 1 GPU-hours of this month"),
        ],
    )
    def test_a_plan_that_passes_a_cap_is_refused(self, cap: Cap, message: str) -> None:
        running = make_running(make_share(1, [0, 1]), job=make_job(9, gpus=2))
        snapshot = world(cap, make_job(1, gpus=2), running=(running,))
        plan = Plan((Place(1, (make_share(1, [2, 3]),)),), ())
        found = check(snapshot, plan, compose(FIFO).admission)
        assert [(one.code, one.job_id, one.message) for one in found] == [(Code.CAP_EXCEEDED, 1, message)]

    def test_what_the_plan_preempts_does_not_count(self) -> None:
        running = make_running(make_share(1, [0, 1]), job=make_job(9, gpus=2))
        snapshot = world(capped(gpus=2, jobs=1), make_job(1, gpus=2), running=(running,))
        plan = Plan((Place(1, (make_share(1, [0, 1]),)),), (), preempts=(Preempt(9, 1, "it goes"),))
        assert check(snapshot, plan, compose(FIFO).admission) == ()

    def test_a_job_may_move_although_the_cap_was_lowered(self) -> None:
        running = make_running(make_share(1, [0, 1]), job=make_job(9, gpus=2))
        snapshot = world(capped(gpus=1, jobs=0), running=(running,))
        plan = Plan((Place(9, (make_share(1, [2, 3]),)),), (), preempts=(Preempt(9, 9, "it moves"),))
        assert check(snapshot, plan, compose(FIFO).admission) == ()


class TestLedger:
    def test_it_forwards_every_method_of_a_ledger(self) -> None:
        methods = {name for name, value in vars(Ledger).items() if callable(value) and not name.startswith("_")}
        assert methods <= vars(CappedLedger).keys()

    def test_a_copy_counts_by_itself_and_promises_can_be_taken_back(self) -> None:
        ledger = CappedLedger(ADMISSIONS.make("quota", {}).ledger(snapshot := world(capped(gpus=2))), snapshot)
        job, twin = make_job(1, gpus=2), ledger.copy()
        ledger.promise(job, "A100", 2)
        assert twin.offer(make_job(2), Config("A100", 2)) == ledger.offer(make_job(3, owner_id=PETE), Config("A100", 2))
        assert ledger.offer(make_job(2), Config("A100", 1)) != twin.offer(make_job(2), Config("A100", 1))
        assert (ledger.usage[1, "A100"], twin.usage[1, "A100"]) == (2, 0)
        ledger.promise(job, "A100", -2)
        assert ledger.offer(make_job(2), Config("A100", 2)) == twin.offer(make_job(2), Config("A100", 2))

    def test_only_capped_users_have_classes_of_their_own(self) -> None:
        ledger = CappedLedger(ADMISSIONS.make("quota", {}).ledger(snapshot := world(capped(gpus=2))), snapshot)
        assert ledger.key(make_job(1, owner_id=PETE)) == ledger.key(make_job(2, owner_id=3)) != ledger.key(make_job(3))
