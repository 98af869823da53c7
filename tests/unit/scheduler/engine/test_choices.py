"""Jobs that accept several GPU types, and jobs that name nodes: where they start, and why they wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.engine.policy import POLICIES
from scheduler.model import AllocationView, Job, Snapshot
from scheduler.model.invariants import Code, check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Hold, Place, Plan
from scheduler.model.request import Choice, Request
from scheduler.placement import PLACEMENTS
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

QUOTA = ADMISSIONS.make("quota", {})


def asking(job_id: int = 1, *choices: str, **fields: Any) -> Job:
    """A job that accepts these choices, each with two CPUs for each GPU; `fields` are those of its request."""
    found = []
    for text in choices or ("A100:4",):
        gpu_type, _, gpus = text.partition(":")
        found.append(Choice(gpu_type, int(gpus), 2 * int(gpus), 1024))
    return replace(make_job(job_id), request=Request(tuple(found), **fields))


def world(*waiting: Job, a100: int = 1, v100: int = 1, **fields: Any) -> Snapshot:
    """Nodes of four A100, the first of which is node1, and then nodes of eight V100."""
    nodes = [make_node(number, gpus=4) for number in range(1, a100 + 1)]
    nodes += [make_node(number, gpus=8, gpu_type="V100") for number in range(a100 + 1, a100 + v100 + 1)]
    return make_snapshot(nodes=nodes, waiting=waiting, **fields)


def labelled(*waiting: Job, **fields: Any) -> Snapshot:
    """Three nodes of four A100 in zone a, of which node3 alone is on InfiniBand."""
    nets = {1: {}, 2: {"net": "eth"}, 3: {"net": "ib"}}
    nodes = [make_node(number, gpus=4, labels={"zone": "a", **net}) for number, net in nets.items()]
    return make_snapshot(nodes=nodes, waiting=waiting, **fields)


def busy(node_id: int, gpus: int) -> Any:
    return make_running(make_share(node_id, range(gpus)), attempt_id=node_id)


def placed(snapshot: Snapshot, **config: Any) -> dict[int, list[tuple[int, int, int]]]:
    """The node, GPUs and CPUs of each rank of each job that a lawful plan places."""
    found = CycleConfig(**config)
    plan = decide(snapshot, found)
    assert check(snapshot, plan, ADMISSIONS.make(found.admission, {})) == ()
    return {
        place.job_id: [(share.node_id, len(share.gpu_ids), share.cpus) for share in place.allocations]
        for place in plan.places
    }


def hold_of(snapshot: Snapshot) -> Hold:
    (hold,) = decide(snapshot, CycleConfig()).holds
    return hold


def test_a_job_gets_the_choice_that_it_prefers_though_more_of_the_other_type_are_free() -> None:
    assert placed(world(asking(1, "A100:4", "V100:8"))) == {1: [(1, 4, 8)]}
    assert placed(world(asking(1, "V100:8", "A100:4"))) == {1: [(2, 8, 16)]}


def test_a_job_gets_its_second_choice_in_the_size_of_that() -> None:
    assert placed(world(asking(1, "A100:4", "V100:8"), running=[busy(1, 1)])) == {1: [(2, 8, 16)]}


def test_quota_is_asked_by_the_choice_that_is_tried() -> None:
    job = asking(1, "A100:4", "V100:8")
    assert placed(world(job, vcs=[make_vc(quotas={"A100": 3, "V100": 8})])) == {1: [(2, 8, 16)]}
    assert placed(world(job, vcs=[make_vc(quotas={"A100": 4, "V100": 7})])) == {1: [(1, 4, 8)]}
    lacking = hold_of(world(job, vcs=[make_vc(quotas={"A100": 3, "V100": 7})]))
    assert (lacking.reason, lacking.detail) == (
        HoldReason.QUOTA_TOO_SMALL,
        "the quota of vision is 3 A100; this job needs 4; it cannot have V100:8 either",
    )


@pytest.mark.parametrize("policy", POLICIES.names)
def test_every_policy_gives_a_job_the_size_of_the_choice_that_has_room(policy: str) -> None:
    small, large = (make_running(make_share(node_id, (0,)), attempt_id=9, preemptible=False) for node_id in (1, 2))
    assert placed(world(asking(1, "A100:4", "V100:8"), running=[small]), policy=policy) == {1: [(2, 8, 16)]}
    assert placed(world(asking(1, "V100:8", "A100:4"), running=[large]), policy=policy) == {1: [(1, 4, 8)]}


@pytest.mark.parametrize("params", [{}, {"mode": "conservative"}])
def test_backfill_promises_the_choice_that_is_free_first_in_its_own_size(params: dict[str, Any]) -> None:
    soon, late = (
        replace(busy(node_id, gpus), job=replace(busy(node_id, gpus).job, time_limit_s=limit_s))
        for node_id, gpus, limit_s in ((2, 8, 120.0), (1, 4, 7200.0))
    )
    snapshot = world(asking(1, "A100:4", "V100:8"), running=[late, soon])
    (hold,) = decide(snapshot, CycleConfig(policy="backfill", policy_params=params)).holds
    assert (hold.evidence["needed"], hold.evidence["starts_by"]) == (8, NOW + 60)


def test_all_ranks_of_a_gang_get_the_same_choice() -> None:
    gang = asking(1, "A100:4", "V100:4", nodes=2)
    assert placed(world(gang, a100=1, v100=2)) == {1: [(2, 4, 8), (3, 4, 8)]}
    assert placed(world(gang, a100=1, v100=1)) == {}


def test_a_gang_whose_choices_all_lack_room_waits_for_the_first() -> None:
    hold = hold_of(world(asking(1, "A100:4", "V100:8"), running=[busy(1, 4), busy(2, 8)]))
    assert (hold.reason, hold.detail) == (
        HoldReason.NO_FREE_GPUS,
        "of 4 A100 in this pool, none is free; this job needs 4; it cannot have V100:8 either",
    )


@pytest.mark.parametrize("policy", POLICIES.names)
def test_every_policy_places_a_job_on_nodes_that_it_names(policy: str) -> None:
    job = asking(1, "A100:2", nodes_in=("node3", "node2"), exclude_nodes=("node2",))
    assert placed(world(job, a100=4), policy=policy) == {1: [(3, 2, 4)]}


@pytest.mark.parametrize("placement", PLACEMENTS.names)
@pytest.mark.parametrize("names", [{"nodes_in": ("node2", "node4")}, {"exclude_nodes": ("node1", "node3")}])
def test_every_placement_keeps_a_gang_to_the_nodes_that_are_left(placement: str, names: dict[str, Any]) -> None:
    found = placed(world(asking(1, "A100:2", nodes=2, **names), a100=4), placement=placement)
    assert sorted(node_id for node_id, _, _ in found[1]) == [2, 4]


@pytest.mark.parametrize(
    ("names", "detail"),
    [
        ({"nodes_in": ("node1",)}, "node1 does not have 4 free A100"),
        ({"nodes_in": ("node1", "node2")}, "none of node1, node2 has 4 free A100"),
        ({"nodes_in": ("node1", "node2", "node3"), "nodes": 2}, "of node1, node2, node3, 1 has 4 free A100"),
        ({"exclude_nodes": ("node3",)}, "node3 has 4 free A100, and this job excludes it"),
    ],
)
def test_a_job_that_waits_for_its_nodes_names_them(names: dict[str, Any], detail: str) -> None:
    hold = hold_of(world(asking(1, "A100:4", **names), a100=3, running=[busy(1, 1), busy(2, 2)]))
    assert hold.reason is HoldReason.NAMED_NODES
    assert hold.detail.startswith(detail)
    assert hold.helps


@pytest.mark.parametrize("policy", POLICIES.names)
def test_every_policy_places_a_job_on_nodes_with_its_labels(policy: str) -> None:
    assert placed(labelled(asking(1, "A100:2", node_labels=(("net", "ib"),))), policy=policy) == {1: [(3, 2, 4)]}


@pytest.mark.parametrize(
    ("keys", "reason", "detail"),
    [
        (
            {"node_labels": (("net", "ib"),)},
            HoldReason.NAMED_NODES,
            "of the nodes that this job allows, none has 4 free A100 and net=ib; this job needs 1 node",
        ),
        (
            {"node_labels": (("net", "ib"),), "nodes_in": ("node1", "node3")},
            HoldReason.NAMED_NODES,
            "none of node1, node3 has 4 free A100 and net=ib",
        ),
        (
            {"node_labels": (("net", "ib"), ("zone", "c"))},
            HoldReason.INFEASIBLE,
            "of the nodes that this job allows, none has 4 A100 and net=ib, zone=c; this job needs 1 node",
        ),
        (
            {"node_labels": (("net", "ib"),), "exclude_nodes": ("node3",)},
            HoldReason.INFEASIBLE,
            "of the nodes that this job does not exclude, none has 4 A100 and net=ib; this job needs 1 node",
        ),
    ],
)
def test_a_job_without_room_on_nodes_with_its_labels_is_told_of_them(
    keys: dict[str, Any], reason: HoldReason, detail: str
) -> None:
    hold = hold_of(labelled(asking(1, "A100:4", **keys), running=[busy(3, 1)]))
    assert (hold.reason, hold.detail) == (reason, detail)
    assert hold.helps[-1] == "ask for other node_labels"


def test_a_job_whose_nodes_lack_cpus_is_told_what_they_lack() -> None:
    cpus_taken = make_running(make_share(1, (), cpus=60))
    hold = hold_of(world(asking(1, "A100:4", nodes_in=("node1",)), a100=2, running=[cpus_taken]))
    assert hold.detail == "node1 does not have 4 free A100 with 8 free CPUs and 1 GiB of free memory"


def test_a_job_whose_node_closes_first_is_told_of_the_maintenance() -> None:
    closing = make_node(1, gpus=4, maintenance_starts_at=NOW + 60, maintenance_reason="disks are replaced")
    job = replace(asking(1, "A100:4", nodes_in=("node1",)), time_limit_s=3600.0)
    hold = hold_of(make_snapshot(nodes=[closing, make_node(2, gpus=4)], waiting=[job]))
    assert (hold.reason, "node1" in hold.detail) == (HoldReason.MAINTENANCE, True)


@pytest.mark.parametrize(
    ("names", "detail"),
    [
        ({"nodes_in": ("node3",)}, "node3 does not have 4 A100"),
        ({"nodes_in": ("node3", "node4")}, "none of node3, node4 has 4 A100"),
        (
            {"exclude_nodes": ("node1", "node2")},
            "of the nodes that this job does not exclude, none has 4 A100; this job needs 1 node",
        ),
    ],
)
def test_a_job_that_its_nodes_could_never_run_says_so(names: dict[str, Any], detail: str) -> None:
    hold = hold_of(world(asking(1, "A100:4", **names), a100=2, v100=2))
    assert hold.reason is HoldReason.INFEASIBLE
    assert hold.detail.startswith(detail)


def test_a_place_in_the_size_of_another_choice_breaks_an_invariant() -> None:
    snapshot = world(asking(1, "A100:4", "V100:8"))
    plan = Plan((Place(1, (AllocationView(2, 0, (200, 201, 202, 203), 8, 1024),)),), ())
    assert Code.WRONG_GPU_COUNT in {violation.code for violation in check(snapshot, plan, QUOTA)}


def test_a_generic_resource_that_no_node_declares_is_named() -> None:
    job = make_job(1)
    hold = hold_of(world(replace(job, request=replace(job.request, resources=(("fpga", 1),)))))
    assert (hold.reason, hold.detail) == (HoldReason.INFEASIBLE, "no node of this pool has the generic resource fpga")
