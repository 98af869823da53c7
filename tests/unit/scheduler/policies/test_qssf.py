"""Order of the quasi-shortest service first."""

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.policies.qssf import Qssf
from tests.unit.scheduler.factories import make_job, make_running, make_share, make_snapshot

JOBS = [
    make_job(1, gpus=1, expected_s=300.0),
    make_job(2, gpus=4, expected_s=100.0),
    make_job(3, gpus=2, nodes=2, expected_s=90.0),
    make_job(4, gpus=0, expected_s=310.0),
    make_job(5, gpus=1, expected_s=None),
]


def test_the_order_is_the_predicted_service_of_the_whole_gang() -> None:
    assert [job.id for job in Qssf().order(make_snapshot(waiting=JOBS))] == [1, 4, 3, 2, 5]


def test_the_time_of_an_unpredicted_job_is_multiplied_by_its_gpus_as_well() -> None:
    assert [job.id for job in Qssf(unknown_s=305).order(make_snapshot(waiting=JOBS))] == [1, 5, 4, 3, 2]


def test_no_job_is_preempted() -> None:
    held = [make_running(make_share(1, range(8)), expected_s=9999.0)]
    plan = decide(make_snapshot(running=held, waiting=JOBS[:1]), CycleConfig(policy="qssf"))
    assert not plan.places
    assert not plan.preempts
