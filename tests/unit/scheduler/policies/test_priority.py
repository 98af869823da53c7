"""Order of priorities, and preemptions that they allow."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Running
from scheduler.policies.priority import Priority
from tests.unit.scheduler.driving import carried_out, later, running
from tests.unit.scheduler.factories import NOW, asking, make_job, make_running, make_share, make_snapshot


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="priority", policy_params=params)


def runs(job_id: int, gpus: range, for_s: float, **fields: Any) -> Running:
    job = make_job(job_id, gpus=len(gpus), **fields)
    return replace(make_running(make_share(1, gpus), attempt_id=job_id, job=job), placed_at=NOW - for_s)


def test_the_order_is_priority_then_submission_then_id() -> None:
    jobs = [
        make_job(1, submitted_at=30.0),
        make_job(2, submitted_at=20.0),
        make_job(3, submitted_at=20.0),
        make_job(4, submitted_at=99.0, priority=5),
    ]
    assert [job.id for job in Priority().order(make_snapshot(waiting=jobs))] == [4, 2, 3, 1]


HIGH = make_job(1, gpus=4, priority=2)
LOW, EQUAL = runs(90, range(4), 99, priority=1), runs(91, range(4, 8), 9, priority=2)
VICTIMS: dict[str, tuple[Job, list[Running], dict[str, Any], list[int]]] = {
    "no job, by default": (HIGH, [LOW, EQUAL], {}, []),
    "who has a lower priority": (HIGH, [LOW, EQUAL], {"preemptive": True}, [90]),
    "never who has the same": (replace(HIGH, priority=1), [LOW, EQUAL], {"preemptive": True}, []),
    "not even if it came later": (
        replace(HIGH, priority=1, submitted_at=0.0),
        [replace(LOW, job=replace(LOW.job, submitted_at=NOW)), EQUAL],
        {"preemptive": True},
        [],
    ),
    "the lowest first": (
        HIGH,
        [LOW, runs(91, range(4, 8), 500, priority=0)],
        {"preemptive": True},
        [91],
    ),
    "of equals, who started last": (HIGH, [LOW, runs(91, range(4, 8), 9, priority=1)], {"preemptive": True}, [91]),
    "not who has run too short": (
        HIGH,
        [LOW, runs(91, range(4, 8), 9, priority=0)],
        {"preemptive": True, "min_run_s": 60},
        [90],
    ),
    "not who may not be preempted": (
        HIGH,
        [LOW, runs(91, range(4, 8), 9, priority=0, preemptible=False)],
        {"preemptive": True},
        [90],
    ),
    "no job in vain": (asking(HIGH, gpus=8), [LOW, EQUAL], {"preemptive": True}, []),
}


@pytest.mark.parametrize(("job", "held", "params", "expected"), VICTIMS.values(), ids=VICTIMS)
def test_whose_gpus_a_job_takes(job: Job, held: list[Running], params: dict[str, Any], expected: list[int]) -> None:
    plan = decide(make_snapshot(running=held, waiting=[job]), config(**params))
    assert [preempt.job_id for preempt in plan.preempts] == expected
    assert [place.job_id for place in plan.places] == ([1] if expected else [])


def test_a_preempted_job_comes_back_when_the_higher_one_has_ended() -> None:
    preemptive = config(preemptive=True)
    world = carried_out(make_snapshot(running=[LOW, EQUAL], waiting=[HIGH]), preemptive)
    assert running(world) == {1, 91}
    assert running(carried_out(later(world, NOW + 10), preemptive)) == {1, 91}
    world = carried_out(later(world, NOW + 20, ended=[1]), preemptive)
    assert running(world) == {90, 91}


def test_it_asks_to_be_woken_when_a_running_job_may_go() -> None:
    policy = Priority(preemptive=True, min_run_s=60)
    assert policy.next_change(EQUAL.job, EQUAL, NOW) == NOW + 51
    assert policy.next_change(LOW.job, LOW, NOW) is None
    assert Priority(min_run_s=60).next_change(EQUAL.job, EQUAL, NOW) is None
