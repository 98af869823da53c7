"""Preemption in Postgres: who is stopped, what is kept and for whom, and what becomes of both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from muster.agents.desired import desired_sets
from muster.common.errors import Invalid
from muster.common.models import DatabaseNow
from muster.dispatch.apply.apply import Applied, apply_unit
from muster.dispatch.apply.plan_units import Unit, units_of
from muster.dispatch.config.settings import config_of
from muster.dispatch.models import Cycle
from muster.dispatch.reaper import reap
from muster.dispatch.snapshot.reservations import keep_for
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import Event
from muster.fleet.models import Node
from muster.fleet.services import cordon_node
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Attempt, Job, Reservation, ReservedGpu
from muster.jobs.services import cancel_job, submit_job
from scheduler.engine.cycle import compose, decide
from scheduler.model import AllocationView, Snapshot
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Place, Preempt
from scheduler.model.reasons import Reason
from tests.db.stories import (
    Other,
    World,
    claim,
    cycle,
    end,
    kinds,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    start,
    states,
    submit,
)
from tests.factories import make_tenant, make_user, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

SHORT_S, LONG_S = 10.0, 10_000.0


@pytest.fixture
def world() -> World:
    """One node with two GPUs, whose policy lets the job with the least left go first."""
    return make_world(gpus=2, policy="srtf")


def expect(job: Job, expected_s: float) -> Job:
    Job.objects.filter(pk=job.pk).update(expected_s=expected_s)
    return job


def victim_of(world: World, *, state_id: str = "", **spec: Any) -> Attempt:
    """An attempt on both GPUs that goes on for long."""
    job = expect(submit(world, gpus=2, **spec), LONG_S)
    cycle(world)
    attempt = live_attempt(job)
    claim(ranks(attempt)[0], state_id=state_id)
    return attempt


def short_job(world: World, **spec: Any) -> Job:
    return expect(submit(world, **spec), SHORT_S)


def stop_of(attempt: Attempt, **end_fields: Any) -> None:
    """The agent tells that the job has gone, as it was asked to."""
    end(ranks(attempt)[0], Reason.COMPLETED, **end_fields)


class TestAPreemption:
    def test_it_stops_one_and_keeps_its_gpus_for_the_other(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        result = cycle(world)
        assert states(attempt.job) == ("active", "stopping", ["releasing"])
        assert (now_of(attempt).outcome, now_of(attempt).reason) == ("preempted", "preempted")
        assert (result.applied.started, result.applied.reserved) == ([], [job.pk])
        assert result.applied.preempted == [attempt.job_id]
        assert (now_of(job).state, now_of(job).hold_reason) == ("queued", "reserved")
        assert kinds(job)[-2:] == ["job.reserved", "job.held"]
        assert [kept.reservation_id for kept in ReservedGpu.objects.all()] == [job.pk]
        row = Cycle.objects.get(pk=result.cycle_id)
        assert (row.placed, row.reserved, row.preempted, row.refused) == (0, 1, 1, 0)

    def test_it_ends_with_the_one_running_and_the_other_in_the_queue_with_what_it_has_had(self, world: World) -> None:
        attempt = victim_of(world, checkpoint={"grace": "5s"}, retry={"max": 0, "on": []})
        let_pass(100, attempt, "placed_at")
        job = short_job(world)
        cycle(world)
        stop_of(attempt)
        assert states(attempt.job)[:2] == ("queued", "preempted")
        back = now_of(attempt.job)
        assert back.retries_used == 0
        assert back.ran_s == pytest.approx(100, abs=5)
        assert back.attained_gpu_s == pytest.approx(2 * back.ran_s)
        assert back.submitted_at == attempt.job.submitted_at < back.requeued_at
        cycle(world)
        assert states(job)[:2] == ("active", "placed")
        assert not Reservation.objects.exists()
        (waiting,) = pool_snapshot(world.pool, seed=0).waiting
        assert (waiting.id, waiting.checkpoints) == (back.pk, True)
        assert waiting.remaining_s == pytest.approx(LONG_S - back.ran_s)
        assert (waiting.ran_s, waiting.requeued_at) == (back.ran_s, back.requeued_at.timestamp())

    def test_nobody_is_stopped_for_others_whom_no_agent_can_ask(self, world: World) -> None:
        attempt = victim_of(world, state_id="first")
        Node.objects.update(state_id="second", state_since=DatabaseNow())
        reap(world.pool)
        job = short_job(world)
        result = cycle(world)
        assert (result.applied.preempted, result.applied.reserved) == ([], [])
        assert states(attempt.job) == ("active", "starting", ["active"])
        assert now_of(job).hold_reason == HoldReason.NO_FREE_GPUS
        Node.objects.update(state_id="first", state_since=DatabaseNow())
        reap(world.pool)
        assert cycle(world).applied.preempted == [attempt.job_id]

    def test_work_that_is_not_saved_begins_again(self, world: World) -> None:
        attempt = victim_of(world)
        let_pass(100, attempt, "placed_at")
        short_job(world)
        cycle(world)
        stop_of(attempt)
        back = next(job for job in pool_snapshot(world.pool, seed=0).waiting if job.id == attempt.job_id)
        assert (back.checkpoints, back.remaining_s) == (False, LONG_S)

    def test_the_agent_is_told_the_signal_and_the_grace(self, world: World) -> None:
        attempt = victim_of(world, checkpoint={"signal": "USR1", "grace": "45s"})
        short_job(world)
        cycle(world)
        (wish,) = desired_sets([world.nodes[0]])[world.nodes[0]].allocations
        assert (wish.action.value, wish.signal, wish.grace_s, wish.reason) == ("stop", "USR1", 45.0, "preempted")
        assert wish.fence == attempt.pk

    def test_one_that_nobody_has_claimed_yet_goes_at_once(self, world: World) -> None:
        attempt = place(world, gpus=2)
        expect(attempt.job, LONG_S)
        job = short_job(world)
        cycle(world)
        assert states(attempt.job) == ("queued", "preempted", ["released"])
        cycle(world)
        assert states(job)[:2] == ("active", "placed")

    def test_nobody_is_stopped_who_may_not_be(self, world: World) -> None:
        attempt = victim_of(world, preemptible=False, time="1h")
        short_job(world)
        cycle(world)
        assert states(attempt.job)[:2] == ("active", "starting")
        assert not Reservation.objects.exists()

    def test_only_its_own_tenant_reads_for_which_job_it_goes(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        cycle(world)
        assert f"job {job.pk}" in now_of(attempt).reason_detail

        other = make_world(gpus=1, policy="srtf")
        stopped = start(other)
        expect(stopped.job, LONG_S)
        tenant = make_tenant()
        vc = make_vc(tenant, other.pool)
        stranger = submit_job(user=make_user(tenant=tenant), data={"command": "true", "gpus": 1, "vc": vc.name})[0]
        expect(stranger, SHORT_S)
        cycle(other)
        assert now_of(stopped).reason == "preempted"
        told = str([now_of(stopped).reason_detail, *Event.objects.filter(job_id=stopped.job_id).values_list("data")])
        assert now_of(stopped).reason_detail
        assert f"job {stranger.pk}" not in told
        assert vc.name not in told


class TestWhatIsKept:
    def test_others_do_not_get_it(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world, gpus=2)
        cycle(world)
        stop_of(attempt)
        rival = expect(submit(world, gpus=2), SHORT_S / 2)
        gpu_ids = tuple(ReservedGpu.objects.order_by("pk").values_list("pk", flat=True))
        choice = rival.request.first
        share = AllocationView(world.nodes[0].pk, 0, gpu_ids, choice.cpus, choice.memory_mib)
        result = apply_unit(world.pool, Unit((Place(rival.pk, (share,)),)), config_of(world.pool))
        assert "reserved for another job" in result.refusals[0].reason
        with pytest.raises(IntegrityError, match="reservedgpu"), transaction.atomic():
            keep_for(Place(rival.pk, (share,)), for_s=60)
        cycle(world)
        assert states(job)[:2] == ("active", "placed")
        assert now_of(rival).state == "queued"

    def test_it_is_let_go_of_when_the_job_is_cancelled(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        cycle(world)
        cancel_job(user=world.user, job=job)
        assert not Reservation.objects.exists()
        stop_of(attempt)
        cycle(world)
        assert states(attempt.job)[:2] == ("active", "placed")
        assert live_attempt(attempt.job).number == 2

    def test_it_is_let_go_of_when_its_time_is_over(self, world: World) -> None:
        victim_of(world)
        job = short_job(world)
        cycle(world)
        Reservation.objects.update(until=now_of(job).submitted_at - timedelta(seconds=1))
        cycle(world)
        assert not Reservation.objects.exists()
        assert now_of(job).hold_reason == "no_free_gpus"

    def test_it_is_let_go_of_when_its_node_is_cordoned(self) -> None:
        world = make_world(nodes=2, gpus=1, policy="srtf")
        victims = [start(world), start(world)]
        for attempt in victims:
            expect(attempt.job, LONG_S)
        job = short_job(world)
        cycle(world)
        first = now_of(next(one for one in victims if now_of(one).state == "stopping"))
        node = ranks(first)[0].node
        cordon_node(node=node, reason="fan", actor="op")
        cycle(world)
        assert not Reservation.objects.filter(allocations__0__node_id=node.pk).exists()
        cycle(world)
        second = next(one for one in victims if one.pk != first.pk)
        assert now_of(second).state == "stopping"
        stop_of(second)
        cycle(world)
        assert ranks(live_attempt(job))[0].node_id == ranks(second)[0].node_id

    def test_it_waits_for_a_node_that_has_fallen_silent_no_longer_than_the_victim_does(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        cycle(world)
        lose_allocations(
            attempt_id=attempt.pk,
            node_id=world.nodes[0].pk,
            reason=Reason.NODE_LOST,
            detail="it stayed away",
            actor="platform",
        )
        assert states(attempt.job)[:2] == ("queued", "preempted")
        cycle(world)
        assert states(job)[:2] == ("active", "placed")


class TestAMove:
    def test_the_job_stops_and_starts_on_the_other_node(self) -> None:
        world = make_world(nodes=2, gpus=1)
        attempt = start(world)
        job, here = attempt.job, ranks(attempt)[0].node_id
        there = next(node for node in world.nodes if node.pk != here)
        share = AllocationView(
            there.pk, 0, (there.gpus.get().pk,), job.request.first.cpus, job.request.first.memory_mib
        )
        unit = Unit((Place(job.pk, (share,)),), (Preempt(job.pk, job.pk, "it moves"),))
        result = apply_unit(world.pool, unit, config_of(world.pool))
        assert (result.reserved, result.preempted, result.refusals) == ([job.pk], [job.pk], [])
        assert now_of(attempt).reason_detail == "it moves"
        rival = submit(world)
        cycle(world)
        assert now_of(rival).state == "queued"
        stop_of(attempt)
        cycle(world)
        assert ranks(live_attempt(job))[0].node_id == there.pk
        assert ranks(live_attempt(rival))[0].node_id == here

    def test_nothing_is_kept_for_one_that_was_cancelled_on_its_way(self) -> None:
        world = make_world(nodes=2, gpus=1)
        attempt = start(world)
        there = next(node for node in world.nodes if node.pk != ranks(attempt)[0].node_id)
        share = AllocationView(
            there.pk, 0, (there.gpus.get().pk,), attempt.job.request.first.cpus, attempt.job.request.first.memory_mib
        )
        unit = Unit((Place(attempt.job_id, (share,)),), (Preempt(attempt.job_id, attempt.job_id, "it moves"),))
        apply_unit(world.pool, unit, config_of(world.pool))
        cancel_job(user=world.user, job=attempt.job)
        assert not Reservation.objects.exists()
        stop_of(attempt)
        assert now_of(attempt.job).state == "cancelled"


def planned(world: World) -> tuple[Unit, Snapshot]:
    """The one unit that a cycle would carry out now, and the snapshot that it was chosen by."""
    snapshot, config = pool_snapshot(world.pool, seed=1), config_of(world.pool)
    (unit,) = units_of(snapshot, decide(snapshot, config), compose(config).admission)
    assert unit.preempts
    return unit, snapshot


def carry_out(world: World, unit: Unit, seen: Snapshot) -> Applied:
    return apply_unit(world.pool, unit, config_of(world.pool), seen)


def nothing_was_done(result: Applied) -> bool:
    return not (result.started or result.reserved or result.preempted or Reservation.objects.exists())


class TestTheWorldChangesAfterTheSnapshot:
    def test_a_victim_that_no_agent_can_ask_any_more_refuses_the_unit(self, world: World) -> None:
        attempt = victim_of(world)
        short_job(world)
        unit, seen = planned(world)
        Attempt.objects.filter(pk=attempt.pk).update(unreachable_since=DatabaseNow())
        result = carry_out(world, unit, seen)
        assert nothing_was_done(result)
        assert "may not be preempted" in result.refusals[0].reason
        assert states(attempt.job) == ("active", "starting", ["active"])

    def test_a_victim_that_has_ended_meanwhile_is_not_needed_any_more(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        unit, seen = planned(world)
        stop_of(attempt)
        result = carry_out(world, unit, seen)
        assert "no running attempt to preempt" in result.refusals[0].reason
        assert nothing_was_done(result)
        assert now_of(attempt.job).state == "succeeded"
        cycle(world)
        assert states(job)[:2] == ("active", "placed")

    @pytest.mark.django_db(transaction=True)
    def test_a_victim_that_is_ending_is_waited_for_and_not_stopped(self, world: World) -> None:
        attempt = victim_of(world)
        short_job(world)
        unit, seen = planned(world)
        with transaction.atomic():
            stop_of(attempt)
            applying = Other(lambda: carry_out(world, unit, seen)).until_it_waits()
        assert nothing_was_done(applying.result())
        assert now_of(attempt.job).state == "succeeded"

    @pytest.mark.django_db(transaction=True)
    def test_an_end_that_comes_while_the_victim_is_stopped_is_the_end_of_a_preempted_job(self, world: World) -> None:
        attempt = victim_of(world)
        short_job(world)
        unit, seen = planned(world)
        with transaction.atomic():
            assert carry_out(world, unit, seen).preempted == [attempt.job_id]
            ending = Other(lambda: stop_of(attempt)).until_it_waits()
        ending.result()
        assert states(attempt.job)[:2] == ("queued", "preempted")

    def test_nobody_stops_for_a_job_that_was_cancelled_meanwhile(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        unit, seen = planned(world)
        cancel_job(user=world.user, job=job)
        result = carry_out(world, unit, seen)
        assert "the job is cancelled" in result.refusals[0].reason
        assert nothing_was_done(result)
        assert now_of(attempt).state == "starting"

    @pytest.mark.django_db(transaction=True)
    def test_nobody_stops_for_a_job_that_is_being_cancelled(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        unit, seen = planned(world)
        with transaction.atomic():
            cancel_job(user=world.user, job=job)
            applying = Other(lambda: carry_out(world, unit, seen)).until_it_waits()
        assert nothing_was_done(applying.result())
        assert now_of(attempt).state == "starting"

    def test_nobody_stops_for_a_place_on_a_node_that_was_cordoned_meanwhile(self, world: World) -> None:
        attempt = victim_of(world)
        short_job(world)
        unit, seen = planned(world)
        cordon_node(node=world.nodes[0], reason="fan", actor="op")
        result = carry_out(world, unit, seen)
        assert "takes no jobs: cordoned: fan" in result.refusals[0].reason
        assert nothing_was_done(result)
        assert now_of(attempt).state == "starting"

    @pytest.mark.django_db(transaction=True)
    def test_a_victim_is_stopped_for_one_job_only(self, world: World) -> None:
        attempt = victim_of(world)
        short_job(world)
        unit, seen = planned(world)
        with transaction.atomic():
            assert carry_out(world, unit, seen).preempted == [attempt.job_id]
            other = Other(lambda: carry_out(world, unit, seen)).until_it_waits()
        assert "no running attempt to preempt" in other.result().refusals[0].reason

    def test_a_victim_that_its_owner_cancels_on_its_way_out_does_not_come_back(self, world: World) -> None:
        attempt = victim_of(world)
        job = short_job(world)
        cycle(world)
        cancel_job(user=world.user, job=attempt.job)
        stop_of(attempt)
        assert now_of(attempt.job).state == "cancelled"
        cycle(world)
        assert states(job)[:2] == ("active", "placed")


class TestWhoGoesTogether:
    def test_two_who_share_the_gpus_of_one_victim_start_together_or_not_at_all(self, world: World) -> None:
        attempt = victim_of(world)
        first, second = short_job(world), short_job(world)
        unit, seen = planned(world)
        assert {one.job_id for one in unit.places} == {first.pk, second.pk}
        cancel_job(user=world.user, job=second)
        result = carry_out(world, unit, seen)
        assert {refusal.job_id for refusal in result.refusals} == {first.pk, second.pk}
        assert nothing_was_done(result)
        cycle(world)
        assert now_of(attempt).state == "stopping"

    def test_one_who_needs_nobody_to_stop_starts_at_once(self) -> None:
        world = make_world(nodes=2, gpus=2, policy="srtf")
        running = [start(world, gpus=2), start(world)]
        for attempt in running:
            expect(attempt.job, LONG_S)
        small, large = short_job(world), expect(submit(world, gpus=2), SHORT_S * 2)
        result = cycle(world)
        assert (result.applied.started, result.applied.reserved) == ([small.pk], [large.pk])


class TestNotes:
    def test_a_note_is_stored_and_told_again(self) -> None:
        world = make_world(gpus=2, policy="tiresias", policy_params={"limits_gpu_s": [50]})
        attempt = start(world)
        let_pass(100, attempt, "placed_at")
        submit(world, gpus=2)
        cycle(world)
        memo = now_of(attempt.job).memo
        assert memo["queue"] == 1
        (run,) = pool_snapshot(world.pool, seed=0).running
        assert run.job.policy_state == memo


class TestSpec:
    @pytest.mark.parametrize(
        ("keys", "field"),
        [
            ({"preemptible": False}, "preemptible"),
            ({"preemptible": False, "time": "1h", "class": "opportunistic"}, "preemptible"),
            ({"locality": {"within": "node"}, "nodes": 2}, "locality.within"),
            ({"locality": {"within": "galaxy"}}, "locality.within"),
            ({"locality": {"relax_after": "1m"}}, "locality.within"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, world: World, keys: dict[str, Any], field: str) -> None:
        with pytest.raises(Invalid) as refused:
            submit(world, **keys)
        assert [one.field for one in refused.value.errors] == [field]

    def test_naming_a_checkpoint_says_that_work_is_saved_also_in_a_clone(self, world: World) -> None:
        plain, saving = submit(world), submit(world, checkpoint={})
        assert (plain.checkpoints, saving.checkpoints) == (False, True)
        for job in (plain, saving):
            again = submit_job(user=world.user, data=job.spec)[0]
            assert (again.checkpoints, again.spec) == (job.checkpoints, job.spec)

    def test_a_locality_is_relaxed_by_waiting(self, world: World) -> None:
        job = submit(world, nodes=2, locality={"within": "rack", "relax_after": "10m"})
        assert [one.request.locality.value for one in pool_snapshot(world.pool, seed=0).waiting] == ["rack"]
        let_pass(601, job, "submitted_at", "eligible_at")
        assert [one.request.locality.value for one in pool_snapshot(world.pool, seed=0).waiting] == ["any"]
