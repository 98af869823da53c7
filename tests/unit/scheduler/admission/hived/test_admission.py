"""Cells as an admission: guaranteed jobs get the cells of their virtual cluster, opportunistic ones what is idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.admission.hived import CELL_TAKEN, Hived
from scheduler.admission.screening import FIRST_ID, with_screening_clusters
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import AllocationView, Job, Locality, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.invariants import check
from scheduler.model.lifecycle import AttemptState, HoldReason, JobClass
from scheduler.model.plan import Place, Plan, apply, release
from scheduler.model.planners import Scope, seen_by
from tests.unit.scheduler.factories import asking, make_job, make_node, make_running, make_share, make_snapshot

OPPORTUNISTIC = {"job_class": JobClass.OPPORTUNISTIC}

# Racks of two nodes; a node has two sockets of two GPUs.
CLUSTER: dict[str, Any] = {
    "cellTypes": {
        "SOCKET": {"childCellType": "A100", "childCellNumber": 2},
        "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
        "RACK": {"childCellType": "NODE", "childCellNumber": 2},
    },
    "physicalCells": [
        {
            "cellType": "RACK",
            "cellChildren": [{"cellAddress": "node1", "pinnedCellId": "first"}, {"cellAddress": "node2"}],
        },
        {"cellType": "RACK", "cellChildren": [{"cellAddress": "node3"}, {"cellAddress": "node4"}]},
    ],
}
NODES = tuple(make_node(number, gpus=4) for number in range(1, 5))


def cluster(vc_id: int, name: str, cells: dict[str, int], **fields: Any) -> VirtualCluster:
    return VirtualCluster(vc_id, 1, name, {}, cells=cells, **fields)


A = cluster(1, "a", {"RACK.NODE": 2})
B = cluster(2, "b", {"RACK.NODE.SOCKET": 2, "RACK.NODE": 1})


def config(policy: str = "fifo", **params: Any) -> CycleConfig:
    return CycleConfig(policy=policy, policy_params=params, admission="hived", admission_params={"cluster": CLUSTER})


def pool(
    *jobs: Job, running: tuple[Running, ...] = (), vcs: tuple[VirtualCluster, ...] = (A, B), **fields: Any
) -> Snapshot:
    return make_snapshot(nodes=NODES, vcs=vcs, waiting=jobs, running=running, **fields)


def decided(snapshot: Snapshot, policy: str = "fifo", **params: Any) -> Plan:
    plan = decide(snapshot, config(policy, **params))
    assert check(snapshot, plan, compose(config(policy, **params)).admission) == ()
    return plan


def placed(plan: Plan) -> list[int]:
    return sorted(place.job_id for place in plan.places)


def cells_of(plan: Plan, job_id: int) -> set[str]:
    place = next(place for place in plan.places if place.job_id == job_id)
    return {cell for share in place.allocations for cell in share.cells}


def nodes_of(place: Place) -> set[int]:
    return {share.node_id for share in place.allocations}


def started(snapshot: Snapshot, policy: str = "fifo") -> Snapshot:
    return apply(snapshot, decided(snapshot, policy))


def reason(plan: Plan, job_id: int) -> tuple[HoldReason, str]:
    return next((hold.reason, hold.detail) for hold in plan.holds if hold.job_id == job_id)


def test_a_virtual_cluster_gets_its_cells_and_no_more() -> None:
    plan = decided(pool(make_job(1, gpus=4), make_job(2, gpus=4), make_job(3, gpus=4)))
    assert placed(plan) == [1, 2]
    assert cells_of(plan, 1) | cells_of(plan, 2) == {"RACK.NODE/0", "RACK.NODE/1"}
    assert reason(plan, 3) == (HoldReason.QUOTA, "a uses 8 of the 8 A100 of its cells; this job needs 4")


def test_what_fits_no_cell_of_the_virtual_cluster_never_starts() -> None:
    jobs = (make_job(1, gpus=4, nodes=3), make_job(2, gpus=3, vc_id=3))
    plan = decided(pool(*jobs, vcs=(A, cluster(3, "c", {"RACK.NODE.SOCKET": 2}))))
    assert reason(plan, 1)[0] is HoldReason.QUOTA_TOO_SMALL
    assert reason(plan, 2) == (
        HoldReason.QUOTA_TOO_SMALL,
        "the cells of c have 4 A100, but never as this job needs them; this job needs 3 A100 on one node",
    )


def test_enough_gpus_in_the_wrong_places_are_told_as_fragmentation() -> None:
    snapshot = started(pool(make_job(1, gpus=3), make_job(2, gpus=3)))
    plan = decided(replace(snapshot, waiting=(make_job(3, gpus=2),)))
    assert reason(plan, 3) == (
        HoldReason.FRAGMENTED,
        "2 A100 in the cells of a are free, but not as this job needs them: 2 A100 on one node",
    )


def test_opportunistic_jobs_go_where_cells_need_them_least_and_leave_for_a_guarantee() -> None:
    everything = tuple(make_job(number, gpus=4, **OPPORTUNISTIC) for number in range(1, 5))
    snapshot = started(pool(*everything))
    assert len(snapshot.running) == 4
    plan = decided(replace(snapshot, waiting=(make_job(9, gpus=4),)))
    assert placed(plan) == [9]
    assert [one.for_job_id for one in plan.preempts] == [9]
    stopping = apply(snapshot := replace(snapshot, waiting=(make_job(9, gpus=4),)), plan)
    again = decided(stopping)
    assert (placed(again), again.preempts) == ([], ())
    freed = release(stopping, [plan.preempts[0].job_id])
    final = decided(freed)
    assert placed(final) == [9]
    assert cells_of(final, 9) == {"RACK.NODE/0"}


def test_a_guarantee_takes_nothing_of_another_virtual_cluster() -> None:
    a = tuple(make_job(number, gpus=1) for number in range(1, 9))
    b = (make_job(11, gpus=4, vc_id=2), make_job(12, gpus=2, vc_id=2), make_job(13, gpus=2, vc_id=2))
    plan = decided(pool(*a, *b))
    assert len(plan.places) == 11
    assert cells_of(plan, 11) == {"RACK.NODE/0"}


def test_opportunistic_gpus_have_a_cap() -> None:
    capped = replace(A, borrowing={"A100": 4})
    plan = decided(pool(make_job(1, gpus=4, **OPPORTUNISTIC), make_job(2, gpus=1, **OPPORTUNISTIC), vcs=(capped, B)))
    assert placed(plan) == [1]
    assert reason(plan, 2)[1] == "opportunistic jobs of a may hold 4 A100 and hold 4; this job needs 1"


def test_a_gang_gets_a_node_for_each_rank_and_a_rack_if_it_asks() -> None:
    rack = cluster(1, "a", {"RACK": 1})
    plan = decided(pool(make_job(1, gpus=2, nodes=2, locality=Locality.RACK), vcs=(rack,)))
    assert nodes_of(plan.places[0]) in ({1, 2}, {3, 4})
    assert cells_of(plan, 1) == {"RACK/0/0", "RACK/0/1"}


def test_a_divisible_job_is_split_where_no_node_holds_it() -> None:
    plan = decided(pool(asking(make_job(1, gpus=8), split=True)))
    assert sorted(len(share.gpu_ids) for share in plan.places[0].allocations) == [4, 4]


def test_a_pinned_cell_belongs_to_one_virtual_cluster() -> None:
    owner = cluster(1, "a", {}, pinned=("first",))
    plan = decided(pool(make_job(1, gpus=4), make_job(2, gpus=1), make_job(3, gpus=4, vc_id=2), vcs=(owner, B)))
    assert cells_of(plan, 1) == {"pin:first"}
    assert [nodes_of(place) for place in plan.places if place.job_id == 1] == [{1}]
    assert placed(plan) == [1, 3]


def test_a_lost_cell_makes_its_job_opportunistic_and_the_job_keeps_its_gpus() -> None:
    snapshot = started(pool(make_job(1, gpus=4), make_job(2, gpus=4)))
    smaller = replace(snapshot, vcs=(cluster(1, "a", {"RACK.NODE": 1}), replace(B, cells={"RACK.NODE": 3})))
    ledger = Hived(CLUSTER).ledger(smaller)
    assert ledger.demoted == {2}
    plan = decided(replace(smaller, waiting=tuple(make_job(n, gpus=4, vc_id=2) for n in (11, 12, 13))))
    assert [one.job_id for one in plan.preempts] == [2]
    assert placed(plan) == [11, 12, 13]


def test_jobs_that_ran_before_there_were_cells_get_those_around_them() -> None:
    runs = tuple(make_running(make_share(number, range(4)), attempt_id=number) for number in (1, 3))
    assert Hived(CLUSTER).ledger(pool(running=runs)).demoted == set()
    stray = make_running(make_share(2, range(4)), attempt_id=4)
    assert Hived(CLUSTER).ledger(pool(running=(*runs, stray))).demoted == {1004}


def test_what_may_not_be_stopped_or_is_sick_is_left_alone() -> None:
    nodes = (make_node(1, gpus=4, unhealthy=[0]), replace(NODES[1], schedulable=False), *NODES[2:])
    held = make_running(make_share(3, range(1)), attempt_id=7, preemptible=False, **OPPORTUNISTIC)
    snapshot = replace(pool(make_job(1, gpus=4), make_job(2, gpus=3), running=(held,)), nodes=nodes)
    plan = decided(snapshot)
    assert placed(plan) == [1, 2]
    gpus = {gpu_id for place in plan.places for share in place.allocations for gpu_id in share.gpu_ids}
    assert not gpus & {100, 300}
    assert not any(200 <= gpu_id < 300 for gpu_id in gpus)


def test_a_place_outside_of_its_cells_is_refused() -> None:
    snapshot = pool(make_job(1, gpus=4), make_job(2, gpus=2, vc_id=2), make_job(3, gpus=2, vc_id=2))
    admission = compose(config()).admission

    def codes(*places: Place) -> list[str]:
        return [one.code for one in check(snapshot, Plan(places, ()), admission)]

    def share(node_id: int, gpus: range, cell: str) -> AllocationView:
        one = make_share(node_id, gpus)
        return replace(one, cells=(cell,) * len(one.gpu_ids) if cell else ())

    assert codes(Place(1, (share(1, range(4), "RACK.NODE/0"),))) == []
    assert codes(Place(1, (share(1, range(4), ""),))) == [CELL_TAKEN]
    assert codes(Place(1, (share(1, range(4), "RACK.NODE/7"),))) == [CELL_TAKEN]
    assert codes(Place(2, (share(1, range(2), "RACK.NODE/0"),))) == []
    first = Place(2, (share(1, range(2), "RACK.NODE.SOCKET/0"),))
    assert codes(first, Place(3, (share(1, range(2, 4), "RACK.NODE.SOCKET/1"),))) == []
    # Half of a second node leaves two whole ones, and three are promised.
    assert codes(first, Place(3, (share(2, range(2), "RACK.NODE.SOCKET/1"),))) == [CELL_TAKEN]


def test_priorities_inside_a_virtual_cluster_are_those_of_its_policy() -> None:
    snapshot = started(pool(make_job(1, gpus=4), make_job(2, gpus=4)))
    snapshot = replace(
        snapshot,
        running=tuple(replace(run, state=AttemptState.RUNNING) for run in snapshot.running),
        waiting=(make_job(3, gpus=4, priority=10),),
    )
    plan = decided(snapshot, "priority", preemptive=True, min_run_s=0)
    assert placed(plan) == [3]
    assert len(plan.preempts) == 1


@pytest.mark.parametrize("policy", ["fifo", "las", "tiresias", "drf", "srtf"])
def test_a_policy_decides_inside(policy: str) -> None:
    plan = decided(pool(make_job(1, gpus=4), make_job(2, gpus=4), make_job(3, gpus=4)), policy)
    assert len(plan.places) == 2


def test_each_virtual_cluster_may_have_a_planner_of_its_own() -> None:
    lent = tuple(make_job(number, gpus=4, vc_id=2, **OPPORTUNISTIC) for number in range(1, 5))
    busy = replace(started(pool(*lent)), waiting=(make_job(8, gpus=4), make_job(9, gpus=4, vc_id=2)))
    admission = compose(config()).admission
    for policy, scope, job_id in (("las", Scope(frozenset({1})), 8), ("srtf", Scope(frozenset({1}), rest=True), 9)):
        seen = seen_by(busy, scope)
        plan = decide(seen, config(policy))
        assert check(seen, plan, admission) == ()
        assert placed(plan) == [job_id]
        assert [one.for_job_id for one in plan.preempts] == [job_id]


def test_screening_runs_use_idle_gpus_up_to_their_cap() -> None:
    run = {"vc_id": FIRST_ID + 1, "preemptible": False}
    world = pool(make_job(1, gpus=2, **run), make_job(2, gpus=2, **run), make_job(3, gpus=4))
    plan = decided(with_screening_clusters(world, [Tenant(1, "t", 1.0)], cap=2))
    assert placed(plan) == [1, 3]
    assert cells_of(plan, 1) == set()


def test_a_virtual_cluster_without_cells_has_opportunistic_jobs_only() -> None:
    bare = cluster(3, "c", {})
    plan = decided(pool(make_job(1, vc_id=3, **OPPORTUNISTIC), make_job(2, vc_id=3), vcs=(A, B, bare)))
    assert placed(plan) == [1]
    assert reason(plan, 2)[1] == "the cells of c have no A100; this job needs 1 A100 on one node"


def test_the_ranks_of_a_gang_get_nodes_of_their_own_from_parts_of_nodes() -> None:
    parts = cluster(1, "a", {"RACK.NODE.SOCKET": 2})
    plan = decided(pool(make_job(1, gpus=2, nodes=2), vcs=(parts,)))
    assert len(nodes_of(plan.places[0])) == 2
    snapshot = started(pool(make_job(1, gpus=1), make_job(2, gpus=1, nodes=2), vcs=(parts,)))
    assert [len(run.allocations) for run in snapshot.running] == [2, 1]


def test_a_rack_that_loses_a_node_still_has_the_nodes_that_are_promised() -> None:
    vcs = (cluster(1, "a", {"4-A100x4-NODE.A100x4-NODE": 2}),)
    world = make_snapshot(nodes=NODES, vcs=vcs, waiting=(make_job(1, gpus=4), make_job(2, gpus=4)))
    settings = CycleConfig(admission="hived")
    running = apply(world, decide(world, settings))
    held = {share.node_id for run in running.running for share in run.allocations}
    smaller = replace(running, nodes=tuple(node for node in NODES if node.id != max({1, 2, 3, 4} - held)))
    assert Hived().ledger(smaller).demoted == set()
    assert placed(decide(replace(smaller, running=(), waiting=world.waiting), settings)) == [1, 2]
