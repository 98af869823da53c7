"""The state of the cells follows from what is held: order does not matter, undoing restores, merging loses nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.hived.groups import Bound, Groups, GroupState, Pod, members_of
from scheduler.admission.hived.config import CellConfig
from scheduler.admission.hived.pool import Cells
from scheduler.admission.hived.topology import NONE
from scheduler.admission.hived.want import Leaf, Placed, Want
from tests.profiles import examples
from tests.unit.scheduler.admission.hived.worlds import Trial, pools, trial

SEEDS = st.integers(0, 2**32)


def _state(cells: Cells) -> object:
    """All that changes, without the orders that mean nothing."""
    ground = cells.ground
    free = {name: [sorted(each) for each in levels] for name, levels in ground.free.items()}
    lists = (ground.bound, ground.bound_to, ground.split, ground.in_free, ground.priority, ground.used, ground.wanted)
    counts = (ground.guaranteed, ground.opportunistic, ground.left, ground.promised, ground.owed)
    return (
        [list(each) for each in lists],
        counts,
        free,
        [+counter for counter in ground.at],
        ground.healthy,
        cells.holders,
    )


def _fill(cells: Cells, random: Random, count: int, *, first: int = 0) -> dict[Trial, list[Leaf]]:
    """Start some jobs, and end some."""
    places: dict[Trial, list[Leaf]] = {}
    for number in range(first, first + count):
        job = trial(cells.topology.config, random, number)
        placed = cells.place(Want(job, job.vc, job.priority, job.pods, "GPU", preempt=False))
        if isinstance(placed, Placed):
            places[job] = [leaf for pod in placed.pods for leaf in pod]
            assert cells.take(job, job.vc, job.priority, places[job])
        if places and random.random() < 0.3:
            gone = random.choice(sorted(places, key=lambda each: each.number))
            cells.give(gone)
            del places[gone]
    return places


def _check_counts(cells: Cells) -> None:
    """Check that counts match, and that none is below 0."""
    ground, physical = cells.ground, cells.topology.physical
    for name, levels in cells.topology.by_level.items():
        for level, members in enumerate(levels):
            free = [cell for cell in members if ground.is_free(cell)]
            assert ground.left[name][level] == len(free)
            assert set(ground.free[name][level]) <= set(free)
            assert min(ground.left[name][level], ground.promised[name][level]) >= 0
            whole = {cell for cell in members if ground.in_free[cell]}
            assert whole == set(ground.free[name][level])
            for cell in whole:  # buddies merge
                parent = physical.parent[cell]
                assert parent == NONE or not all(ground.in_free[child] for child in physical.children[parent])
    for virtual, cell in enumerate(ground.bound_to):
        assert cell == NONE or ground.bound[cell] == virtual
    for leaf, holders in cells.holders.items():
        assert ground.priority[leaf] == max(holders.values())


@settings(max_examples=examples(150))
@given(pools(), SEEDS)
def test_the_state_follows_from_what_is_held(config: CellConfig, seed: int) -> None:
    random, cells = Random(seed), Cells(config)
    places = _fill(cells, random, 15)
    _check_counts(cells)
    again = Cells(config)
    shuffled = list(places)
    random.shuffle(shuffled)
    for job in shuffled:
        assert again.take(job, job.vc, job.priority, places[job])
    assert _state(again) == _state(cells)


@settings(max_examples=examples(60))
@given(pools(), SEEDS)
def test_placing_changes_nothing_and_giving_back_restores_all(config: CellConfig, seed: int) -> None:
    random, cells = Random(seed), Cells(config)
    places = _fill(cells, random, 8)
    before = _state(cells.copy())
    more = _fill(cells, random, 8, first=100)
    for job in more:
        cells.give(job)
    # Opportunistic jobs of the second round may have been placed beside those of the first, never instead.
    assert _state(cells) == before
    for job in places:
        cells.give(job)
    assert _state(cells) == _state(Cells(config))


@settings(max_examples=examples(60))
@given(pools(), SEEDS)
def test_a_lazy_victim_is_as_before_after_a_placement_that_was_only_asked_for(config: CellConfig, seed: int) -> None:
    random, cells = Random(seed), Cells(config)
    for job, leaves in _fill(cells, random, 12).items():
        cells.give(job)
        assert cells.take(job, job.vc, job.priority, leaves, lazy=True)
    for node in random.sample(cells.topology.all_nodes, k=len(cells.topology.all_nodes) // 2):
        cells.set_healthy(node, healthy=False)
    before = _state(cells.copy())
    for number in range(10):
        job = trial(config, random, number)
        placed = cells.place(Want("asked", job.vc, job.priority + 1, job.pods, "GPU"))
        assert _state(cells) == before
        if isinstance(placed, Placed):
            trying = cells.copy()
            for group in placed.demotes:
                trying.demote(group)
            assert trying.take("asked", job.vc, job.priority + 1, [leaf for pod in placed.pods for leaf in pod])


@settings(max_examples=examples(60))
@given(pools(), SEEDS)
def test_groups_keep_their_gpus_whatever_happens_to_cells(config: CellConfig, seed: int) -> None:
    random, groups = Random(seed), Groups(config)
    for number in range(25):
        job = trial(config, random, number)
        raised = 2 if job.priority >= 0 and random.random() < 0.3 else 0
        first = Pod(
            "", f"g{number}", members_of((1, size) for size in job.pods), 1, job.vc, job.priority + raised, "GPU"
        )
        first = replace(first, lazy=random.random() < 0.5)
        pods = [replace(first, name=f"{number}-{at}", gpus=size) for at, size in enumerate(job.pods)]
        before = _held(groups)
        answers = [groups.schedule(pod, reserves=random.random() < 0.8) for pod in pods]
        assert {name: leaves for name, leaves in _held(groups).items() if name in before} == {
            name: leaves for name, leaves in before.items() if name in groups.groups
        }
        bound = {(answer.node, leaf) for answer in answers if isinstance(answer, Bound) for leaf in answer.leaves}
        assert len(bound) == sum(len(answer.leaves) for answer in answers if isinstance(answer, Bound))
        lot = random.random()
        if lot < 0.3:
            groups.delete(random.choice(sorted(groups.groups) or ["none"]))
        elif lot < 0.5:
            node = random.choice(groups.cells.topology.all_nodes)
            groups.set_healthy(node, node in groups.cells.ground.bad_nodes)
        elif lot < 0.6:
            before = {
                name: leaves
                for name, leaves in _held(groups).items()
                if groups.groups[name].state is not GroupState.PREEMPTING
            }
            clusters = dict(config.clusters)
            clusters[random.choice(sorted(clusters))] = type(clusters["vc0"])()
            groups.reconfigure(config.assign(clusters if random.random() < 0.5 else config.clusters))
            assert _held(groups) == before
        _check_one_user_a_gpu(groups)
    for name in sorted(groups.groups):
        groups.delete(name)
    for node in sorted(groups.cells.ground.bad_nodes):
        groups.set_healthy(node, healthy=True)
    ground = groups.cells.ground
    assert not groups.cells.holders
    assert all(cell == NONE for cell in ground.bound)
    assert {name: sorted(levels[-1]) for name, levels in ground.free.items()} == groups.cells.topology.tops


def _held(groups: Groups) -> dict[str, set[int]]:
    return {str(name): set(hold.leaves) for name, hold in groups.cells.holds.items()}


def _check_one_user_a_gpu(groups: Groups) -> None:
    for holders in groups.cells.holders.values():
        states = [groups.groups[str(name)].state for name in holders]
        assert states.count(GroupState.PREEMPTING) <= 1
        assert len(states) - states.count(GroupState.PREEMPTING) <= 1
