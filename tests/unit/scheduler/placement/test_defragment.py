"""Moves of jobs so that a blocked demand fits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission import ADMISSIONS
from scheduler.model import AllocationView, Job, Locality, Node, Running, Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import AttemptState
from scheduler.model.plan import Place, Plan, Preempt
from scheduler.placement import PLACEMENTS
from scheduler.placement.defragment import Limits, Move, defragment
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from tests.profiles import examples
from tests.unit.scheduler.factories import asking, make_node, make_running, make_share, make_snapshot
from tests.unit.scheduler.pools import gang, lot, nodes

CONSOLIDATE = PLACEMENTS.make("consolidate", {})


def on(job_id: int, node_id: int, indexes: Iterable[int], restart_s: float = 60.0, **fields: Any) -> Running:
    """A job that holds these GPUs of a node and can move."""
    share = make_share(node_id, indexes)
    run = make_running(share, attempt_id=job_id, checkpoints=True, policy_state={"restart_s": restart_s})
    return replace(run, job=asking(run.job, id=job_id, **fields))


def fixed(job_id: int, node_id: int, indexes: Iterable[int]) -> Running:
    """A job that cannot move."""
    return on(job_id, node_id, indexes, checkpoints=False)


def wide(job_id: int, *node_ids: int, gpus: Iterable[int]) -> Running:
    """A gang with the same GPUs on several nodes."""
    indexes = list(gpus)
    shares = [make_share(node_id, indexes, rank) for rank, node_id in enumerate(node_ids)]
    run = make_running(*shares, checkpoints=True, policy_state={"restart_s": 60.0})
    return replace(run, job=replace(run.job, id=job_id))


def restart_s(job: Job) -> float:
    return job.policy_state.get("restart_s", 60.0)


def moves_of(
    world_nodes: Iterable[Node], running: Iterable[Running], demand: Demand, limits: Limits | None = None
) -> tuple[Move, ...] | None:
    world = make_snapshot(nodes=world_nodes, running=running)
    return defragment(
        Free(world), world.running, demand, CONSOLIDATE, now=world.now, restart_s=restart_s, limits=limits or Limits()
    )


@dataclass(frozen=True)
class Case:
    """A pool, its jobs and a demand; `expected` are moves: (job id, its nodes)."""

    expected: list[tuple[int, list[int]]] | None
    demand: Demand
    nodes: tuple[Node, ...]
    running: tuple[Running, ...]


CASES = {
    "none when it fits already": Case([], gang(4), nodes("a"), (on(1, 1, range(4)),)),
    "the one job that is in the way": Case(
        [(1, [2])], gang(8), nodes("a", "a"), (on(1, 1, range(2)), fixed(2, 2, range(6)))
    ),
    "of two, the one with fewer GPUs": Case(
        [(2, [1])], gang(8), nodes("a", "a"), (on(1, 1, range(3)), on(2, 2, range(2)))
    ),
    "of two, the job that restarts sooner": Case(
        [(1, [2])], gang(8), nodes("a", "a"), (on(1, 1, range(3), restart_s=10), on(2, 2, range(2), restart_s=100))
    ),
    "two small ones before a large one": Case(
        [(1, [2]), (2, [2])],
        gang(8),
        nodes("a", "a"),
        (on(1, 1, [0]), on(2, 1, [1]), on(3, 2, range(3))),
    ),
    "no more than it takes": Case(
        [(2, [2])], gang(4), nodes("a", "a"), (on(1, 1, range(4)), on(2, 1, [4]), fixed(3, 2, range(5)))
    ),
    "no move when the jobs in the way cannot move": Case(
        None, gang(8), nodes("a", "a"), (fixed(1, 1, range(2)), fixed(2, 2, range(2)))
    ),
    "no job that is not preemptible": Case(
        None, gang(8), nodes("a", "a"), (on(1, 1, [0], preemptible=False), on(2, 2, [0], preemptible=False))
    ),
    "no job that is stopping": Case(
        None,
        gang(8),
        nodes("a", "a"),
        (replace(on(1, 1, [0]), state=AttemptState.STOPPING), replace(on(2, 2, [0]), state=AttemptState.STOPPING)),
    ),
    "no move when too few GPUs are free": Case(
        None, gang(8), nodes("a", "a"), (on(1, 1, range(4)), fixed(2, 2, range(5)))
    ),
    "no move without another place for the job": Case(
        None, gang(8), nodes("a", "a"), (on(1, 1, range(4), gpus=4), fixed(2, 2, [0, 1, 2]), fixed(3, 2, [3, 4]))
    ),
    "no job on an unhealthy GPU": Case(
        None, gang(7), (make_node(1, unhealthy=[0]), make_node(2)), (on(1, 1, [0, 1]), fixed(2, 2, range(2)))
    ),
    "one for each node that is missing": Case(
        [(1, [3]), (2, [3])],
        gang(8, 2),
        nodes("a", "a", "a"),
        (on(1, 1, [0]), on(2, 2, [0]), fixed(3, 3, range(6))),
    ),
    "a gang as a whole": Case(
        [(1, [3, 4])],
        gang(8, 2),
        nodes("a", "a", "a", "a"),
        (wide(1, 1, 2, gpus=[0]), fixed(2, 3, range(6)), fixed(3, 4, range(6))),
    ),
    "within the rack where it costs least": Case(
        [(3, [2])],
        gang(8, 2, Locality.RACK),
        nodes("a", "a", "b", "b"),
        (on(1, 1, [0, 1]), fixed(2, 2, range(4)), on(3, 4, [0])),
    ),
    "for a lot that must lie on one node": Case(
        [(1, [2])], lot(8, Locality.NODE), nodes("a", "a"), (on(1, 1, range(2)), fixed(2, 2, range(6)))
    ),
    "for a lot that must lie within a rack": Case(
        [(1, [3])],
        lot(14, Locality.RACK),
        nodes("a", "a", "b"),
        (on(1, 1, range(4)), fixed(2, 3, range(4))),
    ),
    "for a job without GPUs that lacks CPUs": Case(None, gang(0, cpus=64), nodes("a"), (on(1, 1, [0]),)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_moves(case: Case) -> None:
    moves = moves_of(case.nodes, case.running, case.demand)
    got = None if moves is None else [(m.run.job.id, [share.node_id for share in m.allocations]) for m in moves]
    assert got == case.expected


def test_it_gives_up_beyond_its_limits() -> None:
    running = [on(1, 1, [0]), on(2, 1, [1]), fixed(3, 2, range(4))]
    assert moves_of(nodes("a", "a"), running, gang(8), Limits(moves=2)) is not None
    assert moves_of(nodes("a", "a"), running, gang(8), Limits(moves=1)) is None
    assert moves_of(nodes("a", "a"), running, gang(8), Limits(tries=0)) is None


def test_asking_changes_nothing() -> None:
    world = make_snapshot(nodes=nodes("a", "a"), running=[on(1, 1, range(2)), fixed(2, 2, range(6))])
    free, fresh = Free(world), Free(world)
    assert defragment(free, world.running, gang(8), CONSOLIDATE, now=world.now, restart_s=restart_s)
    assert [free.node(1), free.node(2)] == [fresh.node(1), fresh.node(2)]
    assert free.gpus("A100") == fresh.gpus("A100")


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Full nodes but for holes of a few GPUs, and a gang on some; most jobs can move."""
    world_nodes = [
        make_node(node_id, gpus=4, rack=draw(st.sampled_from(["a", "a", "b"])), cpus=6)
        for node_id in range(1, draw(st.integers(2, 5)) + 1)
    ]
    running: list[Running] = []
    gang_on = draw(st.lists(st.sampled_from([node.id for node in world_nodes]), max_size=2, unique=True))
    if len(gang_on) == 2:
        running.append(wide(100, *gang_on, gpus=[3]))
    for node in world_nodes:
        left = list(range(3 if node.id in gang_on else 4))
        while left:
            here, left = left[: draw(st.integers(1, 2))], left[2:]
            if draw(st.integers(0, 2)):
                running.append(on(101 + len(running), node.id, here, checkpoints=draw(st.integers(0, 4)) > 0))
    sized = [replace(run, job=asking(run.job, gpus=len(run.allocations[0].gpu_ids))) for run in running]
    return make_snapshot(nodes=world_nodes, running=sized)


blocked = st.one_of(
    st.builds(
        gang, st.integers(2, 4), st.integers(1, 2), st.sampled_from([Locality.ANY, Locality.RACK]), st.integers(0, 3)
    ),
    st.builds(lot, st.integers(2, 4), st.just(Locality.NODE), st.integers(0, 1)),
    st.builds(lot, st.integers(4, 8), st.just(Locality.RACK), st.integers(0, 1)),
)


def by_job(run: Running, allocations: tuple[AllocationView, ...]) -> Running:
    return replace(run, allocations=allocations)


@pytest.mark.parametrize("name", ["consolidate", "spread", "best_fit", "topology", "dedicated"])
@settings(max_examples=examples(150))
@given(world=worlds(), demand=blocked)
def test_after_lawful_moves_the_demand_fits_and_all_others_run_as_before(
    name: str, world: Snapshot, demand: Demand
) -> None:
    placement = PLACEMENTS.make(name, {})
    free = Free(world)
    moves = defragment(free, world.running, demand, placement, now=world.now, restart_s=restart_s)
    assert [free.node(node.id) for node in world.nodes] == [Free(world).node(node.id) for node in world.nodes]
    fits = placement.place(free, demand, ()) is not None
    assert (moves == ()) == fits
    if not moves:
        return
    plan = Plan(
        places=tuple(Place(move.run.job.id, move.allocations) for move in moves),
        holds=(),
        preempts=tuple(Preempt(move.run.job.id, move.run.job.id, "makes room") for move in moves),
    )
    assert check(world, plan, ADMISSIONS.make("quota", {})) == ()
    assert all(move.run.job.checkpoints and move.allocations != move.run.allocations for move in moves)
    elsewhere = {move.run.job.id: move.allocations for move in moves}
    running = tuple(by_job(run, elsewhere.get(run.job.id, run.allocations)) for run in world.running)
    assert [run.gpus for run in running] == [run.gpus for run in world.running]
    assert placement.place(Free(replace(world, running=running)), demand, ()) is not None
