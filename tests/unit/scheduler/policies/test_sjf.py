"""Order of the shortest job first."""

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.policies.sjf import Sjf
from tests.unit.scheduler.factories import make_job, make_running, make_share, make_snapshot

JOBS = [
    make_job(1, expected_s=300.0),
    make_job(2, gpus=8, expected_s=100.0),
    make_job(3, expected_s=None),
    make_job(4, expected_s=100.0, submitted_at=0.0),
    make_job(5, expected_s=200.0, remaining_s=1.0, priority=9),
]


def test_the_order_is_the_predicted_run_time_then_submission() -> None:
    assert [job.id for job in Sjf().order(make_snapshot(waiting=JOBS))] == [4, 2, 5, 1, 3]


def test_a_job_of_which_nothing_is_predicted_may_stand_elsewhere() -> None:
    assert [job.id for job in Sjf(unknown_s=250).order(make_snapshot(waiting=JOBS))] == [4, 2, 5, 3, 1]


def test_no_job_is_preempted() -> None:
    held = [make_running(make_share(1, range(8)), expected_s=9999.0, remaining_s=9999.0)]
    plan = decide(make_snapshot(running=held, waiting=JOBS), CycleConfig(policy="sjf"))
    assert not plan.places
    assert not plan.preempts
