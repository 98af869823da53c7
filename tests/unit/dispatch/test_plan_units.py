"""Places and preemptions of one unit, and units that share a transaction."""

from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch.apply.plan_units import MAX_ALLOCATIONS_PER_BATCH, MAX_UNITS_PER_BATCH, Unit, batches_of, units_of
from scheduler.admission.quota import Quota
from scheduler.model import Snapshot
from scheduler.model.plan import Place, Plan, Preempt
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot, make_vc


def pool(*vc_ids: int) -> Snapshot:
    """A pool in which job 1 is of the first of these virtual clusters, and so on."""
    return make_snapshot(
        vcs=[make_vc(vc_id, f"vc{vc_id}") for vc_id in sorted(set(vc_ids))],
        waiting=[make_job(number, vc_id=vc_id) for number, vc_id in enumerate(vc_ids, start=1)],
    )


def alone(job_id: int, *, nodes: int = 1) -> Unit:
    return Unit((Place(job_id, tuple(make_share(node, rank=node - 1) for node in range(1, nodes + 1))),))


def stops_another(job_id: int) -> Unit:
    return Unit(alone(job_id).places, (Preempt(1000 + job_id, job_id, "it goes"),))


def ids(batches: list[list[Unit]]) -> list[list[int]]:
    return [[unit.places[0].job_id for unit in batch] for batch in batches]


def units_by_job(world: Snapshot, *places: Place, preempts: list[Preempt]) -> list[tuple[list[int], list[int]]]:
    """For each unit the ids of the jobs that are placed, and of those that are stopped."""
    units = units_of(world, Plan(places, (), preempts=tuple(preempts)), Quota())
    return [([one.job_id for one in unit.places], [one.job_id for one in unit.preempts]) for unit in units]


def test_a_place_that_needs_the_quota_of_a_victim_is_one_unit_with_it() -> None:
    victim = make_running(make_share(2, (0, 1)))
    world = make_snapshot(
        nodes=[make_node(1), make_node(2)],
        waiting=[make_job(1), make_job(2)],
        running=[victim],
        vcs=[make_vc(quotas={"A100": 2})],
    )
    first, second = (Place(number, (make_share(1, (number,)),)) for number in (1, 2))
    found = units_by_job(world, first, second, preempts=[Preempt(victim.job.id, 1, "it goes")])
    assert found == [([1, 2], [victim.job.id])]


def test_places_that_need_one_victim_in_common_are_one_unit() -> None:
    here, there = (make_running(make_share(node, (0, 1)), attempt_id=node, vc_id=2) for node in (1, 2))
    world = make_snapshot(
        nodes=[make_node(1), make_node(2)],
        waiting=[make_job(1, nodes=2), make_job(2, vc_id=3), make_job(3, vc_id=4)],
        running=[here, there],
        vcs=[make_vc(vc_id, f"vc{vc_id}") for vc_id in (1, 2, 3, 4)],
    )
    gang = Place(1, (make_share(1, (0,)), make_share(2, (0,), rank=1)))
    beside, free = Place(2, (make_share(1, (1,)),)), Place(3, (make_share(1, (7,)),))
    preempts = [Preempt(run.job.id, 1, "it goes") for run in (here, there)]
    found = units_by_job(world, gang, beside, free, preempts=preempts)
    assert found == [([3], []), ([1, 2], [here.job.id, there.job.id])]


def test_those_of_one_virtual_cluster_follow_each_other_in_the_order_of_the_plan() -> None:
    found = batches_of(pool(2, 1, 2, 1, 3), [alone(number) for number in range(1, 6)])
    assert ids(list(found)) == [[1, 3, 2, 4, 5]]


def test_there_are_not_too_many_at_once() -> None:
    units = [alone(number) for number in range(1, MAX_UNITS_PER_BATCH + 3)]
    found = list(batches_of(pool(*[1] * len(units)), units))
    assert [len(batch) for batch in found] == [MAX_UNITS_PER_BATCH, 2]


def test_wide_gangs_count_by_their_nodes() -> None:
    units = [
        alone(1, nodes=MAX_ALLOCATIONS_PER_BATCH - 1),
        alone(2),
        alone(3),
        alone(4, nodes=MAX_ALLOCATIONS_PER_BATCH + 1),
    ]
    assert ids(list(batches_of(pool(1, 1, 1, 1), units))) == [[1, 2], [3], [4]]


def test_who_has_others_stopped_comes_last_and_alone() -> None:
    units = [stops_another(1), alone(2), stops_another(3), alone(4)]
    assert ids(list(batches_of(pool(1, 1, 1, 1), units))) == [[2, 4], [1], [3]]


def test_nothing_is_nothing() -> None:
    assert list(batches_of(pool(1), [])) == []


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 40), st.booleans()), max_size=60))
def test_each_unit_is_in_one_batch_and_no_batch_is_too_large(drawn: list[tuple[int, int, bool]]) -> None:
    units = [
        stops_another(number) if stops else alone(number, nodes=nodes)
        for number, (_, nodes, stops) in enumerate(drawn, start=1)
    ]
    batches = list(batches_of(pool(*[vc_id for vc_id, _, _ in drawn]), units))
    assert sorted(map(id, units)) == sorted(id(unit) for batch in batches for unit in batch)
    for batch in batches:
        assert len(batch) == 1 or not any(unit.preempts for unit in batch)
        assert len(batch) <= MAX_UNITS_PER_BATCH
        assert len(batch) == 1 or sum(len(unit.places[0].allocations) for unit in batch) <= MAX_ALLOCATIONS_PER_BATCH
