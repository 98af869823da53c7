"""Two transactions at once. The second finds what the first has done, and never half of it.

The first works in an open transaction; the second is started, and is seen to wait for the first's lock; then the first
commits. No test waits for a clock.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from muster.agents.batches import apply_alone
from muster.common.errors import Conflict, Invalid
from muster.dispatch import cycles
from muster.dispatch.apply.apply import Refusal, apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.events.models import Event
from muster.fleet.leases import judge_nodes, renew, tick
from muster.fleet.models import GpuCheck, Node, NodeLease, Pool, Tick
from muster.fleet.services import cordon_node
from muster.jobs import services
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Attempt, GpuClaim, IdempotencyKey, Job
from muster.jobs.services import cancel_job, edit_job, submit_job
from muster.tenants.models import Quota, VirtualCluster
from muster.tenants.services import set_quota
from nodeagent.protocol.messages import BatchItem, ClaimRequest
from scheduler.model import Snapshot
from scheduler.model.plan import Place
from scheduler.model.reasons import Reason
from tests.db.stories import (
    WAIT_S,
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
    planned_places,
    ranks,
    start,
    states,
    submit,
)
from tests.factories import make_vc

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


def lose(attempt: Attempt) -> bool:
    node_id = ranks(attempt)[0].node_id
    return lose_allocations(
        attempt_id=attempt.pk, node_id=node_id, reason=Reason.NODE_LOST, detail="gone", actor="platform"
    )


def apply(world: World, one: Place, seen: Snapshot) -> Refusal | None:
    return next(iter(apply_unit(world.pool, Unit((one,)), config_of(world.pool), seen).refusals), None)


def reason_of(refusal: Refusal | None) -> str:
    assert refusal is not None, "it was not refused"
    return refusal.reason


def nothing_was_written_for(job: Job) -> bool:
    return states(job)[1:] == ("", []) and not GpuClaim.objects.filter(allocation__attempt__job=job).exists()


class TestClaimAndCancel:
    def test_a_claim_that_comes_second_is_refused(self) -> None:
        world = make_world()
        attempt = place(world)
        with transaction.atomic():
            cancel_job(user=world.user, job=attempt.job)
            claiming = Other(lambda: claim(ranks(attempt)[0])).until_it_waits()
        with pytest.raises(Conflict, match="must not start"):
            claiming.result()
        assert states(attempt.job) == ("cancelled", "cancelled", ["released"])

    def test_a_cancellation_that_comes_second_stops_what_was_claimed(self) -> None:
        world = make_world()
        attempt = place(world)
        with transaction.atomic():
            claim(ranks(attempt)[0])
            cancelling = Other(lambda: cancel_job(user=world.user, job=attempt.job)).until_it_waits()
        cancelling.result()
        assert states(attempt.job) == ("active", "stopping", ["releasing"])

    def test_a_cancellation_comes_too_late_for_a_job_that_has_just_succeeded(self) -> None:
        world = make_world()
        attempt = start(world)
        with transaction.atomic():
            end(ranks(attempt)[0])
            cancelling = Other(lambda: cancel_job(user=world.user, job=attempt.job)).until_it_waits()
        with pytest.raises(Conflict, match="succeeded"):
            cancelling.result()
        assert states(attempt.job)[:2] == ("succeeded", "succeeded")

    def test_two_boots_of_a_node_claim_and_one_gets_it(self) -> None:
        attempt = place(make_world())
        with transaction.atomic():
            claim(ranks(attempt)[0], boot_id="boot-1")
            other = Other(lambda: claim(ranks(attempt)[0], boot_id="boot-2")).until_it_waits()
        with pytest.raises(Conflict, match="another boot"):
            other.result()
        assert ranks(attempt)[0].boot_id == "boot-1"

    def test_a_claim_of_a_boot_that_has_just_been_followed_by_another_is_refused(self) -> None:
        attempt = place(make_world())
        node = Node.objects.select_related("lease").get(pk=ranks(attempt)[0].node_id)
        request = ClaimRequest(fence=attempt.pk, boot_id="boot-1", epoch=node.lease.epoch, state_id="state-1")
        with transaction.atomic():
            NodeLease.objects.filter(pk=node.pk).update(epoch=F("epoch") + 1)
            item = BatchItem(ranks(attempt)[0].pk, claim=request)
            late = Other(lambda: apply_alone(node, item)).until_it_waits()
        refused = late.result()
        assert refused.status == Conflict.status
        assert "superseded" in str(refused)
        assert states(attempt.job) == ("active", "placed", ["reserved"])


class TestEndAndChecksOfGpus:
    def test_a_job_that_fails_for_its_nodes_sake_takes_the_checks_of_its_gpus_after_its_node(self) -> None:
        world = make_world()
        Pool.objects.filter(pk=world.pool.pk).update(black_hole_jobs=3, black_hole_s=3600)
        attempt = start(world)
        rank = ranks(attempt)[0]
        checks = GpuCheck.objects.filter(gpu__claims__allocation=rank)
        GpuCheck.objects.bulk_create(GpuCheck(gpu_id=claim.gpu_id) for claim in rank.claims.all())
        with transaction.atomic():
            # The lock order of taking the results of checks: the node, and then the checks of its GPUs.
            Node.objects.select_for_update(no_key=True).get(pk=rank.node_id)
            failing = Other(lambda: end(rank, Reason.UNKNOWN)).until_it_waits()
            # If the job had them by now, each would wait for the other, and Postgres would end one of them.
            assert list(checks.select_for_update(no_key=True, nowait=True, of=("self",)).values_list("in_doubt")) == [
                (False,)
            ]
            checks.update(streak=7)
        failing.result()
        assert list(checks.values_list("in_doubt", "streak")) == [(True, 0)]


class TestEndAndLoss:
    def test_a_node_lost_just_after_its_job_ended_loses_nothing(self) -> None:
        attempt = start(make_world())
        with transaction.atomic():
            end(ranks(attempt)[0])
            losing = Other(lambda: lose(attempt)).until_it_waits()
        assert losing.result() is False
        assert states(attempt.job) == ("succeeded", "succeeded", ["released"])

    def test_an_end_told_just_after_its_node_was_lost_changes_nothing(self) -> None:
        attempt = start(make_world())
        with transaction.atomic():
            lose(attempt)
            ending = Other(lambda: end(ranks(attempt)[0])).until_it_waits()
        ending.result()
        assert states(attempt.job) == ("queued", "lost", ["released"])
        assert kinds(attempt.job).count("job.queued") == 1

    def test_the_last_two_ranks_end_at_once_and_the_attempt_ends_once(self) -> None:
        attempt = start(make_world(nodes=2), nodes=2)
        first, second = ranks(attempt)
        with transaction.atomic():
            end(first)
            ending = Other(lambda: end(second)).until_it_waits()
        ending.result()
        assert states(attempt.job)[:2] == ("succeeded", "succeeded")
        assert kinds(attempt.job).count("job.succeeded") == 1

    def test_two_ranks_fail_at_once_and_the_first_is_the_root_cause(self) -> None:
        attempt = start(make_world(nodes=2), nodes=2)
        first, second = ranks(attempt)
        with transaction.atomic():
            end(first, Reason.EXIT_NONZERO, exit_code=3)
            ending = Other(lambda: end(second, Reason.KILLED_BY_SIGNAL, exit_code=137)).until_it_waits()
        ending.result()
        assert (now_of(attempt).reason, now_of(attempt).exit_code) == ("exit_nonzero", 3)


class TestTwoAppliers:
    def test_the_same_gpu_from_two_old_snapshots_is_given_once(self) -> None:
        world = make_world(gpus=1)
        other_vc = make_vc(world.tenant, world.pool)
        first = submit(world)
        (first_place,), seen = planned_places(world)
        second = submit(world, vc=other_vc.name)
        second_place = Place(second.pk, first_place.allocations)
        with transaction.atomic():
            assert apply(world, first_place, seen) is None
            other = Other(lambda: apply(world, second_place, seen)).until_it_waits()
        assert "is held by a live attempt" in reason_of(other.result())
        assert states(first)[:2] == ("active", "placed")
        assert nothing_was_written_for(second)

    def test_the_last_gpu_of_a_quota_is_given_once(self) -> None:
        world = make_world(nodes=2, gpus=1, quota=1)
        jobs = [submit(world), submit(world)]
        Quota.objects.filter(vc=world.vc).update(gpus=2)
        places, seen = planned_places(world)
        assert {one.allocations[0].node_id for one in places} == {node.pk for node in world.nodes}
        Quota.objects.filter(vc=world.vc).update(gpus=1)
        with transaction.atomic():
            assert apply(world, places[0], seen) is None
            other = Other(lambda: apply(world, places[1], seen)).until_it_waits()
        assert "quota" in reason_of(other.result())
        assert nothing_was_written_for(jobs[1])

    def test_one_job_is_placed_once(self) -> None:
        world = make_world(nodes=2)
        job = submit(world)
        (one,), seen = planned_places(world)
        with transaction.atomic():
            assert apply(world, one, seen) is None
            other = Other(lambda: apply(world, one, seen)).until_it_waits()
        assert "the job is active" in reason_of(other.result())
        assert Attempt.objects.filter(job=job).count() == 1

    def test_two_cycles_of_a_pool_take_turns_and_place_everything_once(self) -> None:
        world = make_world(nodes=4, gpus=4)
        jobs = [submit(world, gpus=2) for _ in range(8)]
        together = threading.Barrier(2)

        def run_one() -> int:
            together.wait(WAIT_S)
            result = cycles.run_cycle(world.pool.pk, trigger="hint")
            assert result.refusals == []
            return len(result.plan.places)

        both = [Other(run_one), Other(run_one)]
        assert sum(one.result() for one in both) == 8
        assert {states(job)[:2] for job in jobs} == {("active", "placed")}


class TestTheWorldChangesAfterTheSnapshot:
    def test_a_job_that_was_cancelled_meanwhile_is_refused(self) -> None:
        world = make_world()
        job = submit(world)
        (one,), seen = planned_places(world)
        cancel_job(user=world.user, job=job)
        assert "the job is cancelled" in reason_of(apply(world, one, seen))
        assert nothing_was_written_for(job)

    def test_a_job_that_is_being_cancelled_waits_and_is_refused(self) -> None:
        world = make_world()
        job = submit(world)
        (one,), seen = planned_places(world)
        with transaction.atomic():
            cancel_job(user=world.user, job=job)
            applying = Other(lambda: apply(world, one, seen)).until_it_waits()
        assert "the job is cancelled" in reason_of(applying.result())
        assert nothing_was_written_for(job)

    def test_a_job_cancelled_while_it_is_placed_is_cancelled_with_its_attempt(self) -> None:
        world = make_world()
        job = submit(world)
        (one,), seen = planned_places(world)
        with transaction.atomic():
            assert apply(world, one, seen) is None
            cancelling = Other(lambda: cancel_job(user=world.user, job=job)).until_it_waits()
        cancelling.result()
        assert states(job) == ("cancelled", "cancelled", ["released"])

    def test_a_node_that_was_cordoned_meanwhile_refuses_the_gang(self) -> None:
        world = make_world(nodes=2)
        job = submit(world, nodes=2)
        (one,), seen = planned_places(world)
        cordon_node(node=world.nodes[1], reason="fan", actor="op")
        assert world.nodes[1].name in reason_of(apply(world, one, seen))
        assert nothing_was_written_for(job)
        assert now_of(job).state == "queued"

    def test_a_node_that_is_being_cordoned_waits_and_refuses(self) -> None:
        world = make_world()
        job = submit(world)
        (one,), seen = planned_places(world)
        with transaction.atomic():
            cordon_node(node=world.nodes[0], reason="fan", actor="op")
            applying = Other(lambda: apply(world, one, seen)).until_it_waits()
        assert "takes no jobs: cordoned: fan" in reason_of(applying.result())
        assert nothing_was_written_for(job)

    def test_a_gang_of_which_one_gpu_was_taken_meanwhile_is_refused_whole(self) -> None:
        world = make_world(nodes=2, gpus=2)
        gang = submit(world, nodes=2, gpus=2)
        (one,), seen = planned_places(world)
        small = submit(world, priority="normal")
        first = world.nodes[1].gpus.order_by("pk").first()
        choice = small.request.first
        share = one.allocations[0].__class__(world.nodes[1].pk, 0, (first.pk,), choice.cpus, choice.memory_mib)
        assert apply(world, Place(small.pk, (share,)), seen) is None
        assert "is held by a live attempt" in reason_of(apply(world, one, seen))
        assert nothing_was_written_for(gang)

    def test_a_refused_job_says_so_and_starts_in_the_next_cycle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = make_world(nodes=2)
        job = submit(world)
        decide = cycles.decide

        def decide_and_then_the_node_changes(*args: Any) -> Any:
            plan = decide(*args)
            node = next(n for n in world.nodes if n.pk == plan.places[0].allocations[0].node_id)
            cordon_node(node=node, reason="fan", actor="op")
            return plan

        monkeypatch.setattr(cycles, "decide", decide_and_then_the_node_changes)
        result = cycle(world)
        assert [refusal.job_id for refusal in result.refusals] == [job.pk]
        assert now_of(job).hold_reason == "refused"
        monkeypatch.undo()
        cycle(world)
        assert states(job)[:2] == ("active", "placed")

    def test_a_release_does_not_refuse_a_plan(self) -> None:
        world = make_world(gpus=2)
        running = start(world)
        job = submit(world)
        (one,), seen = planned_places(world)
        end(ranks(running)[0])
        assert apply(world, one, seen) is None
        assert live_attempt(job).number == 1


class TestLockOrder:
    def test_an_edit_of_a_job_waits_for_nobody_who_holds_its_virtual_cluster(self) -> None:
        # An applier locks the virtual cluster first and then the job: an edit that took both would meet it half way.
        world = make_world()
        job = submit(world)
        with transaction.atomic():
            VirtualCluster.objects.select_for_update(no_key=True).get(pk=world.vc.pk)
            Other(lambda: edit_job(user=world.user, job=job, changes={"name": "new"})).result()
        assert now_of(job).name == "new"


class TestTheSameKeyTwice:
    @staticmethod
    def _submit_together(world: World, monkeypatch: pytest.MonkeyPatch, bodies: list[dict[str, Any]]) -> list[Other]:
        together, draft = threading.Barrier(2), services.draft_job

        def draft_together(**arguments: Any) -> Job:
            # Both have looked for the key by now, and have found none.
            together.wait(WAIT_S)
            return draft(**arguments)

        monkeypatch.setattr(services, "draft_job", draft_together)
        return [
            Other(lambda body=body: submit_job(user=world.user, data=body, idempotency_key="once")) for body in bodies
        ]

    def test_a_submission_sent_twice_at_once_is_one_job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = make_world()
        body = {"command": "true", "vc": world.vc.name}
        answers = [other.result() for other in self._submit_together(world, monkeypatch, [body, body])]
        assert sorted(created for _, created in answers) == [False, True]
        assert len({job.pk for job, _ in answers}) == 1
        assert Job.objects.count() == 1
        assert Event.objects.filter(kind="job.submitted").count() == 1

    def test_two_bodies_under_one_key_are_one_job_and_a_conflict(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = make_world()
        bodies = [{"command": command, "vc": world.vc.name} for command in ("true", "false")]
        outcomes: list[str] = []
        for other in self._submit_together(world, monkeypatch, bodies):
            try:
                other.result()
                outcomes.append("stored")
            except Conflict:
                outcomes.append("conflict")
        assert sorted(outcomes) == ["conflict", "stored"]
        assert Job.objects.count() == IdempotencyKey.objects.count() == 1


class TestQuotas:
    def test_two_quotas_cannot_promise_the_same_gpus(self) -> None:
        world = make_world(gpus=4, quota=0)
        other_vc = make_vc(world.tenant, world.pool, quotas={})
        with transaction.atomic():
            set_quota(vc=world.vc, gpu_type="A100", gpus=3, actor="op")
            setting = Other(lambda: set_quota(vc=other_vc, gpu_type="A100", gpus=3, actor="op")).until_it_waits()
        with pytest.raises(Invalid, match="at most 1"):
            setting.result()


class TestBeats:
    def test_a_node_that_beats_while_it_is_being_judged_is_not_lost(self) -> None:
        world = make_world()
        for name in ("web", "reaper"):
            tick(name)
            let_pass(3600, Tick.objects.get(name=name), "answering_since")
        node = world.nodes[0]
        let_pass(100, NodeLease.objects.get(pk=node.pk), "seen_at")
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT FROM fleet_node WHERE id = %s FOR NO KEY UPDATE", [node.pk])
            judging = Other(lambda: judge_nodes(world.pool)).until_it_waits()
            renew(node=node, epoch=1, seq=1)
        assert judging.result() == []
        assert now_of(node).health == "ready"
