"""Two jobs on one GPU in Postgres: who gets which half, what is refused, and how one leaves it to the other."""

from __future__ import annotations

from typing import Any

import pytest

from muster.agents.launch import launch_spec
from muster.common.errors import Invalid
from muster.dispatch.apply.apply import apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.cycles import replay
from muster.dispatch.models import Cycle
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.models import Gpu, GpuReading
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.jobs.spec.spec import parse_spec
from muster.tenants.models import VirtualCluster
from scheduler.model import HALF, SLOTS, AllocationView
from scheduler.model.plan import Place, Preempt
from tests.db.stories import World, cycle, end, live_attempt, make_world, now_of, ranks, start, states, submit
from tests.factories import make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

PACKS = {"share": "pack", "gpu_memory": "20GiB"}


@pytest.fixture
def world() -> World:
    """One node with one GPU, whose policy packs."""
    return make_world(gpus=1, policy="gandiva")


def packing(world: World, **spec: Any) -> Job:
    return submit(world, **PACKS, **spec)


def spans(attempt: Attempt) -> list[tuple[int, int]]:
    """The slots of the GPU that the attempt holds, from and to."""
    claims = GpuClaim.objects.filter(allocation__attempt=attempt, released_at__isnull=True).order_by("gpu_id")
    return [(claim.span.lower - claim.gpu_id * SLOTS, claim.span.upper - claim.gpu_id * SLOTS) for claim in claims]


def unit_beside(world: World, job: Job) -> Unit:
    """The job on one half of the world's only GPU."""
    gpu = Gpu.objects.get(node=world.nodes[0])
    share = AllocationView(world.nodes[0].pk, 0, (gpu.pk,), job.request.first.cpus, job.request.first.memory_mib, HALF)
    return Unit((Place(job.pk, (share,)),))


def carry_out(world: World, unit: Unit) -> Any:
    return apply_unit(world.pool, unit, config_of(world.pool))


class TestAPair:
    def test_one_that_comes_later_gets_the_other_half(self, world: World) -> None:
        first = start(world, **PACKS)
        second = packing(world)
        assert cycle(world).applied.started == [second.pk]
        assert (spans(first), spans(live_attempt(second))) == ([(0, 32)], [(32, 64)])

    def test_two_that_come_together_start_in_one_cycle(self, world: World) -> None:
        jobs = [packing(world), packing(world)]
        assert cycle(world).applied.started == [job.pk for job in jobs]
        assert [spans(live_attempt(job)) for job in jobs] == [[(0, 32)], [(32, 64)]]

    def test_who_comes_after_one_has_gone_gets_the_half_that_is_left(self, world: World) -> None:
        first, second = start(world, **PACKS), start(world, **PACKS)
        end(ranks(first)[0])
        third = packing(world)
        cycle(world)
        assert (spans(second), spans(live_attempt(third))) == ([(32, 64)], [(0, 32)])

    def test_its_quota_counts_the_gpu_once(self) -> None:
        world = make_world(gpus=1, quota=1, policy="gandiva")
        jobs = [packing(world), packing(world)]
        assert len(cycle(world).applied.started) == len(jobs)
        assert pool_snapshot(world.pool, seed=0).held_by_vc == {(world.vc.pk, "A100"): 1}

    def test_both_agents_launches_name_the_gpu(self, world: World) -> None:
        attempts = [start(world, **PACKS), start(world, **PACKS)]
        gpu = Gpu.objects.get(node=world.nodes[0])
        specs = [launch_spec(world.nodes[0], rank) for attempt in attempts for rank in ranks(attempt)]
        assert [spec.gpu_uuids for spec in specs] == [(gpu.uuid,)] * 2

    def test_a_cycle_that_made_one_is_replayed(self, world: World) -> None:
        start(world, **PACKS)
        packing(world)
        stored, again = replay(Cycle.objects.get(pk=cycle(world).cycle_id))
        assert stored == again
        assert [share.slots for place in again.places for share in place.allocations] == [HALF]


class TestNoPair:
    def test_a_third_one_waits(self, world: World) -> None:
        start(world, **PACKS)
        start(world, **PACKS)
        third = packing(world)
        assert cycle(world).applied.started == []
        assert now_of(third).hold_reason == "no_free_gpus"

    @pytest.mark.parametrize(
        "spec", [{}, {"share": "pack", "gpu_memory": "70GiB"}, {"class": "opportunistic", **PACKS}]
    )
    def test_who_does_not_suit_waits(self, world: World, spec: dict[str, Any]) -> None:
        start(world, **PACKS)
        job = submit(world, **spec)
        assert cycle(world).applied.started == []
        assert now_of(job).state == "queued"

    def test_jobs_of_two_virtual_clusters_never_meet(self, world: World) -> None:
        start(world, **PACKS)
        other: VirtualCluster = make_vc(world.tenant, world.pool, quotas={"A100": 4})
        packing(world, vc=other.name)
        assert cycle(world).applied.started == []

    def test_a_policy_that_does_not_pack_leaves_the_other_half_alone(self) -> None:
        world = make_world(gpus=1, policy="fifo")
        start(world, **PACKS)
        packing(world)
        assert cycle(world).applied.started == []

    def test_the_law_refuses_a_third_under_lock(self, world: World) -> None:
        start(world, **PACKS)
        start(world, **PACKS)
        third = packing(world)
        (refusal,) = carry_out(world, unit_beside(world, third)).refusals
        assert (refusal.job_id, "may not share it" in refusal.reason) == (third.pk, True)


class TestItsEnd:
    def test_one_is_stopped_for_the_other(self, world: World) -> None:
        first, second = start(world, **PACKS), start(world, **PACKS, checkpoint={})
        applied = carry_out(world, Unit((), (Preempt(second.job_id, first.job_id, "they slow each other down"),)))
        assert (applied.preempted, applied.refusals) == ([second.job_id], [])
        assert states(second.job)[:2] == ("active", "stopping")
        assert now_of(second).reason_detail == f"they slow each other down: job {first.job_id}"
        end(ranks(second)[0])
        assert states(second.job)[0] == "queued"
        assert spans(now_of(first)) == [(0, 32)]

    def test_nobody_is_stopped_for_one_that_shares_nothing_with_him(self) -> None:
        world = make_world(gpus=2, policy="gandiva")
        first, second = start(world), start(world)
        applied = carry_out(world, Unit((), (Preempt(second.job_id, first.job_id, "for nothing"),)))
        assert applied.preempted == []
        assert [refusal.job_id for refusal in applied.refusals] == [second.job_id]
        assert states(second.job)[:2] == ("active", "running")


def test_the_policy_is_told_how_much_a_job_that_shares_uses_its_gpus() -> None:
    world = make_world(gpus=3, policy="gandiva")
    packs, alone, unread = start(world, gpus=1, **PACKS), start(world), start(world, **PACKS)
    for attempt in (packs, alone):
        claim = GpuClaim.objects.get(allocation__attempt=attempt)
        GpuReading.objects.create(gpu_id=claim.gpu_id, utilization=37.5)
    told = {run.job_id: run.job.utilization for run in pool_snapshot(world.pool, seed=0).running}
    assert told == {packs.job_id: 0.38, alone.job_id: None, unread.job_id: None}


BAD = {
    "share: it must say how much memory it needs": ({"share": "pack"}, "gpu_memory"),
    "share: without GPUs there is nothing to share": ({"gpus": 0, **PACKS}, "share"),
    "gpu_memory: only who shares says so": ({"gpu_memory": "20GiB"}, "gpu_memory"),
    "gpu_memory: not a size": ({"share": "pack", "gpu_memory": "much"}, "gpu_memory"),
    "share: slices are not there yet": ({**PACKS, "share": "slice"}, "share"),
    "share: an unknown way": ({**PACKS, "share": "yes"}, "share"),
}


@pytest.mark.parametrize(("spec", "field"), BAD.values(), ids=list(BAD))
def test_a_spec_that_makes_no_sense_names_the_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as raised:
        parse_spec({"command": "true", "gpus": 1, **spec})
    assert [error.field for error in raised.value.errors] == [field]
