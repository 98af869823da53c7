"""Several units in one transaction: each is carried out as if it were alone, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from muster.dispatch.apply import apply, launch
from muster.dispatch.apply.apply import Applied, apply_units
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.events.models import Event
from muster.fleet.services import cordon_node
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.jobs.services import cancel_job
from muster.tenants.models import Quota
from scheduler.model import AllocationView, Snapshot
from scheduler.model.lifecycle import ATTEMPT_LIVE
from scheduler.model.plan import Place
from scheduler.model.reasons import Reason
from tests.db.stories import (
    Other,
    World,
    cycle,
    kinds,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    planned_places,
    ranks,
    start,
    states,
    submit,
)
from tests.factories import make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


def carry_out(world: World, places: list[Place], seen: Snapshot | None = None) -> Applied:
    return apply_units(world.pool, [Unit((one,)) for one in places], config_of(world.pool), seen)


def refused(applied: Applied) -> dict[int, str]:
    return {refusal.job_id: refusal.reason for refusal in applied.refusals}


def on_node_of(world: World, one: Place, job: Job) -> Place:
    """A place for the job on just the GPUs of the other place."""
    (share,) = one.allocations
    return Place(
        job.pk, (AllocationView(share.node_id, 0, share.gpu_ids, job.request.first.cpus, job.request.first.memory_mib),)
    )


def nothing_was_written_for(job: Job) -> bool:
    return states(job)[1:] == ("", []) and not GpuClaim.objects.filter(allocation__attempt__job=job).exists()


class TestARefusal:
    """Of three jobs on a node each, the second one cannot start any more."""

    @staticmethod
    def _is_cancelled(world: World, job: Job, one: Place) -> None:
        cancel_job(user=world.user, job=job)

    @staticmethod
    def _node_is_cordoned(world: World, job: Job, one: Place) -> None:
        node = next(node for node in world.nodes if node.pk == one.allocations[0].node_id)
        cordon_node(node=node, reason="fan", actor="op")

    @staticmethod
    def _gpu_is_taken(world: World, job: Job, one: Place) -> None:
        rival = submit(world, vc=make_vc(world.tenant, world.pool).name)
        assert carry_out(world, [on_node_of(world, one, rival)]).started == [rival.pk]

    @staticmethod
    def _job_has_gone_to_another_cycle(world: World, job: Job, one: Place) -> None:
        assert carry_out(world, [one]).started == [job.pk]

    CHANGES = {
        "the job is cancelled": (_is_cancelled, "the job is cancelled"),
        "its node is cordoned": (_node_is_cordoned, "takes no jobs: cordoned"),
        "its GPU is taken": (_gpu_is_taken, "is held by a live attempt"),
        "it was placed already": (_job_has_gone_to_another_cycle, "the job is active"),
    }

    @pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
    def test_it_takes_no_other_unit_with_it(self, change: Callable[[World, Job, Place], None], why: str) -> None:
        world = make_world(nodes=3, gpus=1)
        jobs = [submit(world) for _ in range(3)]
        places, seen = planned_places(world)
        assert [one.job_id for one in places] == [job.pk for job in jobs]
        change(world, jobs[1], places[1])
        before = states(jobs[1])
        applied = carry_out(world, places, seen)
        assert applied.started == [jobs[0].pk, jobs[2].pk]
        assert list(refused(applied)) == [jobs[1].pk]
        assert why in refused(applied)[jobs[1].pk]
        assert states(jobs[1]) == before
        assert {states(job)[:2] for job in (jobs[0], jobs[2])} == {("active", "placed")}

    def test_of_a_quota_that_was_lowered_the_first_ones_have_the_rest(self) -> None:
        world = make_world(gpus=4, quota=4)
        jobs = [submit(world, gpus=gpus) for gpus in (1, 2, 1)]
        places, seen = planned_places(world)
        Quota.objects.filter(vc=world.vc).update(gpus=2)
        applied = carry_out(world, places, seen)
        # What is left for the third one is what the second one did not get.
        assert applied.started == [jobs[0].pk, jobs[2].pk]
        assert "quota" in refused(applied)[jobs[1].pk]
        assert nothing_was_written_for(jobs[1])

    def test_a_gang_is_refused_whole_and_the_others_start(self) -> None:
        world = make_world(nodes=3, gpus=1)
        gang, small = submit(world, nodes=2), submit(world)
        places, seen = planned_places(world)
        node = next(node for node in world.nodes if node.pk == places[0].allocations[1].node_id)
        cordon_node(node=node, reason="fan", actor="op")
        applied = carry_out(world, places, seen)
        assert (applied.started, list(refused(applied))) == ([small.pk], [gang.pk])
        assert nothing_was_written_for(gang)

    def test_all_of_them_may_be_refused(self) -> None:
        world = make_world(gpus=2)
        jobs = [submit(world), submit(world)]
        places, seen = planned_places(world)
        cordon_node(node=world.nodes[0], reason="fan", actor="op")
        applied = carry_out(world, places, seen)
        assert (applied.started, list(refused(applied))) == ([], [job.pk for job in jobs])
        assert all(nothing_was_written_for(job) for job in jobs)


class TestARefusalOfTheDatabase:
    def test_a_race_that_the_law_does_not_see_is_lost_by_one_unit_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = make_world(nodes=3, gpus=1)
        jobs = [submit(world) for _ in range(3)]
        places, seen = planned_places(world)
        rival = submit(world)
        assert carry_out(world, [on_node_of(world, places[1], rival)], seen).started == [rival.pk]
        told = Event.objects.count()
        monkeypatch.setattr(apply, "check", lambda *_: ())
        applied = carry_out(world, places, seen)
        assert applied.started == [jobs[0].pk, jobs[2].pk]
        assert refused(applied) == {jobs[1].pk: "lost a race: gpu_slot_once"}
        assert nothing_was_written_for(jobs[1])
        # What was undone has left no event behind.
        assert Event.objects.count() == told + 4
        assert kinds(jobs[0])[-2:] == kinds(jobs[2])[-2:] == ["job.active", "attempt.placed"]

    def test_the_last_port_of_an_address_is_had_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = make_world(gpus=3)
        taken = place(world).master_port
        jobs = [submit(world), submit(world)]
        places, seen = planned_places(world)
        monkeypatch.setattr(launch, "FIRST_PORT", taken)
        monkeypatch.setattr(launch, "LAST_PORT", taken + 1)
        applied = carry_out(world, places, seen)
        assert applied.started == [jobs[0].pk]
        assert live_attempt(jobs[0]).master_port == taken + 1
        assert refused(applied) == {jobs[1].pk: f"every port of {world.nodes[0].address} is taken"}

    def test_gangs_that_start_together_on_a_node_have_ports_of_their_own(self) -> None:
        world = make_world(gpus=8)
        jobs = [submit(world) for _ in range(8)]
        cycle(world)
        ports = Attempt.objects.filter(job__in=jobs, state__in=ATTEMPT_LIVE).values_list("master_port", flat=True)
        assert len(set(ports)) == 8


class TestTwoAppliers:
    @pytest.mark.django_db(transaction=True)
    def test_the_same_units_in_another_order_are_carried_out_once(self) -> None:
        world = make_world(nodes=4, gpus=1)
        jobs = [submit(world) for _ in range(4)]
        places, seen = planned_places(world)
        with transaction.atomic():
            assert carry_out(world, places, seen).refusals == []
            other = Other(lambda: carry_out(world, places[::-1], seen)).until_it_waits()
        assert other.result().started == []
        assert {one.reason for one in other.result().refusals} == {"the job is active, and its owner wants it to run"}
        assert {states(job)[:2] for job in jobs} == {("active", "placed")}

    @pytest.mark.django_db(transaction=True)
    def test_units_of_two_virtual_clusters_that_cross_wait_for_each_other_and_never_in_a_circle(self) -> None:
        world = make_world(nodes=4, gpus=1)
        second = make_vc(world.tenant, world.pool)
        jobs = [submit(world), submit(world, vc=second.name), submit(world), submit(world, vc=second.name)]
        places, seen = planned_places(world)
        with transaction.atomic():
            assert carry_out(world, [places[1], places[0]], seen).refusals == []
            other = Other(lambda: carry_out(world, [places[2], places[3]], seen)).until_it_waits()
        assert other.result().refusals == []
        assert {states(job)[:2] for job in jobs} == {("active", "placed")}

    @pytest.mark.django_db(transaction=True)
    def test_a_cancellation_waits_and_stops_what_was_just_placed(self) -> None:
        world = make_world(gpus=4)
        jobs = [submit(world) for _ in range(3)]
        places, seen = planned_places(world)
        with transaction.atomic():
            assert carry_out(world, places, seen).refusals == []
            cancelling = Other(lambda: cancel_job(user=world.user, job=jobs[1])).until_it_waits()
        cancelling.result()
        assert states(jobs[1]) == ("cancelled", "cancelled", ["released"])
        assert {states(job)[:2] for job in (jobs[0], jobs[2])} == {("active", "placed")}


class TestOneTransaction:
    def test_its_events_are_those_of_its_own_transaction(self) -> None:
        world = make_world(gpus=4)
        jobs = [submit(world) for _ in range(4)]
        cycle(world)
        told = Event.objects.filter(kind__in=["job.active", "attempt.placed"])
        assert told.count() == 8
        assert told.values("tx").distinct().count() == 1
        for job in jobs:
            assert kinds(job)[-2:] == ["job.active", "attempt.placed"]
            data = Event.objects.get(job_id=job.pk, kind="attempt.placed").data
            assert data == {"attempt": 1, "nodes": [world.nodes[0].name], "state": "placed"}

    def test_twelve_placements_ask_as_often_as_two(self) -> None:
        def asked(count: int) -> int:
            world = make_world(nodes=4, gpus=3)
            jobs = [submit(world) for _ in range(count)]
            places, seen = planned_places(world)
            with CaptureQueriesContext(connection) as queries:
                assert carry_out(world, places, seen).started == [job.pk for job in jobs]
            return len(queries)

        assert asked(12) == asked(2)

    def test_each_gang_gets_its_own_ranks_and_gpus(self) -> None:
        world = make_world(nodes=3, gpus=4)
        gang, pair, single = submit(world, nodes=2, gpus=3), submit(world, gpus=2), submit(world, gpus=0)
        result = cycle(world)
        for one in result.plan.places:
            attempt = live_attempt(Job.objects.get(pk=one.job_id))
            held = {
                (rank.node_id, rank.rank, tuple(rank.claims.order_by("gpu").values_list("gpu", flat=True)))
                for rank in ranks(attempt)
            }
            assert held == {(share.node_id, share.rank, share.gpu_ids) for share in one.allocations}
            first = next(share for share in one.allocations if share.rank == 0)
            assert attempt.master_addr == next(node.address for node in world.nodes if node.pk == first.node_id)
        assert {states(job)[:2] for job in (gang, pair, single)} == {("active", "placed")}

    def test_a_job_that_is_placed_again_counts_its_attempts(self) -> None:
        world = make_world(gpus=2)
        lost = start(world)
        lose_allocations(
            attempt_id=lost.pk, node_id=world.nodes[0].pk, reason=Reason.NODE_LOST, detail="gone", actor="platform"
        )
        let_pass(3600, lost.job, "eligible_at")
        fresh = submit(world)
        cycle(world)
        assert [live_attempt(job).number for job in (lost.job, fresh)] == [2, 1]
        assert [now_of(job).attempt_count for job in (lost.job, fresh)] == [2, 1]
        assert Event.objects.get(job_id=lost.job_id, kind="attempt.placed", data__attempt=2).actor == "scheduler"
