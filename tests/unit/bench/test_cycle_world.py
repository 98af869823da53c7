"""The cluster on which a decision is timed."""

from __future__ import annotations

from bench.cycle import make_snapshot, measure_snapshot
from bench.policies import make_mixture
from scheduler.engine.cycle import CycleConfig, decide


def test_the_same_arguments_make_the_same_cluster() -> None:
    assert make_snapshot(taken_share=0.5, nodes=20, waiting=50) == make_snapshot(taken_share=0.5, nodes=20, waiting=50)


def test_the_share_of_taken_gpus_is_the_one_asked_for() -> None:
    snapshot = make_snapshot(taken_share=0.5, nodes=20, waiting=0)
    assert len(snapshot.holders_of_gpu) == 20 * 8 // 2


def test_nothing_is_placed_on_a_full_cluster_and_something_on_an_empty_one() -> None:
    full, empty = (make_snapshot(taken_share=share, nodes=60, waiting=100) for share in (1.0, 0.0))
    assert not decide(full, CycleConfig()).places
    assert decide(empty, CycleConfig()).places


def test_the_jobs_that_wait_are_not_the_ones_that_run() -> None:
    snapshot = make_snapshot(taken_share=1.0, nodes=20, waiting=50)
    assert not {job.id for job in snapshot.waiting} & {running.job_id for running in snapshot.running}


def test_it_times_as_often_as_it_is_told() -> None:
    clock_ms, processor_ms = measure_snapshot(make_snapshot(taken_share=0.0, nodes=5, waiting=5), samples=3)
    assert len(clock_ms) == len(processor_ms) == 3


def test_the_mixture_leaves_64_gpus_free_and_holds_each_other_one_once() -> None:
    mixture = make_mixture()
    held = [gpu_id for run in mixture.running for share in run.allocations for gpu_id in share.gpu_ids]
    assert len(held) == len(set(held)) == len(mixture.gpu_by_id) - 64
    assert {run.gpus for run in mixture.running} == {1, 2, 4, 8}
