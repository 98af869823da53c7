"""Which units share a transaction: those that take nothing from anybody, a few at a time, by virtual cluster."""

from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch.units import ALLOCATIONS_AT_ONCE, UNITS_AT_ONCE, Unit, batches_of
from scheduler.model import Snapshot
from scheduler.plan import Place, Preempt
from tests.unit.scheduler.factories import make_job, make_share, make_snapshot, make_vc


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


def test_those_of_one_virtual_cluster_follow_each_other_in_the_order_of_the_plan() -> None:
    found = batches_of(pool(2, 1, 2, 1, 3), [alone(number) for number in range(1, 6)])
    assert ids(list(found)) == [[1, 3, 2, 4, 5]]


def test_there_are_not_too_many_at_once() -> None:
    units = [alone(number) for number in range(1, UNITS_AT_ONCE + 3)]
    found = list(batches_of(pool(*[1] * len(units)), units))
    assert [len(batch) for batch in found] == [UNITS_AT_ONCE, 2]


def test_wide_gangs_count_by_their_nodes() -> None:
    units = [alone(1, nodes=ALLOCATIONS_AT_ONCE - 1), alone(2), alone(3), alone(4, nodes=ALLOCATIONS_AT_ONCE + 1)]
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
        assert len(batch) <= UNITS_AT_ONCE
        assert len(batch) == 1 or sum(len(unit.places[0].allocations) for unit in batch) <= ALLOCATIONS_AT_ONCE
