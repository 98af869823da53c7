"""Order of the least attained service, and jobs that alternate."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Running
from scheduler.policies.las import Las
from tests.unit.scheduler.driving import carried_out, later, running
from tests.unit.scheduler.factories import NOW, make_job, make_running, make_share, make_snapshot

LAS = CycleConfig(policy="las", policy_params={"quantum_s": 60})


def runs(for_s: float, gpus: int = 8, **fields: Any) -> Running:
    job = make_job(90, gpus=gpus, **fields)
    return replace(make_running(make_share(1, range(gpus)), attempt_id=90, job=job), placed_at=NOW - for_s)


def test_the_order_is_attained_service_then_submission() -> None:
    jobs = [make_job(1, attained_gpu_s=9.0), make_job(2), make_job(3, submitted_at=0.0), make_job(4, priority=9)]
    assert [job.id for job in Las().order(make_snapshot(waiting=jobs))] == [3, 2, 4, 1]


# Node 1 is held as a whole; the job wants all of it.
GIVES_WAY: dict[str, tuple[Job, Running, bool]] = {
    "to one that has had less": (make_job(1, gpus=8, attained_gpu_s=479.0), runs(60), True),
    "not to one that has had as much and came later": (make_job(1, gpus=8, attained_gpu_s=480.0), runs(60), False),
    "not before its quantum is over": (make_job(1, gpus=8), runs(59), False),
    "what it had before counts": (make_job(1, gpus=8, attained_gpu_s=999.0), runs(60, attained_gpu_s=600.0), True),
}


@pytest.mark.parametrize(("job", "run", "gives_way"), GIVES_WAY.values(), ids=GIVES_WAY)
def test_a_running_job_gives_way(job: Job, run: Running, gives_way: bool) -> None:
    run = replace(run, job=replace(run.job, submitted_at=0.0))
    plan = decide(make_snapshot(running=[run], waiting=[job]), LAS)
    assert [preempt.job_id for preempt in plan.preempts] == ([90] if gives_way else [])


def test_two_equal_jobs_alternate_once_a_quantum() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=8), make_job(2, gpus=8)])
    seen = []
    for second in range(0, 300, 10):
        world = carried_out(later(world, NOW + second), LAS)
        seen += sorted(running(world))
    assert "".join(map(str, seen)) == ("1" * 6 + "2" * 6) * 2 + "1" * 6


WAKES = {"in its first quantum": (10, NOW + 50), "at its end": (60, NOW + 60), "in its third": (150, NOW + 30)}


@pytest.mark.parametrize(("for_s", "at"), WAKES.values(), ids=WAKES)
def test_it_asks_to_be_woken_at_the_end_of_each_quantum(for_s: float, at: float) -> None:
    run = runs(for_s)
    assert Las(quantum_s=60).next_change(run.job, run, NOW) == at
    assert Las(quantum_s=60).next_change(run.job, None, NOW) is None
