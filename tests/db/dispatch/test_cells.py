"""Cells on the platform: shares are checked and stored, bindings are rows, and a plan keeps to them under lock."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cells.models import Binding, CellShare, Chain, PinnedCell
from muster.common.errors import Conflict, Invalid
from muster.dispatch.apply.apply import apply_units
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.explain.cells import cells_now, preview, set_cells
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.offers.models import Role
from muster.offers.selectors import standing_offers
from muster.offers.services import Wanted, accept_offer, register_framework
from muster.tenants.models import Quota, VirtualCluster
from muster.tenants.services import set_quota
from scheduler.engine.cycle import decide
from tests.db.stories import World, cycle, end, make_world, place, ranks, start, states, submit
from tests.factories import make_vc

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

NODE = "4-A100x4-NODE.A100x4-NODE"


@pytest.fixture
def world() -> World:
    """Four nodes with four GPUs each, in one rack, and a virtual cluster with two of the nodes."""
    world = make_world(nodes=4, gpus=4, quota=0)
    for node in world.nodes:
        node.rack = "r1"
        node.save(update_fields=["rack"])
    Pool.objects.filter(pk=world.pool.pk).update(admission="hived")
    world.pool.refresh_from_db()
    give(world.vc, {NODE: 2})
    return world


def give(vc: VirtualCluster, cells: dict[str, int], *pinned: str) -> VirtualCluster:
    vc.refresh_from_db()
    return set_cells(vc=vc, version=vc.version, cells=cells, pinned=pinned, actor="olga")


def bound(job: Job) -> set[str]:
    rows = Binding.objects.filter(allocation__attempt__job=job, allocation__released_at=None)
    return set(rows.values_list("cell", flat=True))


def test_cells_make_the_quotas_of_a_virtual_cluster(world: World) -> None:
    assert Quota.objects.get(vc=world.vc, gpu_type="A100").gpus == 8
    give(world.vc, {NODE: 1}, f"r1/{world.nodes[0].name}")
    assert Quota.objects.get(vc=world.vc, gpu_type="A100").gpus == 8
    assert (CellShare.objects.get().number, PinnedCell.objects.get().gpus) == (1, 4)
    give(world.vc, {})
    assert Quota.objects.get(vc=world.vc, gpu_type="A100").gpus == 0


REFUSED: dict[str, tuple[dict[str, int], tuple[str, ...], str]] = {
    "more than there is": ({NODE: 5}, (), "only 4 are left"),
    "a negative number": ({NODE: -1}, (), "write 0 or more"),
    "an unknown type": ({"H100-NODE": 1}, (), "cells.H100-NODE: H100-NODE is no type of a physical cell"),
    "an unknown cell": ({}, ("r1/nowhere",), "r1/nowhere"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_cells_that_do_not_fit_are_refused_and_nothing_changes(world: World, case: str) -> None:
    cells, pinned, said = REFUSED[case]
    with pytest.raises(Invalid) as refused:
        give(world.vc, cells, *pinned)
    assert said in refused.value.detail
    world.vc.refresh_from_db()
    assert CellShare.objects.get(vc=world.vc).number == 2
    found = preview(vc=world.vc, cells=cells, pinned=pinned)
    assert found.problem
    assert found.field in refused.value.detail


def test_cells_of_two_virtual_clusters_must_fit_together(world: World) -> None:
    other = make_vc(world.tenant, world.pool, quotas={})
    with pytest.raises(Invalid, match="only 4 are left"):
        give(other, {NODE: 3})
    give(other, {NODE: 2})


def test_the_second_of_two_operators_is_told_who_was_first(world: World) -> None:
    version = world.vc.version
    give(world.vc, {NODE: 1})
    with pytest.raises(Invalid, match="are those of its cells"):
        set_quota(vc=world.vc, gpu_type="A100", gpus=3, actor="otto")
    with pytest.raises(Conflict, match="olga changed"):
        set_cells(vc=world.vc, version=version, cells={NODE: 2}, pinned=(), actor="otto")


def test_a_job_is_bound_to_its_cells_until_it_ends(world: World) -> None:
    attempt = start(world, gpus=4)
    assert bound(attempt.job) == {f"{NODE}/0"}
    run = pool_snapshot(world.pool, seed=0).running[0]
    assert {cell for share in run.allocations for cell in share.cells} == {f"{NODE}/0"}
    end(ranks(attempt)[0])
    assert bound(attempt.job) == set()


def test_a_full_virtual_cluster_waits_and_an_opportunistic_job_leaves_for_it(world: World) -> None:
    for _ in range(4):
        start(world, gpus=4, **{"class": "opportunistic"})
    jobs = [submit(world, gpus=4) for _ in range(3)]
    cycle(world)
    assert Job.objects.filter(reservation__isnull=False).count() == 2
    assert [states(job)[0] for job in jobs] == ["queued"] * 3
    jobs[2].refresh_from_db()
    assert jobs[2].hold["detail"] == f"{world.vc.name} uses 8 of the 8 A100 of its cells; this job needs 4"


def test_a_change_of_cells_makes_a_running_job_opportunistic_and_says_so(world: World) -> None:
    attempts = [start(world, gpus=4) for _ in range(2)]
    seen = preview(vc=world.vc, cells={NODE: 1}, pinned=())
    assert [one.job_id for one in seen.demoted] == [attempts[1].job_id]
    give(world.vc, {NODE: 1})
    assert cells_now(world.pool).ledger.demoted == {attempts[1].job_id}
    other = make_vc(world.tenant, world.pool, quotas={})
    give(other, {NODE: 3})
    waiting = [submit(world, gpus=4, vc=other.name) for _ in range(3)]
    cycle(world)
    attempts[1].refresh_from_db()
    assert attempts[1].state == "stopping"
    assert [bool(bound(job)) for job in waiting] == [True, True, False]


def planned(world: World, **spec: Any) -> tuple[list[Unit], Any]:
    submit(world, **spec)
    seen = pool_snapshot(world.pool, seed=world.pool.pk)
    plan = decide(seen, config_of(world.pool))
    return [Unit((one,)) for one in plan.places], seen


def test_a_plan_is_checked_anew_when_another_one_has_used_the_cells(world: World) -> None:
    other = make_vc(world.tenant, world.pool, quotas={})
    units, seen = planned(world, gpus=4)
    Chain.objects.update_or_create(pool=world.pool, gpu_type="A100", defaults={"bindings": 77})
    assert apply_units(world.pool, units, config_of(world.pool), seen).started  # still right
    units, seen = planned(world, gpus=4)
    give(world.vc, {NODE: 1})
    give(other, {NODE: 3})
    applied = apply_units(world.pool, units, config_of(world.pool), seen)
    assert [one.reason for one in applied.refusals] == [
        "its place is in no free cell of its virtual cluster, or in one that another is promised"
    ]


def test_an_offer_keeps_to_cells_and_its_jobs_are_bound(world: World) -> None:
    Role.objects.create(vc=world.vc, name="outside")
    register_framework(user=world.user, role_name="outside")
    cycle(world)
    offers = standing_offers(world.user)
    assert [len(one.gpu_ids) for one in offers] == [4, 4]  # of four free nodes, two are of its cells
    offer = offers[0]
    jobs = accept_offer(user=world.user, offer_id=offer.pk, wanted=[Wanted({"command": "true", "gpus": 4})])
    assert bound(jobs[0]) == {f"{NODE}/0"}


def test_a_fallback_to_fifo_keeps_to_the_cells(world: World) -> None:
    Pool.objects.filter(pk=world.pool.pk).update(policy="broken")
    attempt = place(world, gpus=4)
    assert bound(attempt.job) == {f"{NODE}/0"}
    world.pool.refresh_from_db()
    assert world.pool.fallback["config"]["admission"] == "hived"
