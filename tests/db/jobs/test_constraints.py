"""Constraints that Postgres enforces on every writer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.utils import timezone

from muster.common.models import DatabaseNow
from muster.events.models import AuditEntry
from muster.events.services import audit
from muster.fleet.models import Gpu, Node, NodeLease, Pool
from muster.jobs.models import Allocation, Attempt, GpuClaim, IdempotencyKey, Job, JobGroup
from muster.tenants.models import Membership, Quota, Tenant
from scheduler.model import SLOTS
from scheduler.model.codec import to_json
from scheduler.model.request import Choice
from tests.db.stories import World, end, live_attempt, make_world, now_of, place, ranks, start, submit
from tests.factories import given, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


class _refused:  # noqa: N801 (reads as the sentence that it is)
    """The block breaks the constraint of this name, and Postgres is the one who says so."""

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint
        self.atomic = transaction.atomic()

    def __enter__(self) -> None:
        self.atomic.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None:
            # What Postgres would look at when the transaction commits, it looks at now.
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            except DatabaseError as late:
                kind, error, trace = type(late), late, late.__traceback__
        self.atomic.__exit__(kind, error, trace)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        assert isinstance(error, IntegrityError), f"it was not refused: {error!r}"
        assert error.__cause__.diag.constraint_name == self.constraint
        return True


@pytest.mark.parametrize("change", [{}, {"held": True}, {"desired": "stop"}, {"paused": True, "member": 1}])
def test_only_a_waiting_job_that_nothing_holds_back_is_startable(world: World, change: dict[str, Any]) -> None:
    job = submit(world)
    if "member" in change:
        owner = {"owner": world.user, "tenant": world.tenant, "vc": world.vc, "pool": world.pool}
        change = {**change, "group": JobGroup.objects.create(kind="sweep", spec={}, size=1, parallel=1, **owner)}
    Job.objects.filter(pk=job.pk).update(**change)
    assert Job.objects.filter(pk=job.pk, startable=True).exists() is (not change)


def test_a_job_with_a_live_attempt_is_not_startable(world: World) -> None:
    assert not Job.objects.filter(pk=place(world).job_id, startable=True).exists()


def attempt_of(job: Job, **fields: Any) -> Attempt:
    values = {"number": 7, "request": given(job), "master_addr": "somewhere", "master_port": 1, **fields}
    return Attempt.objects.create(job=job, **values)


def change(row: Any, **fields: Any) -> None:
    type(row).objects.filter(pk=row.pk).update(**fields)


class TestGpus:
    def test_a_gpu_cannot_be_claimed_twice(self, world: World) -> None:
        claim = ranks(place(world))[0].claims.get()
        other = ranks(place(world))[0]
        with _refused("gpu_slot_once"):
            GpuClaim.objects.create(allocation=other, gpu=claim.gpu, span=claim.span)

    @pytest.mark.parametrize("slots", [(0, 1), (63, 64), (-5, 1), (10, 20)])
    def test_no_slot_of_a_whole_gpu_can_be_claimed_by_another(self, world: World, slots: tuple[int, int]) -> None:
        claim = ranks(place(world))[0].claims.get()
        first = claim.gpu_id * SLOTS
        with _refused("gpu_slot_once"):
            GpuClaim.objects.create(
                allocation=claim.allocation, gpu=claim.gpu, span=NumericRange(first + slots[0], first + slots[1], "[)")
            )

    def test_a_claim_that_was_freed_cannot_be_opened_again_over_another(self, world: World) -> None:
        attempt = start(world, gpus=4, nodes=2)
        claim = ranks(attempt)[0].claims.first()
        for allocation in ranks(attempt):
            end(allocation)
        place(world, gpus=4, nodes=2)
        with _refused("gpu_slot_once"):
            change(claim, released_at=None)

    def test_a_freed_gpu_can_be_claimed_again(self, world: World) -> None:
        attempt = start(world, gpus=4, nodes=2)
        for allocation in ranks(attempt):
            end(allocation)
        assert live_attempt(place(world, gpus=4, nodes=2).job).state == "placed"

    def test_a_node_has_one_gpu_at_an_index(self, world: World) -> None:
        with _refused("gpu_index"):
            Gpu.objects.create(node=world.nodes[0], index=0, uuid="GPU-x", type="A100")

    def test_a_gpu_is_known_once(self, world: World) -> None:
        with _refused("fleet_gpu_uuid_key"):
            Gpu.objects.create(node=world.nodes[0], index=9, uuid=world.nodes[1].gpus.first().uuid, type="A100")


class TestAttempts:
    def test_a_job_has_one_live_attempt(self, world: World) -> None:
        attempt = place(world)
        with _refused("one_live_attempt_a_job"):
            attempt_of(attempt.job)

    def test_a_number_is_given_once(self, world: World) -> None:
        attempt = start(world)
        end(ranks(attempt)[0])
        with _refused("attempt_number"):
            attempt_of(attempt.job, number=1)

    def test_a_master_port_is_given_once_at_an_address_while_it_is_used(self, world: World) -> None:
        attempt = place(world)
        with _refused("master_port_once_per_address"):
            attempt_of(submit(world), master_addr=attempt.master_addr, master_port=attempt.master_port)

    def test_a_port_can_be_given_again_once_its_attempt_has_ended(self, world: World) -> None:
        attempt = start(world, gpus=0)
        end(ranks(attempt)[0])
        job = submit(world, gpus=0)
        again = attempt_of(job, master_addr=attempt.master_addr, master_port=attempt.master_port)
        Allocation.objects.create(attempt=again, node=world.nodes[0], rank=0, cpus=1, memory_mib=1)
        assert Attempt.objects.filter(master_port=attempt.master_port).count() == 2

    def test_a_gang_without_its_allocations_cannot_be_committed(self, world: World) -> None:
        job = submit(world)
        with _refused("gang_is_whole"):
            attempt_of(job)

    def test_a_gang_of_which_a_rank_is_missing_cannot_be_committed(self, world: World) -> None:
        job = submit(world, nodes=2, gpus=0)
        with _refused("gang_is_whole"):
            attempt = attempt_of(job)
            Allocation.objects.create(attempt=attempt, node=world.nodes[0], rank=0, cpus=1, memory_mib=1)

    @pytest.mark.parametrize("gpus", [1, 3])
    def test_a_gang_with_too_few_or_too_many_gpus_cannot_be_committed(self, world: World, gpus: int) -> None:
        job = submit(world, gpus=2)
        with _refused("gang_is_whole"):
            attempt = attempt_of(job)
            held = Allocation.objects.create(attempt=attempt, node=world.nodes[0], rank=0, cpus=1, memory_mib=1)
            for gpu in world.nodes[0].gpus.all()[:gpus]:
                span = NumericRange(gpu.pk * SLOTS, (gpu.pk + 1) * SLOTS, "[)")
                GpuClaim.objects.create(allocation=held, gpu=gpu, span=span)

    @pytest.mark.parametrize("state", ["placed", "running", "failed", "lost"])
    def test_an_attempt_that_ended_stays_as_it_ended(self, world: World, state: str) -> None:
        attempt = start(world)
        end(ranks(attempt)[0])
        ended_at = timezone.now() if state in {"failed", "lost"} else None
        with _refused("attempt_end_is_final"):
            change(attempt, state=state, ended_at=ended_at)

    def test_a_state_that_nobody_knows_is_refused(self, world: World) -> None:
        with _refused("attempt_state_known"):
            change(place(world), state="dreaming")

    @pytest.mark.parametrize(
        ("fields", "constraint"),
        [
            ({"state": "succeeded"}, "attempt_ended_has_time"),
            ({"ended_at": DatabaseNow()}, "attempt_ended_has_time"),
            ({"state": "running"}, "attempt_running_has_time"),
            ({"state": "stopping", "outcome": "failed"}, "attempt_stopping_has_time"),
            ({"state": "stopping", "stopping_at": DatabaseNow()}, "attempt_stopping_has_time"),
        ],
    )
    def test_a_state_goes_with_its_moment(self, world: World, fields: dict[str, Any], constraint: str) -> None:
        attempt = place(world)
        with _refused(constraint):
            change(attempt, **fields)


class TestAllocations:
    def test_a_released_allocation_holds_no_gpu(self, world: World) -> None:
        allocation = ranks(place(world))[0]
        with _refused("claims_are_freed"):
            change(allocation, state="released", released_at=timezone.now())

    @pytest.mark.parametrize(
        ("fields", "constraint"),
        [
            ({"state": "released"}, "allocation_released_has_time"),
            ({"released_at": DatabaseNow()}, "allocation_released_has_time"),
            ({"state": "active"}, "allocation_active_was_claimed"),
            ({"state": "releasing"}, "allocation_active_was_claimed"),
            ({"state": "lent", "claimed_at": DatabaseNow()}, "allocation_state_known"),
        ],
    )
    def test_a_state_goes_with_its_moment(self, world: World, fields: dict[str, Any], constraint: str) -> None:
        allocation = ranks(place(world, gpus=0))[0]
        with _refused(constraint):
            change(allocation, **fields)

    def test_a_rank_and_a_node_are_in_a_gang_once(self, world: World) -> None:
        attempt = place(world, nodes=2)
        first, second = ranks(attempt)
        with _refused("allocation_rank"):
            change(second, rank=0)
        with _refused("allocation_node_once"):
            change(second, node=first.node)


class TestJobs:
    @pytest.mark.parametrize(
        ("fields", "constraint"),
        [
            ({"state": "asleep"}, "job_state_known"),
            ({"state": "succeeded"}, "job_ended_has_time"),
            ({"ended_at": DatabaseNow()}, "job_ended_has_time"),
            ({"state": "active", "hold_reason": "quota"}, "job_hold_only_while_queued"),
        ],
    )
    def test_a_job_cannot_be_what_makes_no_sense(self, world: World, fields: dict[str, Any], constraint: str) -> None:
        job = submit(world)
        with _refused(constraint):
            change(job, **fields)

    @pytest.mark.parametrize(
        ("fields", "constraint"),
        [
            ({"nodes": 0}, "job_has_nodes"),
            ({"nodes": None}, "job_has_nodes"),
            ({"choices": [{"gpu_type": None, "gpus": -1, "cpus": 1, "memory_mib": 1}]}, "job_gpus_not_negative"),
            ({"choices": []}, "job_gpus_not_negative"),
            ({"locality": "moon"}, "job_locality_known"),
            ({"shares_gpu": True}, "job_that_shares_gpus_says_size"),
        ],
    )
    def test_a_job_cannot_ask_for_what_makes_no_sense(
        self, world: World, fields: dict[str, Any], constraint: str
    ) -> None:
        job = submit(world)
        with _refused(constraint):
            change(job, request=to_json(job.request) | fields)

    def test_what_queries_sort_by_follows_the_request(self, world: World) -> None:
        job = submit(world, gpus="A100:2", nodes=2)
        assert (job.gpu_type, job.gpus, job.nodes, job.gpus_total) == ("A100", 2, 2, 4)
        choices = (Choice("V100", 8, 8, 1024), Choice("A100", 4, 4, 1024))
        change(job, request=replace(job.request, choices=choices, nodes=1))
        found = now_of(job)
        assert (found.gpu_type, found.gpus, found.nodes) == ("", 8, 1)
        assert found.request is now_of(job).request

    def test_a_key_is_used_once_by_its_owner(self, world: World) -> None:
        IdempotencyKey.objects.create(owner=world.user, key="once", body_digest="x")
        with _refused("idempotency_key_once"):
            IdempotencyKey.objects.create(owner=world.user, key="once", body_digest="y")

    def test_two_owners_may_use_one_key(self, world: World) -> None:
        for owner in (world.user, make_user()):
            IdempotencyKey.objects.create(owner=owner, key="once", body_digest="x")
        assert IdempotencyKey.objects.count() == 2


class TestTenantsAndNodes:
    def test_a_quota_is_not_negative_and_there_is_one_for_a_type(self, world: World) -> None:
        with _refused("quota_not_negative"):
            Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=-1)
        with _refused("quota_once_per_type"):
            Quota.objects.create(vc=world.vc, gpu_type="A100", gpus=1)

    def test_a_weight_is_positive_and_a_role_is_known(self, world: World) -> None:
        with _refused("tenant_weight_positive"):
            change(Tenant.objects.get(pk=world.tenant.pk), weight=0)
        with _refused("membership_role_known"):
            Membership.objects.update(role="king")

    @pytest.mark.parametrize(
        "timers",
        [
            {"beat_s": 0},
            {"suspect_after_s": 5},
            {"unreachable_after_s": 14},
            {"stop_after_s": 29},
            {"fence_margin_s": 0},
            {"claim_timeout_s": 0},
        ],
    )
    def test_a_pools_timers_are_in_order(self, world: World, timers: dict[str, float]) -> None:
        with _refused("pool_timers_in_order"):
            Pool.objects.update(**timers)

    @pytest.mark.parametrize(
        ("fields", "constraint"), [({"admin": "gone"}, "node_admin_known"), ({"health": "ill"}, "node_health_known")]
    )
    def test_a_nodes_states_are_known(self, world: World, fields: dict[str, str], constraint: str) -> None:
        with _refused(constraint):
            Node.objects.update(**fields)

    def test_a_credential_is_one_nodes(self, world: World) -> None:
        with _refused("node_credential"):
            Node.objects.update(credential_digest="the same")

    def test_a_leases_state_is_known(self, world: World) -> None:
        with _refused("lease_state_known"):
            NodeLease.objects.update(state="stolen")

    def test_no_user_is_root_on_a_node(self) -> None:
        with _refused("user_uid_not_root"):
            make_user(uid=0)


class TestAudit:
    @pytest.fixture
    def entry(self) -> AuditEntry:
        audit("create", actor="op", object_type="pool", object_id="main")
        return AuditEntry.objects.get()

    def test_an_entry_cannot_be_changed(self, entry: AuditEntry) -> None:
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            AuditEntry.objects.update(actor="another")
        assert AuditEntry.objects.get().actor == "op"

    def test_an_entry_cannot_be_removed(self, entry: AuditEntry) -> None:
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            AuditEntry.objects.all().delete()
        assert AuditEntry.objects.count() == 1

    # The tables' owner asks here; in tests it is a superuser besides.
    @pytest.mark.parametrize("how", ["", " CASCADE", " RESTART IDENTITY"])
    def test_the_entries_cannot_be_removed_all_at_once(self, entry: AuditEntry, how: str) -> None:
        with (
            pytest.raises(DatabaseError, match="never change"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(f"TRUNCATE events_auditentry{how}")
        assert AuditEntry.objects.get() == entry
