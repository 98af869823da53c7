"""Forecast start and finish of a waiting job on each GPU type that it accepts, and its words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig
from scheduler.engine.finish import Finish, conclusion, finishes, in_words
from scheduler.model import Job, KnownRate, Rate, Reservation, Running
from scheduler.model.lifecycle import AttemptState
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

HOUR = 3600.0


def either(gpus: int = 4, *, a100: float | None = 20.0, v100: float | None = 10.0, **fields: Any) -> Job:
    """A job that prefers A100 and needs five hours there; it runs at these rates."""
    rates = tuple(
        KnownRate(kind, gpus, Rate(rate, rate / 10, "measured"))
        for kind, rate in (("A100", a100), ("V100", v100))
        if rate is not None
    )
    fields = {"remaining_s": 5 * HOUR, "rates": rates} | fields
    return make_job(1, gpu_type=None, gpu_types=("A100", "V100"), gpus=gpus, **fields)


def ending(node_id: int, gpus: range, hours: float | None, attempt_id: int) -> Running:
    """A job that holds these GPUs of a node and is expected to end in `hours`."""
    run = make_running(make_share(node_id, gpus), attempt_id=attempt_id)
    left_s = None if hours is None else hours * HOUR
    return replace(run, placed_at=NOW, job=replace(run.job, remaining_s=left_s))


def found(job: Job, *running: Running, config: CycleConfig | None = None, **fields: Any) -> dict[str, Finish]:
    """The finishes by type in a pool of four A100, node 1, and four V100, node 2."""
    nodes = [make_node(1, gpus=4), make_node(2, gpus=4, gpu_type="V100")]
    reservations = fields.pop("reservations", ())
    snapshot = make_snapshot(nodes=nodes, waiting=[job], running=running, **fields)
    return {
        one.gpu_type: one
        for one in finishes(replace(snapshot, reservations=reservations), config or CycleConfig(), job)
    }


def test_a_slow_type_now_finishes_before_a_fast_one_later() -> None:
    told = found(either(), ending(1, range(2), 9.0, 1), ending(1, range(2, 4), 7.0, 2))
    assert list(told) == ["V100", "A100"]
    assert (told["V100"].starts_in_s, told["V100"].runs_s) == (0.0, 10 * HOUR)
    assert (told["A100"].starts_in_s, told["A100"].finishes_in_s) == (9 * HOUR, 14 * HOUR)
    assert told["V100"].deviation_s == pytest.approx(10 * HOUR * 0.02**0.5)
    assert conclusion(tuple(told.values())) == "V100 now finishes before A100 in 9 h"
    assert in_words(tuple(told.values())) == (
        "On V100 it would start now and finish in about 10 h; on A100 it would start in 9 h and finish in about 14 h."
    )


def test_waiting_for_the_fast_type_can_be_right_and_a_close_lead_is_only_probable() -> None:
    told = found(either(), ending(1, range(4), 0.5, 1))
    assert conclusion(tuple(told.values())) == "A100 in 30 min finishes before V100 now"
    told = found(either(), ending(1, range(4), 4.0, 1))
    assert conclusion(tuple(told.values())) == "A100 in 4 h probably finishes before V100 now"


def test_ends_that_leave_no_node_with_enough_gpus_are_passed_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.engine.finish.MAX_SEARCHES", 1)
    job = either(gpus=2)
    nodes = [make_node(1, gpus=2), make_node(2, gpus=2)]
    runs = [
        ending(n, range(gpu, gpu + 1), hours, 10 * n + gpu) for n, gpu, hours in ((1, 0, 1.0), (2, 0, 2.0), (1, 1, 3.0))
    ]
    runs.append(ending(2, range(1, 2), 4.0, 21))
    (told,) = finishes(make_snapshot(nodes=nodes, waiting=[job], running=runs), CycleConfig(), job)
    assert (told.gpu_type, told.starts_in_s) == ("A100", 3 * HOUR)


def test_quota_and_back_off_delay_a_start() -> None:
    small = [make_vc(quotas={"A100": 8, "V100": 3})]
    held = ending(2, range(1), 2.0, 1)
    assert found(either(gpus=3), held, vcs=small)["V100"].starts_in_s == 2 * HOUR
    assert found(either(gpus=3), held)["V100"].starts_in_s == 0.0
    assert found(either(eligible_at=NOW + 60))["A100"].starts_in_s == 60.0


def test_a_stopping_job_ends_after_its_grace_and_a_job_without_an_estimate_never() -> None:
    stopping = replace(ending(1, range(4), None, 1), state=AttemptState.STOPPING)
    stopping = replace(stopping, job=replace(stopping.job, grace_s=30.0))
    assert found(either(), stopping)["A100"].starts_in_s == 30.0
    told = found(either(), ending(1, range(4), None, 1))
    assert (told["A100"].starts_in_s, told["A100"].finishes_in_s) == (None, None)
    assert in_words(tuple(told.values())).endswith("; on A100 its start is unknown.")
    assert conclusion(tuple(told.values())) == ""


def test_gpus_that_are_reserved_for_another_job_stay_reserved() -> None:
    held = ending(1, range(4), 1.0, 1)
    kept = Reservation(7, held.allocations, NOW + HOUR, foreign=True)
    assert found(either(), held, reservations=(kept,))["A100"].starts_in_s is None


def test_without_a_run_time_or_rates_only_the_starts_are_known() -> None:
    for job in (either(remaining_s=None), either(v100=None)):
        told = found(job)
        assert (told["V100"].starts_in_s, told["V100"].runs_s) == (0.0, None)
        assert "n V100 it would start now, and its run time is unknown" in in_words(tuple(told.values()))
        assert conclusion(tuple(told.values())) == ""


@pytest.mark.parametrize("job", [either(v100=0.0), either(gpus=4)])
def test_a_type_that_the_job_cannot_have_is_left_out(job: Job) -> None:
    none = [make_vc(quotas={"A100": 8})] if job.rates[1].rate.mean else None
    assert list(found(job, vcs=none)) == ["A100"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(20.0, "20 s"), (100.0, "1.7 min"), (5400.0, "1.5 h"), (86_400.0, "24 h"), (864_000.0, "10 d")],
)
def test_spans_of_time_have_two_digits(seconds: float, words: str) -> None:
    one = Finish("A100", 1, 0.0, seconds)
    assert in_words([one]) == f"On A100 it would start now and finish in about {words}."
