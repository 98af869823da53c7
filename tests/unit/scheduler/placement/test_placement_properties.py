"""Duties of every placement, whatever the pool and the demand."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission import ADMISSIONS
from scheduler.model import Job, Locality, Node, Running, Snapshot
from scheduler.model.invariants import check
from scheduler.model.plan import Place, Plan
from scheduler.placement import PLACEMENTS, Placement
from scheduler.placement.base import NodeExclusion
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import demand_of
from scheduler.placement.free import Free
from scheduler.placement.split import fewest_nodes
from tests.profiles import examples
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot
from tests.unit.scheduler.pools import lot

LINKS = tuple(tuple(0 if a == b else 2 if a // 2 == b // 2 else 1 for b in range(4)) for a in range(4))
PARAMS: dict[str, list[dict[str, object]]] = {
    "dedicated": [
        {},
        {"whole_nodes": True, "from_gpus": 3},
        {"distributed": False, "from_gpus": 2, "inside": "spread"},
    ],
    "relaxing": [{"inside": "best_fit"}],
    "topology": [{}, {"inside": "spread"}],
}
PLACEMENT_CASES = {
    f"{name} {params or ''}".strip(): PLACEMENTS.make(name, params)
    for name in PLACEMENTS.names
    for params in PARAMS.get(name, [{}])
}


@st.composite
def nodes_of(draw: st.DrawFn, node_id: int) -> Node:
    return make_node(
        node_id,
        gpus=draw(st.integers(0, 4)),
        gpu_type=draw(st.sampled_from(["A100", "A100", "V100"])),
        rack=draw(st.sampled_from(["r1", "r2"])),
        cpus=draw(st.integers(1, 8)),
        unhealthy=draw(st.sets(st.integers(0, 3), max_size=1)),
        schedulable=draw(st.integers(0, 5)) > 0,
        links=draw(st.sampled_from([(), LINKS])),
        strikes=draw(st.sampled_from([0.0, 0.0, 1.0, 4.0])),
    )


@st.composite
def pools(draw: st.DrawFn) -> Snapshot:
    """A pool in which some jobs run, and some of them on several nodes."""
    nodes = [draw(nodes_of(node_id)) for node_id in range(1, draw(st.integers(1, 6)) + 1)]
    running: list[Running] = []
    left = [node for node in nodes if node.gpus]
    while left:
        if not draw(st.booleans()):
            break
        mine, left = left[: draw(st.integers(1, 2))], left[2:]
        shares = [
            make_share(node.id, range(draw(st.integers(0, len(node.gpus)))), rank, cpus=1)
            for rank, node in enumerate(mine)
        ]
        running.append(make_running(*shares, attempt_id=len(running) + 1))
    return make_snapshot(nodes=nodes, running=running)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    split = draw(st.booleans())
    gpus = draw(st.integers(1 if split else 0, 9 if split else 4))
    return make_job(
        gpus=gpus,
        nodes=1 if split else draw(st.integers(1, 3)),
        split=split,
        cpus=draw(st.integers(0, 3)),
        memory_mib=0,
        locality=draw(st.sampled_from(Locality)),
        avoid_nodes=tuple(sorted(draw(st.sets(st.integers(1, 6), max_size=3)))),
    )


def every_placement(*others: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a test with each placement on drawn pools and jobs; without a deadline, for a machine may be busy."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        tried = settings(max_examples=examples(25))(given(pools(), jobs(), *others)(test))
        marked: Callable[..., None] = pytest.mark.parametrize(
            "placement", PLACEMENT_CASES.values(), ids=PLACEMENT_CASES
        )(tried)
        return marked

    return decorate


@every_placement()
def test_what_it_gives_is_lawful_and_as_close_together_as_asked(
    placement: Placement, world: Snapshot, job: Job
) -> None:
    allocations = placement.place(Free(world), demand_of(job.request), job.avoid_nodes)
    if allocations is None:
        return
    world = replace(world, waiting=(job,))
    assert check(world, Plan((Place(job.id, allocations),), ()), ADMISSIONS.make("quota", {})) == ()
    here = [world.node_by_id[share.node_id] for share in allocations]
    if job.request.locality is Locality.NODE:
        assert len(here) == 1
    if job.request.locality is Locality.RACK:
        assert len({node.rack for node in here}) == 1


@every_placement()
def test_what_it_gives_could_be_had_of_an_empty_pool(placement: Placement, world: Snapshot, job: Job) -> None:
    if placement.place(Free(world), demand_of(job.request), ()) is not None:
        assert Capacity(world).infeasible(demand_of(job.request)) is None


@every_placement()
def test_whether_it_fits_does_not_depend_on_what_the_job_avoids(
    placement: Placement, world: Snapshot, job: Job
) -> None:
    free, demand = Free(world), demand_of(job.request)
    assert (placement.place(free, demand, job.avoid_nodes) is None) == (placement.place(free, demand, ()) is None)


@every_placement()
def test_nor_on_strikes(placement: Placement, world: Snapshot, job: Job) -> None:
    innocent = replace(world, nodes=tuple(replace(node, strikes=0.0) for node in world.nodes))
    found = placement.place(Free(world), demand_of(job.request), ())
    assert (found is None) == (placement.place(Free(innocent), demand_of(job.request), ()) is None)


@every_placement(st.data())
def test_what_does_not_fit_fits_no_better_once_others_were_placed(
    placement: Placement, world: Snapshot, job: Job, data: st.DataObject
) -> None:
    free, demand = Free(world), demand_of(job.request)
    fitted = placement.place(free, demand, ()) is not None
    other = placement.place(free, demand_of(data.draw(jobs()).request), ())
    if other is not None:
        free.take(other)
    assert fitted or placement.place(free, demand, ()) is None


@every_placement(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)))
def test_what_does_not_fit_fits_no_better_when_it_is_larger(
    placement: Placement, world: Snapshot, job: Job, more: tuple[int, int, int]
) -> None:
    free, demand = Free(world), demand_of(job.request)
    if demand.gpu_type is None or placement.place(free, demand, ()) is not None:
        return
    gpus, nodes, cpus = more
    nodes = 0 if demand.divisible else nodes
    choice = replace(demand.choice, gpus=demand.gpus + gpus, cpus=demand.cpus + cpus)
    larger = demand_of(replace(demand.request, choices=(choice,), nodes=demand.nodes + nodes))
    assert placement.place(free, larger, ()) is None


@every_placement()
def test_one_that_says_so_places_any_lot_for_which_enough_is_free(
    placement: Placement, world: Snapshot, job: Job
) -> None:
    free = Free(world)
    for gpus in range(1, free.gpus("A100") + 2):
        fits = placement.place(free, lot(gpus), job.avoid_nodes) is not None
        assert fits <= (gpus <= free.gpus("A100"))
        if placement.fills:
            assert fits == (gpus <= free.gpus("A100"))


@every_placement()
def test_equal_pools_give_equal_answers_and_asking_changes_nothing(
    placement: Placement, world: Snapshot, job: Job
) -> None:
    twin = replace(world, nodes=tuple(reversed(world.nodes)), running=tuple(reversed(world.running)))
    free, demand = Free(world), demand_of(job.request)
    first = placement.place(free, demand, job.avoid_nodes)
    assert placement.place(free, demand, job.avoid_nodes) == first
    assert placement.place(Free(twin), demand, job.avoid_nodes) == first


@settings(max_examples=examples(200))
@given(pools(), st.integers(1, 12), st.sampled_from(Locality))
def test_lots_cut_by_number_are_those_cut_with_a_look_at_each_node(
    world: Snapshot, gpus: int, within: Locality
) -> None:
    free, demand = Free(world), lot(gpus, within)
    assert fewest_nodes(free, demand, NodeExclusion()) == fewest_nodes(
        free, demand, NodeExclusion(excluded=lambda node: node.id < 0)
    )


def fewest(free: Free, world: Snapshot, gpus: int, racks: int) -> int | None:
    """The smallest number of nodes for a lot in `racks` racks, by trying all sets of nodes."""
    found = [free.node(node.id) for node in world.nodes]
    there = [node for node in found if node is not None]
    for size in range(1, len(there) + 1):
        for nodes in combinations(there, size):
            if sum(node.count("A100") for node in nodes) >= gpus and len({node.rack for node in nodes}) <= racks:
                return size
    return None


@settings(max_examples=examples(200))
@given(pools(), st.integers(1, 12))
def test_a_lot_takes_as_few_racks_and_then_as_few_nodes_as_it_can(world: Snapshot, gpus: int) -> None:
    free = Free(replace(world, nodes=tuple(replace(node, strikes=0.0) for node in world.nodes)))
    found = fewest_nodes(free, lot(gpus), NodeExclusion())
    in_one, in_any = fewest(free, world, gpus, 1), fewest(free, world, gpus, 2)
    assert (None if found is None else len(found)) == (in_any if in_one is None else in_one)


def contents(free: Free, world: Snapshot) -> object:
    """All that can be read from an index."""
    kinds = (None, "A100", "V100")
    return (
        [free.node(node.id) for node in world.nodes],
        [free.gpus(kind) for kind in kinds],
        [[node.id for node in free.by_fit(kind, 0)] for kind in kinds],
        [[(rack, [list(shelf) for shelf in shelves]) for rack, shelves in free.racks(kind, 0)] for kind in kinds[1:]],
        [[list(shelf) for shelf in free.shelves(kind)] for kind in kinds],
    )


@given(pools(), st.data())
def test_an_index_that_is_kept_up_to_date_is_that_of_the_world(world: Snapshot, data: st.DataObject) -> None:
    free = Free(world)
    running = list(world.running)
    for attempt_id in range(11, 15):
        job = data.draw(jobs())
        allocations = PLACEMENTS.make("consolidate", {}).place(free, demand_of(job.request), job.avoid_nodes)
        if allocations is not None and data.draw(st.booleans()):
            free.take(allocations)
            running.append(make_running(*allocations, attempt_id=attempt_id))
        elif running:
            free.give(running.pop(data.draw(st.integers(0, len(running) - 1))).allocations)
    if any(node.cpus < world.used_by_node.get(node.id, (0, 0))[0] for node in world.nodes):
        return  # an overcommitted node has nothing to give, and so gets too much back
    assert contents(free, world) == contents(Free(replace(world, running=tuple(running))), world)
