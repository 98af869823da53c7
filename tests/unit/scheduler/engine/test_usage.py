"""Resource usage that follows reported changes equals a fresh count."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.state import SchedulerState
from scheduler.engine.usage import CPUS, MEMORY_MIB, ResourceUsage
from scheduler.model import Running
from scheduler.model.lifecycle import AttemptState
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot

NODES = [make_node(1, gpus=8), make_node(2, gpus=8, gpu_type="V100")]


def run(number: int, *, owner: int = 1, vc: int = 1, stops: bool = False) -> Running:
    """Job `number`, on the GPU of each node with the index `number`."""
    job = make_job(number, nodes=2, owner_id=owner, vc_id=vc)
    made = make_running(make_share(1, [number]), make_share(2, [number], rank=1), attempt_id=number, job=job)
    return replace(made, state=AttemptState.STOPPING) if stops else made


RUNS = st.builds(run, st.integers(0, 5), owner=st.integers(1, 2), vc=st.integers(1, 2), stops=st.booleans())


@given(st.lists(st.tuples(RUNS, st.booleans())))
def test_reported_changes_give_the_same_usage_as_a_fresh_count(told: list[tuple[Running, bool]]) -> None:
    state, live = SchedulerState(make_snapshot(nodes=NODES)), dict[int, Running]()
    kept = state.resource_usage
    for one, goes in told:
        if goes:
            state.remove_running(one.job.id)
            live.pop(one.job.id, None)
        else:
            state.add_running(one)
            live[one.job.id] = one
        assert kept == ResourceUsage(make_snapshot(nodes=NODES, running=live.values()))
    assert kept.stopping_gpus == sum(one.gpus for one in live.values() if one.stopping)


def test_it_counts_by_owner_and_virtual_cluster() -> None:
    runs = [run(0), run(1), run(2, owner=2), run(3, vc=2)]
    found = {(job.owner_id, job.vc_id): held for job, held in ResourceUsage(make_snapshot(nodes=NODES, running=runs))}
    assert {owner: held["A100"] for owner, held in found.items()} == {(1, 1): 2, (2, 1): 1, (1, 2): 1}
    assert found[1, 1] == {"A100": 2, "V100": 2, CPUS: 4, MEMORY_MIB: 4096}


def test_a_state_that_missed_a_change_is_stale() -> None:
    snapshot = make_snapshot(nodes=NODES, running=[run(0)])
    state = SchedulerState(snapshot)
    assert len(list(state.resource_usage)) == 1
    assert not state.is_stale
    state.remove_running(0)
    assert state.is_stale


def test_a_stopping_job_holds_resources_and_is_not_preempted_again() -> None:
    state = SchedulerState(make_snapshot(nodes=NODES))
    assert not list(state.resource_usage)
    state.add_running(run(0, stops=True))
    assert [dict(held)["A100"] for _, held in state.resource_usage] == [1]
    assert state.resource_usage.stopping_gpus == 2
