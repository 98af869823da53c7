"""Decisions of a cycle, and its forecast for a job that is not submitted yet."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import CycleConfig, Forecast, decide, forecast
from scheduler.model import Job, Snapshot
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Place, Plan
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc


def test_an_empty_pool_has_an_empty_plan() -> None:
    assert decide(make_snapshot(nodes=[]), CycleConfig()) == Plan((), ())


def test_a_job_is_placed_with_all_that_it_asked_for() -> None:
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=[make_job(gpus=8, nodes=2, cpus=4, memory_mib=9)])
    every = range(8)
    shares = make_share(1, every, cpus=4, memory_mib=9), make_share(2, every, rank=1, cpus=4, memory_mib=9)
    assert decide(world, CycleConfig()) == Plan((Place(1, shares),), ())


def test_a_job_without_gpus_needs_no_quota() -> None:
    world = make_snapshot(waiting=[make_job(gpus=0)], vcs=[make_vc(quotas={})])
    assert decide(world, CycleConfig()).places == (Place(1, (make_share(1, ()),)),)


MIXED = [make_node(1, gpus=4), make_node(2, gpu_type="V100")]
ANY_TYPE = {
    "the type with the most free GPUs": ({"A100": 8, "V100": 8}, 2, 2),
    "the type of which it has quota": ({"A100": 8, "V100": 1}, 2, 1),
    "the type of which a node is large enough": ({"A100": 8, "V100": 8}, 5, 2),
}


@pytest.mark.parametrize(("quotas", "gpus", "node"), ANY_TYPE.values(), ids=ANY_TYPE)
def test_a_job_that_takes_any_type_gets(quotas: dict[str, int], gpus: int, node: int) -> None:
    world = make_snapshot(nodes=MIXED, waiting=[make_job(gpus=gpus, gpu_type=None)], vcs=[make_vc(quotas=quotas)])
    (place,) = decide(world, CycleConfig()).places
    assert [share.node_id for share in place.allocations] == [node]


def test_a_job_that_takes_any_type_gets_the_scarcer_one_when_the_other_is_full() -> None:
    full = make_running(make_share(2, range(8), cpus=64))
    world = make_snapshot(nodes=MIXED, running=[full], waiting=[make_job(gpu_type=None)])
    (place,) = decide(world, CycleConfig()).places
    assert place.allocations == (make_share(1),)


def test_a_virtual_cluster_may_use_its_whole_quota() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=2), make_job(2, gpus=2)], vcs=[make_vc(quotas={"A100": 4})])
    assert [place.job_id for place in decide(world, CycleConfig()).places] == [1, 2]


def test_the_quota_counts_what_the_same_plan_gives() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=2), make_job(2, gpus=2)], vcs=[make_vc(quotas={"A100": 3})])
    plan = decide(world, CycleConfig())
    assert [place.job_id for place in plan.places] == [1]
    assert plan.holds[0].reason is HoldReason.QUOTA


def test_a_cycle_starts_no_more_jobs_than_its_limit() -> None:
    world = make_snapshot(waiting=[make_job(job_id) for job_id in range(1, 6)])
    assert [place.job_id for place in decide(world, CycleConfig(max_places=2)).places] == [1, 2]


BUSY = make_snapshot(
    running=[make_running(make_share(1, range(6)))],
    waiting=[make_job(1, gpus=2)],
    vcs=[make_vc(quotas={"A100": 10})],
)
FORECASTS: dict[str, tuple[Job, Forecast, HoldReason | None]] = {
    "starts when it goes before the others": (make_job(0, priority=1), Forecast(True, True, True, None), None),
    "waits when the others take what is free": (
        make_job(0, submitted_at=NOW),
        Forecast(True, True, False, None),
        HoldReason.NO_FREE_GPUS,
    ),
    "waits for quota in use": (make_job(0, gpus=5, priority=1), Forecast(True, True, False, None), HoldReason.QUOTA),
    "does not fit the quota": (
        make_job(0, gpu_type=None, gpus=11),
        Forecast(False, False, False, None),
        HoldReason.INFEASIBLE,
    ),
    "fits the quota but not the pool": (make_job(0, gpus=9), Forecast(False, True, False, None), HoldReason.INFEASIBLE),
    "starts without GPUs, whatever the quota": (make_job(0, gpus=0, vc_id=9), Forecast(True, True, True, None), None),
    "takes the place of the job with its id": (
        make_job(1, submitted_at=NOW, gpus=1),
        Forecast(True, True, True, None),
        None,
    ),
}


@pytest.mark.parametrize(("job", "expected", "reason"), FORECASTS.values(), ids=FORECASTS)
def test_a_job_that_is_not_submitted_yet(job: Job, expected: Forecast, reason: HoldReason | None) -> None:
    found = forecast(BUSY, CycleConfig(), job)
    assert replace(found, hold=None) == expected
    assert (found.hold.reason if found.hold else None) == reason


def test_a_forecast_tells_a_quota_that_is_too_small_from_one_in_use() -> None:
    world: Snapshot = make_snapshot(vcs=[make_vc(quotas={"A100": 2})])
    found = forecast(world, CycleConfig(), make_job(0, gpus=4))
    assert (found.feasible, found.fits_quota, found.starts_now) == (True, False, False)
    assert found.hold is not None
    assert found.hold.reason is HoldReason.QUOTA_TOO_SMALL
    assert found.hold.position == 1


def test_a_forecast_for_a_pool_without_nodes_assumes_the_best() -> None:
    found = forecast(make_snapshot(nodes=[]), CycleConfig(), make_job(0, gpu_type=None))
    assert (found.feasible, found.fits_quota, found.starts_now) == (True, True, False)


def test_a_forecast_leaves_the_snapshot_as_it_was() -> None:
    forecast(BUSY, CycleConfig(), make_job(0))
    assert [job.id for job in BUSY.waiting] == [1]


# Two nodes; node 1 has all its GPUs but 4 CPUs and 4 GiB, node 2 has 4 GPUs and the rest of everything.
TIGHT = [
    make_running(make_share(1, (), cpus=60, memory_mib=508 * 1024), attempt_id=1),
    make_running(make_share(2, range(4)), attempt_id=2),
]
SMALLER = {
    "in GPUs": (make_job(1, gpus=5, cpus=8), make_job(2, gpus=4, cpus=8)),
    "in nodes": (make_job(1, gpus=5, nodes=2), make_job(2, gpus=5)),
    "in CPUs": (make_job(1, gpus=8, cpus=5), make_job(2, gpus=8, cpus=4)),
    "in memory": (make_job(1, gpus=8, memory_mib=5 * 1024), make_job(2, gpus=8, memory_mib=4 * 1024)),
}


@pytest.mark.parametrize(("larger", "smaller"), SMALLER.values(), ids=SMALLER)
def test_a_job_is_tried_after_a_larger_one_failed_when_it_is_smaller(larger: Job, smaller: Job) -> None:
    world = make_snapshot(nodes=[make_node(1), make_node(2)], running=TIGHT, waiting=[larger, smaller])
    assert [place.job_id for place in decide(world, CycleConfig()).places] == [2]
