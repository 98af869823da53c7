"""Times in which nodes are to be free of jobs: what is placed before, what happens when they begin and end."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from muster.common.errors import Conflict, Invalid, MusterError, NotFound
from muster.dispatch.cycles import run_cycle
from muster.dispatch.reaper import reap
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import AuditEntry, Event
from muster.fleet.maintenance import call_off, plan_maintenance
from muster.fleet.models import Maintenance, Node, Pool, RunningJobs
from muster.fleet.services import cordon_node, drain_node, move_jobs_off, resume_node
from muster.jobs.attempt.attempts import End, end_allocation
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.models import Allocation, Attempt, Job
from muster.jobs.services import submit_job
from scheduler.model.lifecycle import AttemptState, HoldReason, JobState, NodeAdmin, NodeHealth
from scheduler.model.reasons import Reason
from tests.db.stories import BOOT, rank_of
from tests.factories import make_attempt, make_job, make_node, make_pool, make_user, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]

HOUR = timedelta(hours=1)


@pytest.fixture
def pool() -> Pool:
    return make_pool("main")


@pytest.fixture
def node(pool: Pool) -> Node:
    return make_node(pool, "gpu1")


def plan(*, begins_in: timedelta = HOUR, lasts: timedelta = HOUR, **fields: Any) -> Maintenance:
    begins_at = timezone.now() + begins_in
    values: dict[str, Any] = {"reason": "new driver", "actor": "olga", **fields}
    if "pool" not in values and "node" not in values:
        values["node"] = "gpu1"
    return plan_maintenance(begins_at=begins_at, ends_at=begins_at + lasts, **values)


def let_begin(row: Maintenance) -> None:
    """Time passes until it has begun, and the reaper looks."""
    Maintenance.objects.filter(pk=row.pk).update(begins_at=timezone.now() - timedelta(seconds=1))
    reap(row.pool)


def let_end(row: Maintenance) -> None:
    now = timezone.now()
    Maintenance.objects.filter(pk=row.pk).update(begins_at=now - HOUR, ends_at=now - timedelta(seconds=1))
    reap(row.pool)


def admin_of(name: str = "gpu1") -> tuple[str, bool, str]:
    row = Node.objects.get(name=name)
    return row.admin, row.moves_jobs_off, row.reason


def submitted(pool: Pool, **spec: Any) -> Job:
    vc = make_vc(pool=pool, quotas={"A100": 100})
    return submit_job(user=make_user(tenant=vc.tenant), data={"command": "true", "gpus": 1, "vc": vc.name, **spec})[0]


def is_placed(job: Job) -> bool:
    run_cycle(job.pool_id, trigger="test")
    return Allocation.objects.filter(attempt__job=job).exists()


def test_before_it_only_what_is_over_by_then_is_placed(pool: Pool, node: Node) -> None:
    plan()
    endless, long, short = submitted(pool), submitted(pool, time="61m"), submitted(pool, time="59m")
    assert [is_placed(job) for job in (endless, long, short)] == [False, False, True]
    for job in (endless, long):
        job.refresh_from_db()
        assert job.hold_reason == HoldReason.MAINTENANCE
        assert job.hold is not None
        assert "gpu1 has maintenance from" in job.hold["detail"]
        assert job.hold["detail"].endswith(": new driver")
        assert job.hold["helps"][0].startswith("set a time limit of at most ")


def test_a_job_goes_to_the_node_that_stays_open(pool: Pool, node: Node) -> None:
    make_node(pool, "gpu2")
    plan()
    job = submitted(pool)
    assert is_placed(job)
    assert Allocation.objects.get(attempt__job=job).node.name == "gpu2"


def test_a_job_that_saves_its_work_may_run_until_it_is_moved(pool: Pool, node: Node) -> None:
    plan(running_jobs=RunningJobs.MOVE)
    assert not is_placed(submitted(pool))
    assert is_placed(submitted(pool, checkpoint={"grace": "30s"}))


def test_a_job_is_told_when_the_maintenance_is_over_that_it_waits_for(pool: Pool, node: Node) -> None:
    pool.policy = "backfill"
    pool.save(update_fields=["policy"])
    row = plan()
    job = submitted(pool)

    def told() -> tuple[str, str]:
        assert not is_placed(job)
        job.refresh_from_db()
        assert job.hold is not None
        return job.hold["reason"], job.hold["detail"]

    ends = row.ends_at + timedelta(minutes=1)  # as it is rounded up
    expected = f"backfill: starts by {ends:%Y-%m-%d %H:%M} UTC at the latest, when the maintenance of gpu1 is over"
    assert told() == (HoldReason.MAINTENANCE, expected)
    let_begin(row)
    assert told() == (HoldReason.MAINTENANCE, expected)
    (seen,) = pool_snapshot(pool, seed=1).nodes
    assert (seen.schedulable, seen.maintenance_starts_at, seen.maintenance_ends_at) == (
        False,
        None,
        row.ends_at.timestamp(),
    )
    # Whatever else an operator does with it has no end that anybody knows.
    cordon_node(node=node, reason="fans", actor="olga")
    (seen,) = pool_snapshot(pool, seed=1).nodes
    assert (seen.schedulable, seen.maintenance_ends_at) == (False, None)
    let_end(row)
    resume_node(node=node, reason="mended", actor="olga")
    assert is_placed(job)


@pytest.mark.parametrize(
    ("fields", "opens"),
    [
        ({}, True),
        ({"health": NodeHealth.DOWN}, False),
        ({"admin": NodeAdmin.CORDONED}, False),
        ({"barred": "old"}, False),
    ],
)
def test_a_node_that_is_out_of_service_for_its_own_reasons_comes_back_nobody_knows_when(
    pool: Pool, node: Node, fields: dict[str, Any], opens: bool
) -> None:
    Node.objects.filter(pk=node.pk).update(**fields)
    plan()
    (seen,) = pool_snapshot(pool, seed=1).nodes
    assert (seen.maintenance_starts_at is not None, seen.maintenance_ends_at is not None) == (True, opens)


def test_a_node_with_two_maintenances_opens_when_nobody_plans_for(pool: Pool, node: Node) -> None:
    row, after = plan(), plan(begins_in=3 * HOUR)
    (seen,) = pool_snapshot(pool, seed=1).nodes
    assert (seen.maintenance_starts_at, seen.maintenance_ends_at) == (row.begins_at.timestamp(), None)
    let_begin(row)
    (seen,) = pool_snapshot(pool, seed=1).nodes
    assert (seen.schedulable, seen.maintenance_starts_at, seen.maintenance_ends_at) == (
        False,
        after.begins_at.timestamp(),
        None,
    )


def test_what_lies_far_ahead_of_one_node_closes_no_other(pool: Pool, node: Node) -> None:
    other = make_pool("other")
    make_node(other, "gpu9")
    plan(pool="main")
    assert is_placed(submitted(other))
    (seen,) = pool_snapshot(other, seed=1).nodes
    assert seen.maintenance_starts_at is None


def test_when_it_begins_its_nodes_are_drained_and_when_it_ends_they_are_given_back(pool: Pool, node: Node) -> None:
    make_node(pool, "gpu2")
    row = plan(pool="main")
    reap(pool)
    assert admin_of() == (NodeAdmin.ACTIVE, False, "")
    let_begin(row)
    row.refresh_from_db()
    for name in ("gpu1", "gpu2"):
        admin, clears, reason = admin_of(name)
        assert (admin, clears) == (NodeAdmin.DRAINING, False)
        assert reason.startswith(f"maintenance {row.pk} until ")
        assert reason.endswith(": new driver")
    assert row.begun_at is not None
    assert not is_placed(submitted(pool, time="1m"))
    let_end(row)
    row.refresh_from_db()
    assert row.over_at is not None
    assert admin_of() == admin_of("gpu2") == (NodeAdmin.ACTIVE, False, "")
    kinds = Event.objects.filter(kind__startswith="maintenance.").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["maintenance.planned", "maintenance.began", "maintenance.over"]


def test_a_reap_does_everything_once(pool: Pool, node: Node) -> None:
    row = plan()
    let_begin(row)
    version = Node.objects.get().version
    reap(pool)
    reap(pool)
    assert Node.objects.get().version == version
    assert Event.objects.filter(kind="maintenance.began").count() == 1


def test_what_runs_is_waited_for(pool: Pool, node: Node) -> None:
    job = make_job(make_vc(pool=pool))
    attempt = make_attempt(job, [node])
    let_begin(plan())
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.RUNNING


def test_who_may_be_stopped_is_moved_and_keeps_what_it_had(pool: Pool, node: Node) -> None:
    vc = make_vc(pool=pool)
    moved = make_job(vc, attained_gpu_s=100.0)
    stays = make_job(vc, preemptible=False, time_limit_s=60.0)
    attempts = [make_attempt(moved, [node])]
    other = make_node(pool, "gpu2")
    attempts.append(make_attempt(stays, [other]))
    row = plan(pool="main", running_jobs=RunningJobs.MOVE)
    let_begin(row)
    assert [Attempt.objects.get(pk=one.pk).state for one in attempts] == [AttemptState.STOPPING, AttemptState.RUNNING]
    attempt = Attempt.objects.get(pk=attempts[0].pk)
    assert attempt.reason == Reason.PREEMPTED
    assert attempt.reason_detail.startswith(f"jobs are moved off node gpu1: maintenance {row.pk} until ")
    allocation = attempt.allocations.get()
    Allocation.objects.filter(pk=allocation.pk).update(boot_id=BOOT)
    end_allocation(
        rank_of(allocation),
        claimant=Claimant(BOOT, allocation.state_id),
        end=End(reason=Reason.EXIT_NONZERO, exit_code=143, detail="", started=True, ran_s=5.0),
    )
    moved.refresh_from_db()
    assert (moved.state, moved.retries_used) == (JobState.QUEUED, 0)
    assert moved.attained_gpu_s > 100.0


def test_a_node_that_was_cordoned_already_stays_the_operators(pool: Pool, node: Node) -> None:
    cordon_node(node=node, reason="broken fan", actor="olga")
    row = plan()
    let_begin(row)
    let_end(row)
    assert admin_of() == (NodeAdmin.CORDONED, False, "broken fan")


def test_a_node_for_which_somebody_has_found_another_reason_is_not_given_back(pool: Pool, node: Node) -> None:
    row = plan()
    let_begin(row)
    resume_node(node=node, reason="done early", actor="olga")
    drain_node(node=node, reason="broken fan", actor="olga")
    let_end(row)
    assert admin_of() == (NodeAdmin.DRAINING, False, "broken fan")


def test_a_node_that_is_resumed_early_takes_jobs_again(pool: Pool, node: Node) -> None:
    let_begin(plan())
    resume_node(node=node, reason="done early", actor="olga")
    reap(pool)
    assert is_placed(submitted(pool))


def test_a_node_that_joins_the_pool_meanwhile_is_drained_too(pool: Pool, node: Node) -> None:
    row = plan(pool="main")
    let_begin(row)
    make_node(pool, "gpu2")
    reap(pool)
    assert admin_of("gpu2")[0] == NodeAdmin.DRAINING
    let_end(row)
    assert admin_of("gpu2")[0] == NodeAdmin.ACTIVE


def test_called_off_before_it_begins_it_closes_nothing(pool: Pool, node: Node) -> None:
    row = plan()
    call_off(maintenance=row, actor="olga", reason=" the driver came late ")
    assert is_placed(submitted(pool))
    assert Event.objects.get(kind="maintenance.called_off").data["why"] == "the driver came late"
    assert AuditEntry.objects.get(action="call_off").after == {"why": "the driver came late"}
    with pytest.raises(Conflict):
        call_off(maintenance=row, actor="olga")


def test_called_off_while_it_is_under_way_it_gives_the_nodes_back(pool: Pool, node: Node) -> None:
    row = plan()
    let_begin(row)
    row.refresh_from_db()
    call_off(maintenance=row, actor="olga")
    assert admin_of()[0] == NodeAdmin.ACTIVE
    actions = AuditEntry.objects.filter(object_type="maintenance").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["plan", "call_off"]


def test_one_that_passed_while_nobody_looked_is_over(pool: Pool, node: Node) -> None:
    row = plan()
    let_end(row)
    row.refresh_from_db()
    assert (row.begun_at, admin_of()[0]) == (None, NodeAdmin.ACTIVE)
    assert row.over_at is not None


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"lasts": -HOUR}, Invalid, "ends_at: it must come after begins_at"),
        ({"lasts": timedelta(0)}, Invalid, "ends_at: it must come after begins_at"),
        ({"begins_in": -3 * HOUR}, Invalid, "ends_at: it is past already"),
        ({"begins_in": -HOUR / 2}, Invalid, "begins_at: it is past already; leave it out to begin at once"),
        ({"node": "none"}, NotFound, "there is no node none"),
        ({"pool": "none"}, NotFound, "there is no pool none"),
        ({"pool": "main", "node": "gpu1"}, Invalid, "node: name either a node or a pool"),
        ({"pool": None, "node": None}, Invalid, "node: name either a node or a pool"),
        ({"reason": " "}, Invalid, "reason: say why"),
        ({"reason": "x" * 301}, Invalid, "reason: say why, in at most 300 characters"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    fields: dict[str, Any], error: type[MusterError], says: str, node: Node
) -> None:
    with pytest.raises(error) as caught:
        plan(**fields)
    assert caught.value.detail.startswith(says)
    assert not Maintenance.objects.exists()


@pytest.mark.parametrize(
    ("first", "second", "overlaps"),
    [
        ({"node": "gpu1"}, {"node": "gpu1"}, True),
        ({"node": "gpu1"}, {"pool": "main"}, True),
        ({"pool": "main"}, {"node": "gpu1"}, True),
        ({"node": "gpu1"}, {"node": "gpu2"}, False),
        ({"node": "gpu1"}, {"node": "gpu1", "begins_in": 2 * HOUR + timedelta(seconds=5)}, False),
    ],
)
def test_two_for_one_node_at_a_time_are_refused(
    first: dict[str, Any], second: dict[str, Any], overlaps: bool, pool: Pool, node: Node
) -> None:
    make_node(pool, "gpu2")
    row = plan(**first)
    if overlaps:
        with pytest.raises(Conflict, match=f"overlap with maintenance {row.pk} of "):
            plan(**second)
    else:
        plan(**second)
    assert Maintenance.objects.count() == 2 - overlaps


def test_without_a_beginning_it_begins_at_once(pool: Pool, node: Node) -> None:
    plan_maintenance(node="gpu1", begins_at=None, ends_at=timezone.now() + HOUR, reason="x", actor="olga")
    reap(pool)
    assert admin_of()[0] == NodeAdmin.DRAINING


def test_an_operator_moves_jobs_off_a_node_without_a_time(pool: Pool, node: Node) -> None:
    attempt = make_attempt(make_job(make_vc(pool=pool)), [node])
    drain_node(node=node, reason="fan", actor="olga")
    reap(pool)
    assert Attempt.objects.get().state == AttemptState.RUNNING
    move_jobs_off(node=node, reason="fan, soon", actor="olga")
    assert admin_of() == (NodeAdmin.DRAINING, True, "fan, soon")
    reap(pool)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.reason) == (AttemptState.STOPPING, Reason.PREEMPTED)
    resume_node(node=node, reason="done", actor="olga")
    assert admin_of() == (NodeAdmin.ACTIVE, False, "")


def test_in_the_admin_it_is_planned_shown_and_called_off(pool: Pool, node: Node, client: Client) -> None:
    client.force_login(make_user("olga", operator=True))
    begins = timezone.now() + HOUR

    def form(begins: datetime, ends: datetime) -> dict[str, Any]:
        moments = {"begins_at": begins, "ends_at": ends}
        parts = {f"{name}_0": f"{at:%Y-%m-%d}" for name, at in moments.items()}
        parts |= {f"{name}_1": f"{at:%H:%M:%S}" for name, at in moments.items()}
        return {"node": node.pk, "pool": "", "running_jobs": "move", "reason": "new driver", **parts}

    add = reverse("admin:fleet_maintenance_add")
    refused = client.post(add, form(begins, begins - HOUR), follow=True)
    assert "it must come after begins_at" in refused.content.decode()
    assert client.post(add, form(begins, begins + HOUR)).status_code == 302
    row = Maintenance.objects.get()
    assert (row.running_jobs, row.created_by, row.node_id) == (RunningJobs.MOVE, "olga", node.pk)
    page = client.get(reverse("admin:fleet_node_change", args=[node.pk])).content.decode()
    assert "UTC: new driver" in page
    data = {"action": "call_off", "_selected_action": [row.pk]}
    client.post(reverse("admin:fleet_maintenance_changelist"), data)
    row.refresh_from_db()
    assert row.over_at is not None
