"""Progress of a job, and the time for the rest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.work import ChangingWork, FixedWork, ScalingWork, StepsWork, Work, known_rates

STEPS = StepsWork(600.0, 4, {"V100": 6.0, "K80": 1.0}, {"V100": 3.0}, node_gpus=4)


def test_a_fixed_work_takes_its_time_by_the_rate_of_the_type() -> None:
    work = FixedWork(100.0, {"V100": 1.0, "K80": 0.25})
    assert work.seconds_left(0.0, "K80", (1,), 1.0) == 400
    assert work.seconds_left(50.0, "V100", (1,), 0.5) == 100
    assert work.seconds_left(0.0, "T4", (1,), 1.0) == math.inf
    assert work.advance(0.0, "K80", (1,), 1.0, 40.0) == 10
    assert (work.remaining_s(30.0), work.alone_s()) == (70, 100)


def test_steps_go_by_the_rate_of_the_type() -> None:
    assert STEPS.seconds_left(0.0, "V100", (4,), 1.0) == 100
    assert STEPS.seconds_left(300.0, "K80", (4,), 1.0) == 300
    assert STEPS.advance(0.0, "V100", (4,), 0.5, 10.0) == 30


def test_steps_go_slower_on_more_nodes_than_need_be() -> None:
    assert STEPS.seconds_left(0.0, "V100", (2, 2), 1.0) == 200
    assert StepsWork(600.0, 8, {"V100": 6.0}, {"V100": 3.0}).seconds_left(0.0, "V100", (4, 4), 1.0) == 100
    assert StepsWork(600.0, 4, {"V100": 6.0}).seconds_left(0.0, "V100", (1, 1, 1, 1), 1.0) == 100


@pytest.mark.parametrize(("gpu_type", "layout"), [("T4", (4,)), ("K80", (2, 2)), ("V100", (2,))])
def test_steps_never_end_where_they_were_not_measured(gpu_type: str, layout: tuple[int, ...]) -> None:
    assert STEPS.seconds_left(0.0, gpu_type, layout, 1.0) == math.inf
    assert STEPS.advance(10.0, gpu_type, layout, 1.0, 100.0) == 10


def test_a_predictor_counts_steps_on_the_reference_or_on_the_fastest_type() -> None:
    assert STEPS.remaining_s(300.0) == 50
    assert StepsWork(600.0, 4, STEPS.rates, reference="K80").alone_s() == 600


def test_an_elastic_work_takes_its_time_by_the_number_of_gpus() -> None:
    work = ScalingWork(100.0, 2, (1.0, 2.0, 2.5, 3.0))
    assert work.seconds_left(0.0, "A100", (2,), 1.0) == 100
    assert work.seconds_left(40.0, "A100", (1,), 1.0) == 120
    assert work.seconds_left(40.0, "A100", (2, 2), 0.5) == 80
    assert work.advance(0.0, "A100", (4,), 1.0, 10.0) == 15
    assert (work.remaining_s(30.0), work.alone_s(), work.speeds()) == (70, 100, (1.0, 2.0, 2.5, 3.0))


@given(
    st.sampled_from([FixedWork(600.0), FixedWork(600.0, {"V100": 0.3}), STEPS]),
    st.lists(st.floats(0, 300), max_size=12),
    st.floats(0.1, 1),
)
def test_pieces_of_time_add_up_to_the_whole(work: Work, pieces: list[float], speed: float) -> None:
    done = 0.0
    for seconds in pieces:
        done = work.advance(done, "V100", (4,), speed, seconds)
    whole = work.advance(0.0, "V100", (4,), speed, sum(pieces))
    assert done == pytest.approx(whole)
    left = work.seconds_left(done, "V100", (4,), speed)
    assert left == pytest.approx(max(0.0, work.seconds_left(0.0, "V100", (4,), speed) - sum(pieces)), abs=1e-6)
    assert work.advance(done, "V100", (4,), speed, left) == pytest.approx(600)


def test_the_rates_of_a_trace_are_zero_where_the_job_cannot_run() -> None:
    work = StepsWork(100, 2, {"V100": 4.0})
    known = {(one.gpu_type, one.gpus): one.rate.mean for one in known_rates(work, 2, ["K80", "V100"])}
    assert known == {("K80", 2): 0.0, ("V100", 2): 4.0}
    assert known_rates(FixedWork(100), 1, ["K80"]) == ()


def test_a_trace_tells_how_much_slower_a_job_is_on_several_nodes() -> None:
    work = StepsWork(100, 2, {"V100": 4.0, "K80": 1.0, "P100": 2.0}, {"V100": 1.0, "K80": 0.0})
    known = {one.gpu_type: one.slowdown for one in known_rates(work, 2, ["K80", "P100", "T4", "V100"])}
    assert known == {"K80": None, "P100": None, "T4": None, "V100": 4.0}
    assert [one.slowdown for one in known_rates(ChangingWork((work,)), 2, ["V100"])] == [4.0]


def test_a_work_that_changes_goes_through_its_pieces() -> None:
    work = ChangingWork((StepsWork(100, 1, {"V100": 1.0}), StepsWork(60, 1, {"V100": 2.0})))
    assert work.alone_s() == work.seconds_left(0.0, "V100", (1,), 1.0) == 130
    assert work.advance(50.0, "V100", (1,), 1.0, 60.0) == 120
    assert work.remaining_s(120.0) == 20
    assert work.advance(120.0, "V100", (1,), 1.0, 60.0) == 160
    assert work.seconds_left(0.0, "K80", (1,), 1.0) == float("inf")
    assert [work.rates_at(done)["V100"] for done in (0.0, 99.0, 100.0, 160.0)] == [1.0, 1.0, 2.0, 2.0]
