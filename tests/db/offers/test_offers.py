"""Offers to frameworks: made after a cycle, a lease, exclusive while they stand, and real jobs once accepted."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from muster.accounts.models import User
from muster.api.offers.render import offer_list
from muster.common.errors import Conflict, Invalid, NotFound
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import AuditEntry, Event
from muster.fleet.models import Gpu, Node, Pool
from muster.fleet.services import cordon_node
from muster.jobs.models import GpuClaim, Job
from muster.offers.models import Framework, Launch, Offer, OfferedGpu, OfferFilter, Role
from muster.offers.rounds import offer_round
from muster.offers.selectors import get_offer, note_asked, standing_offers
from muster.offers.services import Wanted, accept_offer, decline_offer, leave, register_framework
from muster.offers.tasks import forget_old_offers
from muster.tenants.models import Membership, Quota, VirtualCluster
from scheduler.model.lifecycle import HoldReason, JobClass, JobState, OfferState, RuntimeNeed
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
    ranks,
    run,
    states,
    submit,
)
from tests.factories import make_tenant, make_user, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

SPEC: dict[str, Any] = {"command": "true", "gpus": 1}


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


def make_role(vc: VirtualCluster, name: str = "research", **fields: Any) -> Role:
    return Role.objects.create(vc=vc, name=name, **fields)


def framework(world: World, role: Role | None = None) -> Framework:
    """The framework of the world's user, which has just asked."""
    role = role or Role.objects.filter(vc=world.vc).first() or make_role(world.vc)
    return register_framework(user=world.user, role_name=role.name)[0]


def neighbour(world: World, name: str, **fields: Any) -> User:
    """A user of another tenant, with a framework in a role of its own in the same pool."""
    tenant = make_tenant(name)
    user = make_user(name, tenant=tenant)
    make_role(make_vc(tenant, world.pool, quotas={"A100": 1000}), name, **fields)
    register_framework(user=user, role_name=name)
    return user


def offered(world: World) -> list[Offer]:
    """Offers to the world's user once a cycle has ended."""
    cycle(world)
    return standing_offers(world.user)


def gpus_of(job: Job) -> set[int]:
    return set(GpuClaim.objects.filter(allocation__attempt__job=job).values_list("gpu_id", flat=True))


def accept(world: World, offer: Offer, *specs: dict[str, Any]) -> list[Job]:
    return accept_offer(user=world.user, offer_id=offer.pk, wanted=[Wanted(spec) for spec in specs or (SPEC,)])


class TestRegistering:
    def test_a_member_registers_once_and_is_audited(self, world: World) -> None:
        make_role(world.vc)
        first, is_new = register_framework(user=world.user, role_name="research")
        again, is_new_again = register_framework(user=world.user, role_name="research")
        assert (first, is_new, is_new_again) == (again, True, False)
        entry = AuditEntry.objects.get(object_type="framework")
        assert (entry.actor, entry.action, entry.after) == (world.user.username, "register", {"role": "research"})
        assert Event.objects.get(kind="framework.registered").tenant_id == world.tenant.pk

    def test_a_stranger_finds_no_such_role(self, world: World) -> None:
        make_role(world.vc)
        with pytest.raises(NotFound):
            register_framework(user=make_user(tenant=make_tenant()), role_name="research")

    def test_nobody_without_a_framework_can_ask(self, world: World) -> None:
        with pytest.raises(NotFound, match="POST /api/v1/frameworks"):
            note_asked(world.user)


class TestRounds:
    def test_the_free_gpus_of_each_node_are_one_offer(self, world: World) -> None:
        framework(world)
        offers = offered(world)
        assert [(offer.node, len(offer.gpu_ids), offer.cpus) for offer in offers] == [
            (node, 4, node.cpus) for node in world.nodes
        ]
        lease_s = (offers[0].expires_at - offers[0].made_at).total_seconds()
        assert lease_s == pytest.approx(30, abs=1)
        event = Event.objects.get(kind="offers.made")
        assert event.data["offers"] == [offer.pk for offer in offers]

    def test_the_lease_is_a_setting_of_the_pool(self, world: World) -> None:
        Pool.objects.update(offer_lease_s=300)
        framework(world)
        (offer, _) = offered(world)
        assert (offer.expires_at - offer.made_at).total_seconds() == pytest.approx(300, abs=1)

    def test_a_framework_is_offered_what_starts_its_jobs(self, world: World) -> None:
        made = framework(world)
        for node, runtime in zip(world.nodes, ("process", "podman"), strict=True):
            Node.objects.filter(pk=node.pk).update(inventory={"runtimes": [runtime], "mount_roots": ["/data"]})
        register_framework(user=world.user, role_name=made.role.name, needs=RuntimeNeed.IMAGE_VOLUMES)
        (offer,) = offered(world)
        assert offer.node == world.nodes[1]
        (told,) = offer_list([offer])
        assert (told["runtimes"], told["starts"]) == (["podman"], ["image", "image_volumes"])
        # One that registers again needs what it says then.
        framework(world)
        assert len(offered(world)) == 2

    def test_jobs_that_wait_in_the_pool_go_first(self, world: World) -> None:
        framework(world)
        submit(world, gpus=4)
        assert [len(offer.gpu_ids) for offer in offered(world)] == [4]

    def test_what_is_offered_is_not_offered_again(self, world: World) -> None:
        framework(world)
        before = offered(world)
        assert offered(world) == before
        assert OfferedGpu.objects.count() == 8

    def test_two_frameworks_share_the_nodes_by_their_shares(self, world: World) -> None:
        framework(world)
        other = neighbour(world, "speech")
        mine, theirs = offered(world), standing_offers(other)
        assert [(len(mine), len(theirs))] == [(1, 1)]
        assert mine[0].node != theirs[0].node

    def test_what_a_framework_launched_counts_for_its_role(self, world: World) -> None:
        framework(world)
        (offer, _) = offered(world)
        accept(world, offer, {**SPEC, "gpus": 4})
        other = neighbour(world, "speech")
        decline_offer(user=world.user, offer_id=standing_offers(world.user)[0].pk, filter_s=0)
        # The remaining node goes to the framework that holds less.
        assert offered(world) == []
        assert len(standing_offers(other)) == 1

    def test_a_framework_that_no_longer_asks_is_offered_nothing(self, world: World) -> None:
        let_pass(61, framework(world), "seen_at")
        assert offered(world) == []
        note_asked(world.user)
        assert len(offered(world)) == 2

    def test_a_user_who_left_the_tenant_is_offered_nothing(self, world: World) -> None:
        framework(world)
        Membership.objects.all().delete()
        assert offered(world) == []
        assert not Offer.objects.exists()

    def test_no_more_is_offered_than_the_quota_leaves(self) -> None:
        world = make_world(nodes=2, quota=6)
        framework(world)
        assert sorted(len(offer.gpu_ids) for offer in offered(world)) == [2, 4]

    def test_a_role_that_was_deleted_frees_what_was_offered(self, world: World) -> None:
        framework(world)
        offered(world)
        Role.objects.all().delete()
        assert not OfferedGpu.objects.exists()
        assert live_attempt_gpus(world, 4) == 4

    def test_a_round_that_fails_undoes_nothing_of_its_cycle(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        framework(world)
        monkeypatch.setattr("muster.offers.rounds.two_level.offers", lambda *_, **__: 1 / 0)
        job = submit(world)
        assert cycle(world).applied.started == [job.pk]


def live_attempt_gpus(world: World, gpus: int) -> int:
    """The number of GPUs of a job that was just submitted to the queue."""
    job = submit(world, gpus=gpus)
    cycle(world)
    return len(gpus_of(job))


class TestWhileOffersStand:
    def test_the_pool_does_not_use_what_is_offered(self, world: World) -> None:
        framework(world)
        offered(world)
        job = submit(world)
        cycle(world)
        assert now_of(job).state == JobState.QUEUED
        assert now_of(job).hold_reason == HoldReason.NO_FREE_GPUS

    def test_the_law_refuses_a_plan_that_was_made_before_the_offer(self, world: World) -> None:
        """The cycle saw the GPU free; by the time it locks the node, it is offered."""
        from muster.dispatch.apply.apply import apply_plan
        from muster.dispatch.config.settings import config_of
        from scheduler.engine.cycle import decide

        submit(world)
        snapshot, config = pool_snapshot(world.pool, seed=1), config_of(world.pool)
        framework(world)
        offer_round(world.pool)
        applied = apply_plan(world.pool, snapshot, decide(snapshot, config), config)
        assert applied.started == []
        assert "is reserved for another job" in applied.refusals[0].reason

    def test_an_offer_of_what_a_job_got_meanwhile_is_not_made(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The round saw the GPUs free; by the time it locks the nodes, one of them has been given to a job."""
        from muster.offers import rounds

        def decided(*args: Any, **options: Any) -> Any:
            found = two_level(*args, **options)
            monkeypatch.setattr(rounds.two_level, "offers", two_level)
            monkeypatch.setattr(rounds, "_store", lambda *_: None)
            job = submit(world)
            cycle(world)
            assert now_of(job).state == JobState.ACTIVE
            monkeypatch.setattr(rounds, "_store", store)
            return found

        two_level, store = rounds.two_level.offers, rounds._store
        framework(world)
        monkeypatch.setattr(rounds.two_level, "offers", decided)
        offer_round(world.pool)
        assert [len(offer.gpu_ids) for offer in standing_offers(world.user)] == [4]

    def test_an_offer_past_its_time_is_free_before_anybody_has_noticed(self, world: World) -> None:
        framework(world)
        for offer in offered(world):
            let_pass(31, offer, "expires_at", "made_at")
        assert standing_offers(world.user) == []
        assert live_attempt_gpus(world, 4) == 4

    def test_an_offer_that_nobody_answered_comes_back_and_goes_to_others(self, world: World) -> None:
        framework(world)
        offers = offered(world)
        other = neighbour(world, "speech")
        for offer in offers:
            let_pass(31, offer, "expires_at", "made_at")
        assert offered(world) == []
        assert {offer.node for offer in standing_offers(other)} == {offer.node for offer in offers}
        assert set(Offer.objects.filter(pk__in=[offer.pk for offer in offers]).values_list("state", flat=True)) == {
            OfferState.EXPIRED
        }
        assert Event.objects.get(kind="offers.expired").data["gpus"] == 8

    def test_an_offer_of_a_node_that_went_out_of_service_is_rescinded(self, world: World) -> None:
        framework(world)
        offers = {offer.node_id: offer for offer in offered(world)}
        first, second = world.nodes
        cordon_node(node=first, reason="fans", actor="olga")
        Gpu.objects.filter(node=second, index=0).update(health="failure")
        left = offered(world)
        assert [(offer.node_id, len(offer.gpu_ids)) for offer in left] == [(second.pk, 3)]
        assert {get_offer(world.user, offer.pk).state for offer in offers.values()} == {OfferState.RESCINDED}

    def test_postgres_refuses_a_gpu_in_two_offers(self, world: World) -> None:
        framework(world)
        one, other = offered(world)
        with pytest.raises(IntegrityError, match="offers_offeredgpu_pkey"), transaction.atomic():
            OfferedGpu.objects.create(gpu_id=one.gpu_ids[0], offer=other)


class TestAccepting:
    def test_a_job_gets_the_gpus_that_were_named_and_runs_to_its_end(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        wanted = [gpu.uuid for gpu in Gpu.objects.filter(pk__in=offer.gpu_ids[2:]).order_by("pk")]
        (job,) = accept_offer(user=world.user, offer_id=offer.pk, wanted=[Wanted({**SPEC, "gpus": 2}, wanted)])
        assert (job.state, job.vc, job.owner) == (JobState.ACTIVE, world.vc, world.user)
        assert gpus_of(job) == set(offer.gpu_ids[2:])
        (allocation,) = ranks(live_attempt(job))
        assert allocation.node == offer.node
        claim(allocation)
        run(allocation)
        end(allocation)
        assert states(job) == ("succeeded", "succeeded", ["released"])
        assert kinds(job)[:3] == ["job.submitted", "job.active", "attempt.placed"]
        assert get_offer(world.user, offer.pk).state == OfferState.ACCEPTED

    def test_what_is_left_of_an_accepted_offer_is_free_at_once_and_filtered(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        accept(world, offer)
        assert OfferedGpu.objects.filter(gpu__node=offer.node).count() == 0
        other = neighbour(world, "speech")
        assert {one.node for one in offered(world)} == {world.nodes[1]}
        assert [(one.node, len(one.gpu_ids)) for one in standing_offers(other)] == [(offer.node, 3)]

    def test_several_jobs_start_together_each_on_gpus_of_its_own(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        jobs = accept(world, offer, {**SPEC, "gpus": 2}, SPEC, {**SPEC, "gpus": "A100:1"})
        assert [len(gpus_of(job)) for job in jobs] == [2, 1, 1]
        assert set().union(*map(gpus_of, jobs)) == set(offer.gpu_ids)
        assert list(Launch.objects.order_by("job").values_list("job", "offer")) == [(job.pk, offer.pk) for job in jobs]

    def test_a_job_that_names_its_gpus_is_served_before_one_that_does_not(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        first = Gpu.objects.get(pk=offer.gpu_ids[0])
        jobs = accept_offer(
            user=world.user, offer_id=offer.pk, wanted=[Wanted({**SPEC, "gpus": 3}), Wanted(SPEC, [first.uuid])]
        )
        assert [gpus_of(job) for job in jobs] == [set(offer.gpu_ids[1:]), {first.pk}]

    @pytest.mark.parametrize(
        ("runtime", "spec", "field", "message"),
        [
            ("process", {"image": "busybox"}, "image", "runs no containers, and this job names an image"),
            ("podman", {}, "image", "runs jobs in containers, and this job names no image"),
            ("podman", {"shm": "1GiB"}, "shm", "has no image for jobs that name none, and this job asks for shm"),
        ],
    )
    def test_what_the_node_cannot_start_is_refused_by_its_field(
        self, world: World, runtime: str, spec: dict[str, Any], field: str, message: str
    ) -> None:
        # Another node of the pool can start it, so that the pool does not refuse it.
        framework(world)
        offer, other = offered(world)
        all_forms = {"inventory": {"runtimes": ["process", "podman"]}, "labels": {"default-image": "busybox"}}
        Node.objects.filter(pk=other.node_id).update(**all_forms)
        Node.objects.filter(pk=offer.node_id).update(inventory={"runtimes": [runtime]})
        with pytest.raises(Invalid) as refused:
            accept(world, offer, SPEC if runtime == "process" else {**SPEC, "image": "busybox"}, {**SPEC, **spec})
        assert [(one.field, one.message) for one in refused.value.errors] == [
            (f"jobs.1.spec.{field}", f"{offer.node.name} {message}")
        ]
        assert get_offer(world.user, offer.pk).state == OfferState.STANDING
        nothing_happened(offer)

    def test_a_node_that_was_cordoned_meanwhile_refuses_with_its_reason(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        cordon_node(node=offer.node, reason="fans", actor="olga")
        with pytest.raises(Conflict, match="takes no jobs: cordoned: fans"):
            accept(world, offer)
        assert get_offer(world.user, offer.pk).state == OfferState.STANDING
        nothing_happened(offer)

    def test_a_node_that_was_heard_of_again_is_no_reason_to_refuse(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        type(offer.node).objects.filter(pk=offer.node_id).update(version=99)
        assert accept(world, offer)[0].state == JobState.ACTIVE

    def test_the_admission_has_the_last_word_on_the_quota(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        Quota.objects.update(gpus=1)
        with pytest.raises(Conflict, match="its quota is 1"):
            accept(world, offer, SPEC, SPEC)
        nothing_happened(offer)
        assert accept(world, offer)[0].state == JobState.ACTIVE

    def test_an_offer_is_accepted_once_and_says_with_what(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        (job,) = accept(world, offer)
        with pytest.raises(Conflict, match=f"was accepted, with job {job.pk}"):
            accept(world, offer)
        with pytest.raises(Conflict, match="was accepted"):
            decline_offer(user=world.user, offer_id=offer.pk)

    def test_an_offer_past_its_time_cannot_be_accepted(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        let_pass(31, offer, "expires_at", "made_at")
        with pytest.raises(Conflict, match="has expired"):
            accept(world, offer)
        nothing_happened(offer)

    def test_another_users_offer_is_not_found(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        for user in (neighbour(world, "speech"), make_user(tenant=world.tenant)):
            with pytest.raises(NotFound):
                accept_offer(user=user, offer_id=offer.pk, wanted=[Wanted(SPEC)])
            with pytest.raises(NotFound):
                decline_offer(user=user, offer_id=offer.pk)

    @pytest.mark.parametrize(
        ("specs", "field", "message"),
        [
            ([{**SPEC, "gpus": 5}], "jobs.0.spec.gpus", "5: the offer has fewer left"),
            ([{**SPEC, "gpus": "V100:1"}], "jobs.0.spec.gpus", "1 V100|V100 1"),
            ([{**SPEC, "gpus": 3}, {**SPEC, "gpus": 2}], "jobs.1.spec.gpus", "fewer left"),
            ([{**SPEC, "nodes": 2}], "jobs.0.spec.nodes", "an offer is of one node"),
            ([{**SPEC, "after": [7]}], "jobs.0.spec.after", "starts at once"),
            ([{**SPEC, "vc": "elsewhere"}], "jobs.0.spec.vc", "the offer is for jobs of"),
            ([{**SPEC, "cpus": 65}], "jobs.0.spec.cpus", "65 CPUs: the offer has 64 left"),
            ([SPEC, {**SPEC, "memory": "1TiB"}], "jobs.1.spec.memory", "MiB: the offer has"),
            ([{"gpus": 1}], "jobs.0.spec.command", "required"),
            ([], "jobs", "send 1 to 100"),
        ],
    )
    def test_a_launch_that_does_not_fit_is_refused_with_its_field_and_leaves_nothing(
        self, specs: list[dict[str, Any]], field: str, message: str, world: World
    ) -> None:
        framework(world)
        offer, _ = offered(world)
        with pytest.raises(Invalid, match=message) as refused:
            accept_offer(user=world.user, offer_id=offer.pk, wanted=[Wanted(spec) for spec in specs])
        assert [error.field for error in refused.value.errors] == [field]
        nothing_happened(offer)
        assert get_offer(world.user, offer.pk).state == OfferState.STANDING

    @pytest.mark.parametrize("field", ["nodes_in", "exclude_nodes"])
    def test_a_launch_that_does_not_allow_the_node_is_refused_with_its_field(self, field: str, world: World) -> None:
        framework(world)
        offer, other = offered(world)
        names = [other.node.name if field == "nodes_in" else offer.node.name]
        with pytest.raises(Invalid, match=f"the offer is of node {offer.node.name}") as refused:
            accept(world, offer, {**SPEC, field: names})
        assert [error.field for error in refused.value.errors] == [f"jobs.0.spec.{field}"]
        nothing_happened(offer)
        (job,) = accept(world, offer, {**SPEC, "nodes_in": [offer.node.name]})
        assert gpus_of(job) <= set(offer.gpu_ids)

    @pytest.mark.parametrize(
        ("picks", "message"), [([0, 0], "twice"), ([0], "asks for 2, not 1"), ([4, 0], "not in the")]
    )
    def test_gpus_must_be_named_once_of_the_offer_and_as_many_as_the_spec_says(
        self, picks: list[int], message: str, world: World
    ) -> None:
        framework(world)
        offer, other = offered(world)
        uuids = dict(Gpu.objects.values_list("pk", "uuid"))
        known = [uuids[pk] for pk in (*offer.gpu_ids, *other.gpu_ids)]
        with pytest.raises(Invalid, match=message):
            accept_offer(
                user=world.user,
                offer_id=offer.pk,
                wanted=[Wanted({**SPEC, "gpus": 2}, [known[index] for index in picks])],
            )
        nothing_happened(offer)

    def test_a_job_that_fails_is_the_frameworks_to_run_again_unless_its_spec_says_so(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        plain, again = accept(world, offer, SPEC, {**SPEC, "retry": {"max": 1, "on": ["failed"]}})
        for job in (plain, again):
            (allocation,) = ranks(live_attempt(job))
            claim(allocation)
            run(allocation)
            end(allocation, Reason.EXIT_NONZERO)
        assert (now_of(plain).state, now_of(again).state) == (JobState.FAILED, JobState.QUEUED)

    def test_a_revocable_role_launches_opportunistic_jobs_only(self, world: World) -> None:
        framework(world, make_role(world.vc, revocable=True))
        offer, _ = offered(world)
        with pytest.raises(Invalid, match="opportunistic"):
            accept(world, offer, {**SPEC, "class": "guaranteed"})
        (job,) = accept(world, offer)
        assert (job.klass, job.preemptible) == (JobClass.OPPORTUNISTIC, True)


def nothing_happened(offer: Offer) -> None:
    """No job, no claim, no event of one; and while the offer stands, its GPUs are kept."""
    assert not Job.objects.exists()
    assert not GpuClaim.objects.exists()
    assert not Launch.objects.exists()
    assert not Event.objects.filter(kind__startswith="job.").exists()
    assert OfferedGpu.objects.filter(offer=offer).count() == len(offer.gpu_ids)


class TestDeclining:
    def test_a_declined_node_is_not_offered_again_until_its_filter_ends(self, world: World) -> None:
        framework(world)
        offer, other = offered(world)
        decline_offer(user=world.user, offer_id=offer.pk)
        assert offered(world) == [other]
        let_pass(4, OfferFilter.objects.get(), "until")
        assert offered(world) == [other]
        let_pass(1.1, OfferFilter.objects.get(), "until")
        assert {one.node for one in offered(world)} == set(world.nodes)

    def test_it_is_offered_to_others_meanwhile(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        decline_offer(user=world.user, offer_id=offer.pk, filter_s=3600)
        other = neighbour(world, "speech")
        cycle(world)
        assert [one.node for one in standing_offers(other)] == [offer.node]

    def test_jobs_of_the_pool_may_have_it_at_once(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        decline_offer(user=world.user, offer_id=offer.pk)
        assert live_attempt_gpus(world, 4) == 4

    def test_declining_twice_is_fine_and_sets_the_filter(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        decline_offer(user=world.user, offer_id=offer.pk, filter_s=3600)
        assert decline_offer(user=world.user, offer_id=offer.pk, filter_s=0).state == OfferState.DECLINED
        assert Event.objects.filter(kind="offers.declined").count() == 1
        assert len(offered(world)) == 2

    def test_a_filter_has_its_limits(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        with pytest.raises(Invalid, match="at most 24h"):
            decline_offer(user=world.user, offer_id=offer.pk, filter_s=90_000)


def test_a_framework_that_leaves_gives_back_what_it_was_offered_and_its_jobs_go_on(world: World) -> None:
    mine = framework(world)
    offer, other = offered(world)
    (job,) = accept(world, offer)
    leave(user=world.user, framework_id=mine.pk)
    assert get_offer(world.user, other.pk).state == OfferState.RESCINDED
    assert offered(world) == []
    assert now_of(job).state == JobState.ACTIVE
    # A framework that registers again begins anew: its earlier filters are forgotten.
    register_framework(user=world.user, role_name=mine.role.name)
    assert sorted(len(one.gpu_ids) for one in offered(world)) == [3, 4]


def test_old_offers_are_forgotten_and_what_was_launched_is_not(world: World) -> None:
    framework(world)
    offer, other = offered(world)
    (job,) = accept(world, offer)
    decline_offer(user=world.user, offer_id=other.pk)
    let_pass(3601, other, "ended_at")
    forget_old_offers()
    assert list(Offer.objects.all()) == [offer]
    let_pass(31 * 86_400, offer, "ended_at")
    forget_old_offers()
    assert not Offer.objects.exists()
    assert Launch.objects.get().job == job


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_of_two_who_accept_at_once_one_is_refused(self, world: World) -> None:
        framework(world)
        offer, _ = offered(world)
        with transaction.atomic():
            accept(world, offer)
            late = Other(lambda: accept(world, offer)).until_it_waits()
        with pytest.raises(Conflict, match="was accepted"):
            late.result()
        assert Job.objects.count() == 1

    def test_a_round_neither_waits_for_an_accept_nor_offers_what_it_takes(self, world: World) -> None:
        framework(world)
        offer, other = offered(world)
        with transaction.atomic():
            accept(world, offer)
            let_pass(31, other, "expires_at", "made_at")
        neighbour(world, "speech")
        with transaction.atomic():
            (second,) = Offer.objects.filter(pk=other.pk).select_for_update(no_key=True)
            # An acceptance holds this lock; the round leaves the offer and its GPUs alone, and does not wait.
            Other(lambda: offer_round(world.pool)).result()
        assert not Offer.objects.filter(node=second.node).exclude(pk=second.pk).exists()
