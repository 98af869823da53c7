"""An attempt owns what it was given to run with: another size than its job's, where the job accepts that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum

from muster.common.errors import Invalid
from muster.dispatch.apply.apply import apply_unit
from muster.dispatch.apply.launch import launch, request_at
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.models import Attempt, GpuClaim, Job
from scheduler.model import AllocationView
from scheduler.model.plan import Place
from scheduler.model.reasons import Reason
from scheduler.model.request import Choice, ElasticRange, Request
from tests.db.stories import World, end, kinds, let_pass, live_attempt, make_world, now_of, place, ranks, submit
from tests.factories import make_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world(nodes=1, gpus=4)


def asks(job: Job, **changes: Any) -> Job:
    """The job when it asks for that, too."""
    Job.objects.filter(pk=job.pk).update(request=replace(job.request, **changes))
    return Job.objects.select_related("vc").get(pk=job.pk)


def place_on(node: Any, job: Job, *, gpus: int, cpus: int, memory_mib: int) -> Place:
    gpu_ids = tuple(node.gpus.order_by("index").values_list("pk", flat=True)[:gpus])
    return Place(job.pk, (AllocationView(node.pk, 0, gpu_ids, cpus, memory_mib),))


def start_at(world: World, job: Job, where: Place) -> Attempt:
    """The attempt of the job, started at the place by the service that launches jobs."""
    snapshot = pool_snapshot(world.pool, seed=0)
    nodes = {node.pk: node for node in world.pool.nodes.all()}
    with transaction.atomic():
        launch(world.pool, [(job, where, request_at(job, where, snapshot.gpu_by_id))], nodes)
    return live_attempt(job)


class TestAResizedRun:
    def test_it_has_its_own_request_and_is_charged_by_it(self, world: World) -> None:
        job = asks(submit(world, gpus=2, cpus=4, memory="2GiB"), elastic=ElasticRange(1, 4))
        attempt = start_at(world, job, place_on(world.nodes[0], job, gpus=4, cpus=8, memory_mib=4096))
        assert attempt.request == Request((Choice("A100", 4, 8, 4096),), runtime=job.request.runtime)
        assert (now_of(job).request, now_of(job).gpus) == (job.request, 2)
        let_pass(100, attempt, "placed_at")
        end(ranks(attempt)[0], Reason.NODE_LOST, started=False)
        assert now_of(job).attained_gpu_s == pytest.approx(4 * 100, abs=40)

    @pytest.mark.parametrize(("gpus", "cpus"), [(3, 6), (1, 2)])
    def test_a_size_outside_the_range_is_refused_by_name(self, world: World, gpus: int, cpus: int) -> None:
        job = asks(submit(world, gpus=2, cpus=4, memory="2GiB"), elastic=ElasticRange(2, 2))
        where = place_on(world.nodes[0], job, gpus=gpus, cpus=cpus, memory_mib=gpus * 1024)
        told = rf"job {job.pk} cannot run on A100:{gpus} .* asks for 2 and may be resized from 2 to 2 GPUs"
        with pytest.raises(Invalid, match=told):
            start_at(world, job, where)
        self.is_as_before(job)

    def test_the_plan_that_wants_it_is_refused_whole(self, world: World) -> None:
        job, other = asks(submit(world, gpus=1), elastic=ElasticRange(1, 2)), submit(world, gpus=1)
        where = place_on(world.nodes[0], job, gpus=3, cpus=3, memory_mib=1024)
        besides = place_on(world.nodes[0], other, gpus=1, cpus=1, memory_mib=1024)
        unit = Unit((besides, where))
        result = apply_unit(world.pool, unit, config_of(world.pool))
        assert {refusal.job_id for refusal in result.refusals} == {job.pk, other.pk}
        self.is_as_before(job)
        self.is_as_before(other)

    @pytest.mark.parametrize(("cpus", "memory_mib"), [(7, 4096), (8, 1)])
    def test_cpus_and_memory_go_with_the_gpus(self, world: World, cpus: int, memory_mib: int) -> None:
        job = asks(submit(world, gpus=2, cpus=4, memory="2GiB"), elastic=ElasticRange(1, 4))
        with pytest.raises(Invalid, match=f"not for {cpus} CPUs and {memory_mib} MiB"):
            start_at(world, job, place_on(world.nodes[0], job, gpus=4, cpus=cpus, memory_mib=memory_mib))
        self.is_as_before(job)

    @staticmethod
    def is_as_before(job: Job) -> None:
        assert (now_of(job).state, now_of(job).attempt_count, kinds(job)) == ("queued", 0, ["job.submitted"])
        assert not Attempt.objects.filter(job=job).exists()
        assert not GpuClaim.objects.filter(allocation__attempt__job=job).exists()


class TestSeveralChoices:
    CHOICES = (Choice("A100", 2, 2, 1024), Choice("V100", 4, 8, 2048))

    @pytest.fixture
    def job(self, world: World) -> Job:
        return asks(submit(world, gpus=2), choices=self.CHOICES)

    def test_an_attempt_is_given_the_choice_of_its_gpus_and_the_next_one_another(self, world: World, job: Job) -> None:
        other = make_node(world.pool, gpus=4, gpu_type="V100")
        first = start_at(world, job, place_on(other, job, gpus=4, cpus=8, memory_mib=2048))
        assert first.request.choices == (Choice("V100", 4, 8, 2048),)
        claimed = GpuClaim.objects.filter(allocation__attempt=first)
        assert claimed.aggregate(all=Sum("gpu__memory_mib"))["all"] == 4 * 40_960
        end(ranks(first)[0], Reason.NODE_LOST, started=False)
        job = Job.objects.select_related("vc").get(pk=job.pk)
        assert (job.state, job.request.choices) == ("queued", self.CHOICES)
        second = start_at(world, job, place_on(world.nodes[0], job, gpus=2, cpus=2, memory_mib=1024))
        assert (second.number, second.request.choices) == (2, (Choice("A100", 2, 2, 1024),))
        assert (first.gpus_total, second.gpus_total) == (4, 2)

    def test_a_resized_run_keeps_the_size_that_it_asked_for_on_its_gpus(self, world: World, job: Job) -> None:
        job = asks(job, elastic=ElasticRange(1, 4))
        start_at(world, job, place_on(world.nodes[0], job, gpus=4, cpus=4, memory_mib=2048))
        (run,) = pool_snapshot(world.pool, seed=0).running
        assert (run.gpus, run.job.request.first) == (4, Choice("A100", 2, 2, 1024))

    def test_the_size_of_one_choice_on_gpus_of_another_is_refused(self, world: World, job: Job) -> None:
        with pytest.raises(Invalid, match=r"cannot run on A100:4 per node: it asks for A100:2 or V100:4"):
            start_at(world, job, place_on(world.nodes[0], job, gpus=4, cpus=8, memory_mib=2048))


def test_a_place_in_the_size_that_is_asked_for_names_the_type(world: World) -> None:
    attempt = place(world, gpus=2)
    assert attempt.request.first.gpu_type == "A100"
    assert attempt.request == attempt.job.request.given(replace(attempt.job.request.first, gpu_type="A100"))
    assert place(world, gpus=0).request.first.gpu_type is None
