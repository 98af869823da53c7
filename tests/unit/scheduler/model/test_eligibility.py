"""Nodes that are in service and yet closed to some jobs: of another form, or because maintenance comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Locality, Node, Reservation
from scheduler.model.eligibility import NodeEligibility, can_start, overlaps_maintenance
from scheduler.model.lifecycle import HoldReason, RuntimeNeed
from scheduler.model.plan import Hold
from scheduler.placement import PLACEMENTS
from tests.unit.scheduler.factories import NOW, asking, make_job, make_node, make_running, make_share, make_snapshot

PROCESS, CONTAINERS = (RuntimeNeed.PLAIN,), (RuntimeNeed.IMAGE,)
WITH_DEFAULT = (RuntimeNeed.IMAGE, RuntimeNeed.PLAIN, RuntimeNeed.CONTAINER)
MOUNTING = (RuntimeNeed.IMAGE, RuntimeNeed.IMAGE_VOLUMES)


def nodes_of(job: Job, *nodes: Node, **config: Any) -> list[int]:
    """The nodes on which the job is started, of these."""
    plan = decide(make_snapshot(nodes=nodes, waiting=(job,)), CycleConfig(**config))
    return [share.node_id for place in plan.places for share in place.allocations]


def hold_of(job: Job, *nodes: Node, running: Any = ()) -> Hold:
    (hold,) = decide(make_snapshot(nodes=nodes, waiting=(job,), running=running), CycleConfig()).holds
    return hold


@pytest.mark.parametrize(
    ("forms", "starts"),
    [
        ((), set(RuntimeNeed)),
        (PROCESS, {RuntimeNeed.PLAIN}),
        (CONTAINERS, {RuntimeNeed.IMAGE}),
        (WITH_DEFAULT, {RuntimeNeed.PLAIN, RuntimeNeed.IMAGE, RuntimeNeed.CONTAINER}),
        (MOUNTING, {RuntimeNeed.IMAGE, RuntimeNeed.IMAGE_VOLUMES}),
    ],
)
def test_a_node_starts_what_it_says_and_everything_when_it_says_nothing(
    forms: tuple[RuntimeNeed, ...], starts: set[RuntimeNeed]
) -> None:
    node = make_node(runtimes=forms)
    assert {form for form in RuntimeNeed if can_start(node, form)} == {*starts, RuntimeNeed.ANY}


@pytest.mark.parametrize(
    ("fields", "clears", "closed"),
    [
        ({"time_limit_s": 600.0}, False, False),
        ({"time_limit_s": 600.1}, False, True),
        ({"time_limit_s": 570.0, "grace_s": 30.0}, False, False),
        ({"time_limit_s": 570.1, "grace_s": 30.0}, False, True),
        ({"time_limit_s": 600.1, "checkpoints": True}, True, True),
        ({}, False, True),
        ({"checkpoints": True}, False, True),
        ({}, True, True),
        ({"checkpoints": True}, True, False),
        ({"checkpoints": True, "preemptible": False}, True, True),
    ],
)
def test_a_node_takes_until_maintenance_what_is_over_or_can_be_moved_by_then(
    fields: dict[str, Any], clears: bool, closed: bool
) -> None:
    node = make_node(maintenance_starts_at=NOW + 600, drains=clears)
    assert overlaps_maintenance(node, make_job(**fields), NOW) is closed
    assert not overlaps_maintenance(make_node(), make_job(**fields), NOW)


def test_once_maintenance_has_begun_nothing_starts_there() -> None:
    node = make_node(maintenance_starts_at=NOW, drains=True)
    assert overlaps_maintenance(node, make_job(checkpoints=True), NOW)
    assert overlaps_maintenance(node, make_job(time_limit_s=1.0), NOW)


def test_a_node_opens_again_when_the_maintenance_is_over() -> None:
    node = make_node(maintenance_starts_at=NOW, maintenance_ends_at=NOW + 600)
    assert overlaps_maintenance(node, make_job(time_limit_s=1.0), NOW + 599)
    assert not overlaps_maintenance(node, make_job(), NOW + 600)


def test_jobs_that_are_alike_share_one_set_of_closed_nodes() -> None:
    closings = NodeEligibility([make_node(1, runtimes=PROCESS), make_node(2)])
    assert (
        closings.to(make_job(1, form=RuntimeNeed.IMAGE), NOW)
        is closings.to(make_job(2, form=RuntimeNeed.IMAGE), NOW)
        == {1}
    )
    assert closings.to(make_job(3, form=RuntimeNeed.PLAIN), NOW) == frozenset()


@pytest.mark.parametrize("placement", PLACEMENTS.names)
@pytest.mark.parametrize("split", [False, True])
def test_no_placement_uses_a_node_that_is_closed_to_the_job(placement: str, split: bool) -> None:
    job = make_job(gpus=4, form=RuntimeNeed.IMAGE, split=split, cpus=0, memory_mib=0)
    nodes = [
        make_node(1, runtimes=PROCESS),
        make_node(2, runtimes=CONTAINERS),
        make_node(3, maintenance_starts_at=NOW + 60),
    ]
    assert nodes_of(job, *nodes, placement=placement) == [2]
    gang = make_job(gpus=4, nodes=2, form=RuntimeNeed.PLAIN, time_limit_s=60.0)
    assert set(nodes_of(gang, *nodes, placement=placement)) == {1, 3}


def test_a_lot_is_not_promised_what_lies_on_closed_nodes() -> None:
    lot = make_job(gpus=10, split=True, cpus=0, memory_mib=0, form=RuntimeNeed.IMAGE)
    assert nodes_of(lot, make_node(1, runtimes=PROCESS), make_node(2)) == []
    assert sorted(nodes_of(lot, make_node(1), make_node(2))) == [1, 2]


def test_a_job_that_fits_open_nodes_starts_behind_an_equal_one_that_finds_none() -> None:
    nodes = [make_node(1, runtimes=PROCESS), make_node(2, runtimes=CONTAINERS)]
    waiting = [
        make_job(1, gpus=8, form=RuntimeNeed.IMAGE),
        make_job(2, gpus=8, form=RuntimeNeed.IMAGE),
        make_job(3, gpus=8),
    ]
    waiting[2] = asking(waiting[2], form=RuntimeNeed.PLAIN)
    plan = decide(make_snapshot(nodes=nodes, waiting=waiting), CycleConfig(policy_params={"skip_blocked": True}))
    assert {place.job_id: place.allocations[0].node_id for place in plan.places} == {1: 2, 3: 1}
    (hold,) = plan.holds
    assert (hold.job_id, hold.reason) == (2, HoldReason.NO_FREE_GPUS)


@pytest.mark.parametrize(
    ("form", "forms", "detail"),
    [
        (RuntimeNeed.IMAGE, PROCESS, "no node of this pool runs containers, and this job names an image"),
        (
            RuntimeNeed.PLAIN,
            CONTAINERS,
            "every node of this pool runs jobs in containers, and this job names no image",
        ),
        (
            RuntimeNeed.CONTAINER,
            CONTAINERS,
            "no node of this pool has an image for jobs that name none, and this job asks for shm",
        ),
        (
            RuntimeNeed.IMAGE_VOLUMES,
            CONTAINERS,
            "no node of this pool mounts volumes, and this job asks for mounts",
        ),
        (
            RuntimeNeed.CONTAINER_VOLUMES,
            MOUNTING,
            "no node of this pool mounts volumes for jobs without an image, and this job asks for mounts",
        ),
    ],
)
def test_a_job_that_no_node_could_start_is_told_so(
    form: RuntimeNeed, forms: tuple[RuntimeNeed, ...], detail: str
) -> None:
    hold = hold_of(make_job(form=form), make_node(1, runtimes=forms))
    assert (hold.reason, hold.detail) == (HoldReason.INFEASIBLE, detail)


def test_a_job_that_only_nodes_of_another_form_could_hold_is_told_what_is_counted() -> None:
    hold = hold_of(
        make_job(gpus=8, form=RuntimeNeed.IMAGE),
        make_node(1, runtimes=PROCESS),
        make_node(2, gpus=4, runtimes=CONTAINERS),
    )
    assert hold.reason is HoldReason.INFEASIBLE
    assert hold.detail.startswith("counting the 1 node that runs containers: this job needs 8 A100 per node")


def test_a_job_that_waits_beside_free_nodes_of_another_form_is_told_so() -> None:
    busy = make_running(make_share(2, range(8)), attempt_id=9)
    hold = hold_of(
        make_job(form=RuntimeNeed.IMAGE),
        make_node(1, runtimes=PROCESS),
        make_node(2, runtimes=CONTAINERS),
        running=(busy,),
    )
    assert (hold.reason, hold.detail) == (
        HoldReason.RUNTIME,
        "there is room on 1 node, but not on nodes that run containers",
    )


def test_a_job_that_waits_for_a_node_with_volumes_is_told_so() -> None:
    busy = make_running(make_share(2, range(8)), attempt_id=9)
    nodes = (make_node(1, runtimes=CONTAINERS), make_node(2, runtimes=MOUNTING))
    hold = hold_of(make_job(form=RuntimeNeed.IMAGE_VOLUMES), *nodes, running=(busy,))
    assert (hold.reason, hold.detail) == (
        HoldReason.RUNTIME,
        "there is room on 1 node, but not on nodes that mount volumes",
    )
    hold = hold_of(make_job(gpus=9, form=RuntimeNeed.IMAGE_VOLUMES), *nodes)
    assert hold.detail.startswith("counting the 1 node that mounts volumes: ")


def test_a_job_that_waits_for_maintenance_is_told_when_and_what_would_help() -> None:
    hold = hold_of(make_job(), make_node(1, maintenance_starts_at=NOW + 3700, maintenance_reason="new driver"))
    assert hold.reason is HoldReason.MAINTENANCE
    assert hold.detail.endswith("node1 has maintenance from 1970-01-12 14:48 UTC: new driver")
    assert hold.helps[0] == "set a time limit of at most 61m, including the job's grace"
    assert nodes_of(make_job(time_limit_s=3660.0), make_node(1, maintenance_starts_at=NOW + 3700)) == [1]


def test_what_is_kept_for_a_job_is_let_go_of_when_its_node_closes_to_it() -> None:
    kept = Reservation(1, (make_share(1),), NOW + 60)
    world = make_snapshot(nodes=[make_node(1, maintenance_starts_at=NOW + 60), make_node(2)], waiting=(make_job(1),))
    plan = decide(replace(world, reservations=(kept,)), CycleConfig())
    assert plan.drops == (1,)


def test_a_gang_within_one_rack_finds_the_rack_whose_nodes_stay_open() -> None:
    nodes = [make_node(number, rack=f"r{(number + 1) // 2}") for number in (1, 2, 3, 4)]
    nodes[0] = replace(nodes[0], maintenance_starts_at=NOW + 60)
    assert nodes_of(make_job(gpus=8, nodes=2, locality=Locality.RACK), *nodes) == [3, 4]


def test_a_single_user_node_takes_jobs_of_its_tenant_only() -> None:
    nodes = [make_node(1, single_user=True, tenant_id=7), make_node(2, single_user=True), make_node(3)]
    closings = NodeEligibility(nodes)
    assert closings.to(make_job(1, tenant_id=7), NOW) == {2}
    assert closings.to(make_job(2, tenant_id=8), NOW) == {1, 2}


@pytest.mark.parametrize("placement", PLACEMENTS.names)
def test_no_placement_uses_the_single_user_node_of_another_tenant(placement: str) -> None:
    job = make_job(gpus=4, cpus=0, memory_mib=0, tenant_id=8)
    nodes = [make_node(1, single_user=True, tenant_id=7), make_node(2, single_user=True, tenant_id=8)]
    assert nodes_of(job, *nodes, placement=placement) == [2]


def test_a_job_that_waits_beside_a_single_user_node_is_told_why_and_what_would_help() -> None:
    hold = hold_of(make_job(tenant_id=8), make_node(1, single_user=True, tenant_id=7))
    assert hold.reason is HoldReason.SINGLE_USER
    assert hold.detail == (
        "there is room on 1 node, but all jobs there run as one account, so jobs of different tenants are not "
        "protected from each other"
    )
    assert hold.helps == (
        "an operator gives node1 to this tenant or lets tenants share it",
        "the agent of node1 runs as root or may create user namespaces",
    )
