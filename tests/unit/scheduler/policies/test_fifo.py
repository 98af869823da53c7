"""Order of FIFO, and jobs that may pass others."""

from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Plan
from scheduler.policies.fifo import Fifo
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy_params=params)


def placed(plan: Plan) -> list[int]:
    return [place.job_id for place in plan.places]


def held(plan: Plan) -> dict[int, HoldReason]:
    return {hold.job_id: hold.reason for hold in plan.holds}


def test_the_order_is_priority_then_submission_then_id() -> None:
    jobs = [
        make_job(1, submitted_at=30.0),
        make_job(2, submitted_at=20.0),
        make_job(3, submitted_at=20.0),
        make_job(4, submitted_at=99.0, priority=5),
        make_job(5, submitted_at=0.0, priority=-5),
    ]
    assert [job.id for job in Fifo().order(make_snapshot(waiting=jobs))] == [4, 2, 3, 1, 5]


# Node 1 has two of its eight A100 free: job 1, of four, cannot start, job 2, of one, could.
BLOCKED = make_snapshot(running=[make_running(make_share(1, range(6)))], waiting=[make_job(1, gpus=4), make_job(2)])


def test_later_jobs_pass_a_blocked_one_by_default() -> None:
    plan = decide(BLOCKED, config())
    assert placed(plan) == [2]
    assert held(plan) == {1: HoldReason.NO_FREE_GPUS}


def test_no_job_passes_a_blocked_head_in_strict_order() -> None:
    plan = decide(BLOCKED, config(skip_blocked=False))
    assert placed(plan) == []
    assert held(plan) == {1: HoldReason.NO_FREE_GPUS, 2: HoldReason.BEHIND_HEAD}
    assert plan.holds[1].detail == "job 1 is ahead and may not be passed"


def test_a_head_that_lacks_gpus_blocks_the_whole_pool_and_is_not_named_to_others() -> None:
    world = make_snapshot(
        running=[make_running(make_share(1, range(6)))],
        waiting=[make_job(1, gpus=4), make_job(2, vc_id=2)],
        vcs=[make_vc(1), make_vc(2, "speech")],
    )
    plan = decide(world, config(skip_blocked=False))
    assert held(plan) == {1: HoldReason.NO_FREE_GPUS, 2: HoldReason.BEHIND_HEAD}
    assert "another virtual cluster" in plan.holds[1].detail
    assert plan.holds[1].evidence == {}


def test_a_head_that_lacks_quota_blocks_its_own_virtual_cluster_only() -> None:
    world = make_snapshot(
        running=[make_running(make_share(1, (0,)))],
        waiting=[make_job(1, gpus=2), make_job(2), make_job(3, vc_id=2)],
        vcs=[make_vc(1, quotas={"A100": 2}), make_vc(2, "speech")],
    )
    plan = decide(world, config(skip_blocked=False))
    assert placed(plan) == [3]
    assert held(plan) == {1: HoldReason.QUOTA, 2: HoldReason.BEHIND_HEAD}


HARMLESS = {
    "one that can never run": make_job(1, gpus=9),
    "one that its quota can never hold": make_job(1, gpu_type="V100"),
    "one that backs off": make_job(1, gpus=4, eligible_at=NOW + 5),
    "one whose last attempt still stops": make_job(1, gpus=4, still_stopping=True),
}


@pytest.mark.parametrize("first", HARMLESS.values(), ids=HARMLESS)
def test_even_strict_order_waits_for_no_job_that_could_not_start_in_an_empty_pool(first: Any) -> None:
    world = make_snapshot(
        nodes=[make_node(1), make_node(2, gpu_type="V100")],
        running=[make_running(make_share(1, range(6)))],
        waiting=[first, make_job(2)],
        vcs=[make_vc(quotas={"A100": 100})],
    )
    assert placed(decide(world, config(skip_blocked=False))) == [2]


PATIENCE = {
    "more patience than it has waited": (600.0, 0.0, [2]),
    "as much as it has waited": (599.0, 0.0, []),
    "a back-off that ended lately does not count": (60.0, NOW - 59, [2]),
    "a back-off that ended long ago": (60.0, NOW - 60, []),
}


@pytest.mark.parametrize(("patience_s", "eligible_at", "expected"), PATIENCE.values(), ids=PATIENCE)
def test_a_job_is_passed_until_its_patience_is_over(patience_s: float, eligible_at: float, expected: list[int]) -> None:
    world = make_snapshot(
        running=[make_running(make_share(1, range(6)))],
        waiting=[make_job(1, gpus=4, eligible_at=eligible_at), make_job(2)],
    )
    assert placed(decide(world, config(patience_s=patience_s))) == expected
