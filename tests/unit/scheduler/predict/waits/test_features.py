"""The features of a wait: one function for traces and for a live pool, and nothing from the future."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scheduler.predict.waits import QueueState, WaitJob, kind_of
from scheduler.predict.waits.features import NAMES, features, named_features
from scheduler.predict.waits.plan import MAX_PLANNED, planned_s
from scheduler.predict.waits.replay import replay, rows_of
from tests.unit.scheduler.predict.waits.traces import trace


def _known_at(job: WaitJob, now: float) -> WaitJob:
    """The job as a pool's database shows it at this moment."""
    started, ended = job.started_at <= now, job.ended_at <= now
    return replace(
        job, started_at=job.started_at if started else math.nan, ended_at=job.ended_at if ended else math.nan
    )


def test_a_trace_and_a_live_pool_give_the_same_row_for_the_same_moment() -> None:
    jobs = list(trace(200))
    for index, state in replay(jobs):
        if index % 20 == 0:
            now = jobs[index].eligible_at
            live = QueueState.of(now, [_known_at(job, now) for job in jobs[:index]], state.gpus)
            np.testing.assert_allclose(
                features(live, jobs[index]), features(state, jobs[index]), rtol=1e-12, err_msg=str(index)
            )


def test_a_row_does_not_change_when_the_future_does() -> None:
    jobs = list(trace(200))
    rows = rows_of(jobs)
    cut = 120
    now = jobs[cut].eligible_at
    other = [
        replace(
            job,
            started_at=job.started_at if job.started_at <= now else job.started_at + 1e5,
            ended_at=job.ended_at if job.ended_at <= now else job.ended_at + 3e5,
        )
        for job in jobs
    ]
    np.testing.assert_array_equal(rows_of(other)[: cut + 1], rows[: cut + 1])


def test_the_queue_of_a_virtual_cluster_an_owner_and_a_class_is_told_apart() -> None:
    waiting = [
        WaitJob(owner=1, gpus=2, eligible_at=0, vc=1, limit_s=60),
        WaitJob(owner=2, gpus=4, eligible_at=50, vc=2, job_class=1.0, limit_s=600),
    ]
    running = WaitJob(owner=1, gpus=8, eligible_at=0, started_at=10, limit_s=100)
    state = QueueState.of(100.0, [*waiting, running], {-1: 10.0})
    row = named_features(state, WaitJob(owner=1, gpus=3, eligible_at=100, vc=1, limit_s=300))
    assert row["waiting"] == 2
    assert row["waiting_vc_gpus"] == row["own_waiting_gpus"] == 2
    assert row["ahead_higher"] == row["waiting_easier"] == 1
    assert row["free"] == 2
    assert row["enough_by_limit"] == pytest.approx(math.log1p(10))
    assert row["oldest_easier"] == pytest.approx(math.log1p(100))


def test_jobs_of_another_gpu_type_do_not_count() -> None:
    other = WaitJob(owner=1, gpus=2, eligible_at=0, gpu_type=7)
    state = QueueState.of(100.0, [other, replace(other, started_at=5)], {1: 4.0, 7: 8.0, -1: 12.0})
    row = named_features(state, WaitJob(owner=1, gpus=3, eligible_at=100, gpu_type=1))
    assert (row["waiting"], row["running"], row["free"]) == (0, 0, 4)


def test_no_history_unknown_limits_and_clocks_that_jump_give_a_row() -> None:
    strange = [
        WaitJob(owner=1, gpus=1, eligible_at=500, started_at=50),
        WaitJob(owner=1, gpus=1, eligible_at=60, started_at=50, ended_at=10),
        WaitJob(owner=1, gpus=1, eligible_at=10),
    ]
    for jobs in ([], strange):
        row = features(QueueState.of(100.0, jobs, {}), WaitJob(owner=1, gpus=1, eligible_at=100))
        assert row.shape == (len(NAMES),)
        assert not (row < 0).any()


def test_jobs_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order of their eligible times"):
        rows_of(list(trace(20))[::-1])


def test_a_job_that_leaves_the_queue_without_a_start_waits_no_longer() -> None:
    gone = WaitJob(owner=1, gpus=1, eligible_at=0, ended_at=10)
    later = WaitJob(owner=1, gpus=1, eligible_at=20, started_at=20)
    assert [len(state.waiting) for _, state in replay([gone, later])] == [0, 0]
    assert len(QueueState.of(20.0, [gone], {}).waiting) == 0


def test_names_that_differ_in_numbers_alone_are_of_one_kind() -> None:
    assert kind_of(1, "run-7") == kind_of(1, "run-8")
    assert len({kind_of(1, "run-7"), kind_of(2, "run-7"), kind_of(1, "walk-7")}) == 3


def _plan(
    free: float, running: list[tuple[float, float]], ahead: list[tuple[float, float]], job: tuple[float, float]
) -> float:
    columns = [np.array(rows, dtype=float).reshape(-1, 2).T for rows in (running, ahead)]
    return planned_s(free, (columns[0][0], columns[0][1]), (columns[1][0], columns[1][1]), job)


def test_a_job_fills_a_hole_of_the_plan_only_if_it_delays_none_before_it() -> None:
    running, ahead = [(100.0, 6.0)], [(8.0, 50.0)]
    assert _plan(2, running, ahead, (2, 100)) == 0.0
    assert _plan(2, running, ahead, (2, 101)) == 150.0
    assert _plan(2, running, ahead, (4, 10)) == 150.0
    assert _plan(2, running, [], (4, 10)) == 100.0


def test_a_plan_without_an_end_or_with_too_many_jobs_says_so() -> None:
    assert _plan(2, [(math.inf, 6.0)], [], (4, 10)) == math.inf
    assert _plan(2, [(10.0, 6.0)], [(8.0, math.inf)], (1, 10)) == 0.0
    assert _plan(2, [(10.0, 6.0)], [(8.0, math.inf)], (1, 11)) == math.inf
    assert math.isnan(_plan(2, [], [(1.0, 1.0)] * (MAX_PLANNED + 1), (1, 1)))
