"""Order of the shortest remaining service first, and its preemptions."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Running
from scheduler.policies.srsf import Srsf
from tests.unit.scheduler.factories import NOW, make_job, make_running, make_share, make_snapshot


def wants(job_id: int, gpus: int, left_s: float | None) -> Job:
    return make_job(job_id, gpus=gpus, expected_s=left_s, remaining_s=left_s)


def runs(job_id: int, gpus: range, left_s: float, for_s: float) -> Running:
    run = make_running(make_share(1, gpus), attempt_id=job_id, job=wants(job_id, len(gpus), left_s))
    return replace(run, placed_at=NOW - for_s)


def test_the_order_is_the_time_that_is_left_times_the_gpus() -> None:
    jobs = [wants(1, 8, 10), wants(2, 1, 79), wants(3, 2, 41), wants(4, 1, None), wants(5, 0, 1)]
    assert [job.id for job in Srsf().order(make_snapshot(waiting=jobs))] == [5, 2, 1, 3, 4]


# Of eight GPUs, two jobs hold four each; job 1 wants four, for 100 s.
GIVES_WAY: dict[str, tuple[list[Running], list[int]]] = {
    "who has the most service left": ([runs(90, range(4), 200, 0), runs(91, range(4, 8), 300, 0)], [91]),
    "what is left now counts": ([runs(90, range(4), 200, 0), runs(91, range(4, 8), 300, 150)], [90]),
    "no job with less left": ([runs(90, range(4), 90, 0), runs(91, range(4, 8), 300, 201)], []),
}


@pytest.mark.parametrize(("held", "expected"), GIVES_WAY.values(), ids=GIVES_WAY)
def test_who_gives_way(held: list[Running], expected: list[int]) -> None:
    plan = decide(make_snapshot(running=held, waiting=[wants(1, 4, 100)]), CycleConfig(policy="srsf"))
    assert [preempt.job_id for preempt in plan.preempts] == expected


def test_a_wide_job_overtakes_a_narrow_one_while_both_run() -> None:
    wide, narrow = runs(90, range(6), 100, 0), runs(91, range(6, 8), 250, 0)
    policy = Srsf()
    assert policy.running_key(wide, NOW) > policy.running_key(narrow, NOW)
    assert policy.running_key(wide, NOW + 50) < policy.running_key(narrow, NOW + 50)
    assert policy.aging_rate(wide) != policy.aging_rate(narrow)
