"""Order of the shortest remaining time first, and its preemptions."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Running
from scheduler.policies.srtf import Srtf
from tests.unit.scheduler.driving import carried_out, later, running
from tests.unit.scheduler.factories import NOW, make_job, make_running, make_share, make_snapshot

SRTF = CycleConfig(policy="srtf")


def wants(job_id: int, left_s: float | None, **fields: Any) -> Job:
    return make_job(job_id, gpus=8, expected_s=left_s, remaining_s=left_s, **fields)


def runs(job: Job, for_s: float) -> Running:
    return replace(make_running(make_share(1, range(8)), attempt_id=job.id, job=job), placed_at=NOW - for_s)


# Node 1 is held as a whole, and job 1 wants all of it.
GIVES_WAY: dict[str, tuple[Job, Running, dict[str, Any], bool]] = {
    "to one with less left": (wants(1, 50), runs(wants(90, 100), 40), {}, True),
    "not to one with more left, by now": (wants(1, 70), runs(wants(90, 100), 40), {}, False),
    "not to one with as much left that came later": (
        wants(1, 60, submitted_at=9.0),
        runs(wants(90, 100, submitted_at=8.0), 40),
        {},
        False,
    ),
    "not to one with as much left when it has just begun, whatever is rounded": (
        wants(1, 14302.06, submitted_at=9.0),
        runs(wants(90, 14302.06, submitted_at=8.0), 0),
        {},
        False,
    ),
    "not when it has run for longer than was predicted": (wants(1, 1), runs(wants(90, 100), 400), {}, False),
    "when nothing is predicted of it": (wants(1, 9999), runs(wants(90, None), 400), {}, True),
    "not to one of which nothing is predicted": (wants(1, None), runs(wants(90, 9999), 0), {}, False),
    "to an unpredicted one taken to be short": (wants(1, None), runs(wants(90, 9999), 0), {"unknown_s": 60}, True),
    "not before it has had its time": (wants(1, 50), runs(wants(90, 100), 40), {"min_run_s": 41}, False),
    "not if it may not be preempted": (wants(1, 50), runs(wants(90, 100, preemptible=False), 40), {}, False),
}


@pytest.mark.parametrize(("job", "run", "params", "gives_way"), GIVES_WAY.values(), ids=GIVES_WAY)
def test_a_running_job_gives_way(job: Job, run: Running, params: dict[str, Any], gives_way: bool) -> None:
    plan = decide(make_snapshot(running=[run], waiting=[job]), CycleConfig(policy="srtf", policy_params=params))
    assert [preempt.job_id for preempt in plan.preempts] == ([90] if gives_way else [])


def test_a_preempted_job_goes_on_where_it_was_and_one_without_checkpoints_begins_anew() -> None:
    for checkpoints, left_s in ((True, 60.0), (False, 100.0)):
        world = make_snapshot(running=[runs(wants(90, 100, checkpoints=checkpoints), 40)], waiting=[wants(1, 50)])
        world = carried_out(world, SRTF)
        assert running(world) == {1}
        assert world.waiting[0].remaining_s == left_s
        assert running(carried_out(later(world, NOW + 50, ended=[1]), SRTF)) == {90}


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 400)), min_size=2, max_size=6),
    st.integers(0, 1000),
)
def test_running_jobs_keep_their_order_over_time(drawn: list[tuple[int, int]], after_s: int) -> None:
    policy = Srtf(unknown_s=100)
    attempts = [runs(wants(job_id, left_s or None), for_s) for job_id, (left_s, for_s) in enumerate(drawn, start=1)]
    by_key = sorted(attempts, key=lambda run: policy.running_key(run, NOW + after_s))
    assert by_key == sorted(attempts, key=lambda run: policy.preemption_key(run, NOW))
