"""Screened jobs, their GPUs, and the meaning of a screening run's end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.failures import Category, Retry, Tail, Verdict, classify
from scheduler.diagnosis.screening import (
    MAX_RUNS,
    Judgement,
    Mode,
    Rules,
    ScreeningVerdict,
    Shape,
    Then,
    combined,
    full_gpu_s,
    identity_of,
    is_screened,
    judge,
    needs_gang,
    part_of,
    ranks_for,
    shape_for,
    spent_gpu_s,
)
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason
from scheduler.sim.times import CAUSES

RULES = Rules()


@pytest.mark.parametrize(
    ("of_job", "of_tenant", "holds"),
    [
        (Mode.AUTO, Mode.AUTO, Mode.AUTO),
        (Mode.NEVER, Mode.AUTO, Mode.NEVER),
        (Mode.ALWAYS, Mode.AUTO, Mode.ALWAYS),
        (Mode.NEVER, Mode.ALWAYS, Mode.ALWAYS),
        (Mode.ALWAYS, Mode.NEVER, Mode.NEVER),
    ],
)
def test_the_tenants_word_counts_and_where_it_has_none_the_jobs(of_job: Mode, of_tenant: Mode, holds: Mode) -> None:
    assert combined(of_job=of_job, of_tenant=of_tenant) is holds


def test_large_jobs_are_screened_and_with_always_all_of_several_gpus() -> None:
    assert [gpus for gpus in range(5) if is_screened(RULES, Mode.AUTO, gpus)] == [3, 4]
    assert [gpus for gpus in range(5) if is_screened(RULES, Mode.ALWAYS, gpus)] == [2, 3, 4]
    assert not any(is_screened(RULES, Mode.NEVER, gpus) for gpus in range(5))
    assert not is_screened(Rules(min_gpus=1), Mode.AUTO, 1)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"nodes": 4, "gpus": 8, "free": [1, 1]}, Shape(2, 1)),
        ({"nodes": 4, "gpus": 8, "free": [2, 0]}, Shape(1, 2)),
        ({"nodes": 1, "gpus": 4, "free": [1, 2]}, Shape(1, 2)),
        ({"nodes": 1, "gpus": 4, "free": [1, 1]}, Shape(1, 1)),
        ({"nodes": 4, "gpus": 8, "free": [1]}, Shape(1, 1)),
        ({"nodes": 4, "gpus": 8, "free": [4, 4], "world": 1}, Shape(1, 1)),
        ({"nodes": 4, "gpus": 8, "free": [0, 0]}, None),
        ({"nodes": 4, "gpus": 8, "free": []}, None),
    ],
)
def test_a_screening_run_has_two_ranks_where_two_gpus_are_free(case: dict[str, Any], expected: Shape | None) -> None:
    assert shape_for(**{"world": 2, **case}) == expected


@given(
    nodes=st.integers(1, 8),
    gpus=st.integers(1, 8),
    free=st.lists(st.integers(0, 4), max_size=6),
    world=st.sampled_from([1, 2]),
)
def test_a_screening_run_fits_the_free_gpus_and_is_never_larger_than_its_world(
    nodes: int, gpus: int, free: list[int], world: int
) -> None:
    shape = shape_for(nodes=nodes, gpus=gpus, free=free, world=world)
    assert (shape is None) == (sum(free) == 0)
    if shape is not None:
        assert shape.total <= ranks_for(sum(free), world)
        assert sum(count >= shape.gpus for count in free) >= shape.nodes
        assert shape.nodes == 1 or nodes > 1


def test_a_rank_gets_its_part_of_the_cpus_rounded_up_and_never_none() -> None:
    assert [part_of(16, gpus=1, of=8), part_of(3, gpus=1, of=8), part_of(16, gpus=2, of=1)] == [2, 1, 16]


def test_what_runs_the_same_is_the_same_whatever_its_run_is_called() -> None:
    same: dict[str, Any] = {"image": "i", "command": "train", "code": "c", "workdir": "/w"}
    name = identity_of(**same, env={"LR": "1", "WANDB_NAME": "monday", "NCCL_DEBUG": "INFO"})
    assert name == identity_of(**same, env={"WANDB_NAME": "tuesday", "LR": "1", "RUN_NAME": "x"})
    assert name != identity_of(**same, env={"LR": "2"})
    for part in same:
        assert name != identity_of(**{**same, part: "another"}, env={"LR": "1"})
    with_data = identity_of(**same, env={"LR": "1"}, mounts=["a:/a:ro", "b:/b:ro"])
    assert with_data == identity_of(**same, env={"LR": "1"}, mounts=["b:/b:ro", "a:/a:ro"])
    for others in ([], ["a:/a:ro"], ["a:/a:ro", "b:/b:rw"], ["a:/a:ro", "c:/b:ro"]):
        assert with_data != identity_of(**same, env={"LR": "1"}, mounts=others)


def verdict(failure: str, retry: Retry, line: str = "") -> Verdict:
    return Verdict(failure=failure, category=Category.USER, retry=retry, confidence=0.9, line=line, hint="")


def end(ended_as: AttemptState, reason: Reason, failure: Verdict | None = None, **fields: Any) -> Judgement:
    return judge(ended_as=ended_as, reason=reason, failure=failure, **{"tries": 1, **fields})


BY_ITSELF = (AttemptState.FAILED, Reason.EXIT_NONZERO)
PASSED, FAILED = (ScreeningVerdict.PASSED, Then.GO_ON), (ScreeningVerdict.FAILED, Then.FAIL)
SAYS_NOTHING, AGAIN = (ScreeningVerdict.INCONCLUSIVE, Then.GO_ON), (ScreeningVerdict.INTERRUPTED, Then.AGAIN)


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ((AttemptState.CANCELLED, Reason.SCREENING_PASSED), PASSED),
        ((AttemptState.FAILED, Reason.TIME_LIMIT), PASSED),
        ((AttemptState.SUCCEEDED, Reason.COMPLETED), SAYS_NOTHING),
        ((*BY_ITSELF, verdict("import_error", Retry.NO)), FAILED),
        ((*BY_ITSELF, verdict("no_signature", Retry.MAYBE)), FAILED),
        ((*BY_ITSELF, None), FAILED),
        ((AttemptState.FAILED, Reason.IMAGE_NOT_FOUND), FAILED),
        ((AttemptState.FAILED, Reason.COMMAND_NOT_FOUND), FAILED),
        ((*BY_ITSELF, verdict("nccl_timeout", Retry.YES)), SAYS_NOTHING),
        ((*BY_ITSELF, verdict("rendezvous_error", Retry.YES)), SAYS_NOTHING),
        ((*BY_ITSELF, verdict("gpu_out_of_memory", Retry.NO)), SAYS_NOTHING),
        ((AttemptState.FAILED, Reason.OUT_OF_MEMORY, verdict("cpu_out_of_memory", Retry.NO)), SAYS_NOTHING),
        ((*BY_ITSELF, verdict("semantic_error", Retry.NO, "AssertionError: world_size 16 != 1")), SAYS_NOTHING),
        ((*BY_ITSELF, verdict("cuda_init_failed", Retry.NO, "CUDA error: invalid device ordinal")), SAYS_NOTHING),
        ((*BY_ITSELF, verdict("connection_error", Retry.YES)), AGAIN),
        ((*BY_ITSELF, verdict("gpu_ecc_error", Retry.ELSEWHERE)), AGAIN),
        ((AttemptState.LOST, Reason.NODE_LOST, verdict("node_lost", Retry.YES)), AGAIN),
        ((AttemptState.FAILED, Reason.NOT_CLAIMED), AGAIN),
        ((AttemptState.PREEMPTED, Reason.PREEMPTED), AGAIN),
        ((AttemptState.PREEMPTED, Reason.REQUEUED_BY_USER), AGAIN),
        ((AttemptState.FAILED, Reason.GPU_FAILED), AGAIN),
    ],
    ids=str,
)
def test_the_verdict_of_a_screening_run(ended: tuple[Any, ...], expected: tuple[ScreeningVerdict, Then]) -> None:
    found = end(*ended)
    assert (found.verdict, found.then) == expected


def test_a_job_whose_runs_are_interrupted_each_time_goes_on_unscreened() -> None:
    assert end(AttemptState.LOST, Reason.NODE_LOST, tries=MAX_RUNS).then is Then.GO_ON
    assert end(*BY_ITSELF, verdict("no_signature", Retry.MAYBE), by_node=True).then is Then.AGAIN


@given(
    ended_as=st.sampled_from([*AttemptState]),
    reason=st.sampled_from([*Reason]),
    retry=st.sampled_from([*Retry]),
    failure=st.sampled_from(["nccl_timeout", "import_error", "gpu_lost", "no_signature"]),
    tries=st.integers(1, 10),
    by_node=st.booleans(),
)
def test_only_a_failure_of_the_job_fails_it_and_no_job_is_screened_for_ever(
    *, ended_as: AttemptState, reason: Reason, retry: Retry, failure: str, tries: int, by_node: bool
) -> None:
    found = judge(ended_as=ended_as, reason=reason, failure=verdict(failure, retry), tries=tries, by_node=by_node)
    assert (found.then is Then.FAIL) == (found.verdict is ScreeningVerdict.FAILED)
    if found.then is Then.FAIL:
        assert not by_node
        assert retry in {Retry.NO, Retry.MAYBE}
        assert failure != "nccl_timeout"
    assert found.then is not Then.AGAIN or tries < MAX_RUNS


def test_a_collective_that_times_out_needs_its_gang_by_the_classifiers_own_name() -> None:
    words = b"[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE)\n"
    assert needs_gang(classify([Tail(data=words)], status=134).failure)


def test_the_simulator_and_the_rules_agree_on_what_needs_a_gang() -> None:
    assert {cause.name for cause in CAUSES if cause.gang} == {cause.name for cause in CAUSES if needs_gang(cause.name)}


def test_gpu_seconds_are_never_negative() -> None:
    assert (spent_gpu_s(gpus=2, held_s=10), full_gpu_s(gpus_asked=32, failed_after_s=10)) == (20, 320)
    assert (spent_gpu_s(gpus=2, held_s=-1), full_gpu_s(gpus_asked=32, failed_after_s=-1)) == (0, 0)


@pytest.mark.parametrize(
    "wrong", [{"minutes": 0}, {"min_gpus": 0}, {"world": 3}, {"max_wait_s": -1}, {"trust_days": -1}], ids=str
)
def test_rules_without_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} cannot be"):
        Rules(**wrong)
