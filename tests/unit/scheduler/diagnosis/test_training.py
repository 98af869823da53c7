"""Bounded curves, advice with few false alarms, and Young's and Daly's intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.training import Curve, Kind, advise, interval_of
from scheduler.diagnosis.training.advice import NAN_POINTS
from scheduler.diagnosis.training.checkpoints import PRIOR_NODE_HOURS, daly_s, failures_per_node_hour
from scheduler.diagnosis.training.curve import joined
from scheduler.diagnosis.training.trends import spread_of_means, trend_of


def curve(*points: tuple[float | None, float]) -> Curve:
    made = Curve()
    for step, value in points:
        made.add(step, value)
    return made


class TestCurve:
    def test_a_few_values_are_kept_as_they_are(self) -> None:
        assert curve((1, 3.0), (2, 2.0)).points() == [(1, 3.0), (2, 2.0)]

    def test_without_steps_values_are_counted(self) -> None:
        assert curve((None, 3.0), (None, 2.0)).points() == [(1, 3.0), (2, 2.0)]

    def test_where_numbers_are_too_large_to_count_on_steps_grow_all_the_same(self) -> None:
        assert curve((2.0**53 - 1, 3.0), (None, 2.0), (None, 1.0)).points() == [(2**53 - 1, 3.0), (2**53, 1.0)]

    def test_what_is_done_again_counts_as_it_was_done_again(self) -> None:
        made = curve((1, 5.0), (2, 4.0), (3, 3.0), (2, 3.5))
        assert made.points() == [(1, 5.0), (2, 3.5)]

    def test_the_same_values_sent_again_change_nothing(self) -> None:
        values = [(float(step), 1.0 / step) for step in range(1, 300)]
        assert curve(*values, *values[100:]).points() == curve(*values).points()

    def test_a_point_is_the_mean_of_its_values(self) -> None:
        made = curve(*((float(step), float(step % 2)) for step in range(1, 10_001)))
        assert made.stride == 32
        assert {value for _, value in made.points()[:-1]} == {0.5}
        assert made.points()[-1][0] == 10_000

    def test_a_value_that_is_no_number_spoils_no_mean(self) -> None:
        values = [(float(step), math.nan if step % 50 == 0 else 1.0) for step in range(1, 5001)]
        assert {value for _, value in curve(*values).points()} == {1.0}

    def test_numbers_that_add_up_to_more_than_there_is_are_none(self) -> None:
        made = curve(*((float(step), 1e308) for step in range(1, 5001)))
        assert all(math.isnan(value) or value == 1e308 for _, value in made.points())

    @given(
        st.lists(
            st.tuples(
                st.one_of(st.none(), st.floats(0, 2**53, allow_nan=False)),
                st.floats(allow_nan=True, allow_infinity=True),
            ),
            max_size=100,
        )
    )
    def test_the_curve_is_bounded_and_its_steps_grow(self, told: list[tuple[float | None, float]]) -> None:
        with patch("scheduler.diagnosis.training.curve.MAX_POINTS", 8):
            made = curve(*told)
        points = made.points()
        assert len(made.steps) <= 8
        assert all(one[0] < other[0] for one, other in pairwise(points))
        assert made.count < made.stride
        assert not any(math.isinf(value) for _, value in points)

    def test_attempts_are_one_curve(self) -> None:
        assert joined([[(1, 5.0), (2, 4.0), (3, 3.0)], [], [(3, 2.5), (4, 2.0)]]) == [
            (1, 5.0),
            (2, 4.0),
            (3, 2.5),
            (4, 2.0),
        ]


STEPS = 1000


def noisy(shape: Callable[[float], float], *, seed: int, noise: float, steps: int = STEPS) -> Curve:
    """The shape over its steps with noise in proportion to it, as losses of batches have."""
    source = random.Random(seed)
    made = Curve()
    for step in range(1, steps + 1):
        value = shape(step / steps)
        made.add(float(step), max(1e-9, value + source.gauss(0, noise * value)))
    return made


def kinds_over(
    shape: Callable[[float], float], *, seed: int, noise: float, alike: float = 0.0, steps: int = STEPS
) -> set[Kind]:
    """All kinds of advice given in forty looks as the curve grows; `alike` is the autocorrelation of its noise."""
    source = random.Random(seed)
    made, found = Curve(), set()
    error = source.gauss(0, 1)
    for step in range(1, steps + 1):
        error = alike * error + math.sqrt(1 - alike**2) * source.gauss(0, 1)
        made.add(float(step), max(1e-9, shape(step / steps) * (1 + noise * error)))
        if step % (steps // 40) == 0:
            found |= {one.kind for one in advise(made.points(), odd_run=made.odd_run, total=steps)}
    return found


HEALTHY: dict[str, Callable[[float], float]] = {
    "falls": lambda x: 0.3 + 2.2 * math.exp(-3 * x),
    "falls slowly": lambda x: 2.5 - 0.5 * x,
    "falls by a power": lambda x: 1.7 + 2 * (1 + STEPS * x) ** -0.15,
    "restarts of the learning rate": lambda x: 0.4 + math.exp(-3 * x) * (2.1 - 0.125 * math.cos(10 * math.pi * x)),
    "a warm-up that rises": lambda x: 2.5 + 4 * x if x < 0.05 else 0.3 + 2.4 * math.exp(-3 * (x - 0.05)),
    "a spike": lambda x: 0.3 + 2.2 * math.exp(-3 * x) + (5.0 if 0.50 < x < 0.51 else 0.0),
}


NOISES = [(0.002, 0.0), (0.1, 0.0), (0.1, 0.9)]
"""The noise relative to the loss, and its autocorrelation."""


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize(("noise", "alike"), NOISES)
def test_a_healthy_training_gets_no_advice(name: str, noise: float, alike: float) -> None:
    alarms = [seed for seed in range(10) if kinds_over(HEALTHY[name], seed=seed, noise=noise, alike=alike)]
    assert alarms == []


@pytest.mark.parametrize(("noise", "alike"), NOISES)
def test_a_lasting_rise_of_the_loss_is_reported(noise: float, alike: float) -> None:
    def diverging(x: float) -> float:
        return 0.3 + 2.2 * math.exp(-6 * x) + (4 * (x - 0.5) if x > 0.5 else 0.0)

    found = [Kind.RISING in kinds_over(diverging, seed=seed, noise=noise, alike=alike) for seed in range(10)]
    assert all(found)


def test_a_lasting_plateau_is_reported_in_spite_of_noise_and_a_slow_fall_is_not() -> None:
    steps = 20_000
    for seed in range(3):
        flat = kinds_over(lambda x: 0.5 + 2 * math.exp(-25 * x), seed=seed, noise=0.02, steps=steps)
        falling = kinds_over(lambda x: 2.04 - 0.04 * x, seed=seed, noise=0.02, steps=steps)
        assert (flat, falling) == ({Kind.PLATEAU}, set())


def test_a_plateau_is_reported_with_its_first_step() -> None:
    def flat(x: float) -> float:
        return 0.5 + 2 * math.exp(-25 * x)

    found = [advise(noisy(flat, seed=seed, noise=0.001).points(), total=STEPS) for seed in range(10)]
    assert [[one.kind for one in told] for told in found] == [[Kind.PLATEAU]] * 10
    text = found[0][0].text
    assert text.startswith("within 0.1 % of the lowest loss (0.")
    assert text.endswith(f" of {STEPS}")
    assert 200 <= found[0][0].step <= 600


def test_no_plateau_is_reported_early_in_a_training() -> None:
    points = noisy(lambda x: 0.5, seed=1, noise=0.001).points()
    assert [one.kind for one in advise(points, total=STEPS)] == [Kind.PLATEAU]
    assert advise(points, total=10 * STEPS) == []


def test_lasting_non_finite_losses_are_reported() -> None:
    made = curve((1, 1.0), (2, math.nan), (3, 0.9), (4, math.nan), (5, math.inf))
    assert advise(made.points(), odd_run=made.odd_run) == []
    made.add(6, math.nan)
    assert made.odd_run == NAN_POINTS
    (told,) = advise(made.points(), odd_run=made.odd_run)
    assert (told.kind, told.step) == (Kind.NAN, 6)


@given(
    st.lists(st.floats(-1e300, 1e300), max_size=120),
    st.one_of(st.none(), st.floats(1e-3, 1e12)),
)
def test_whatever_the_losses_are_advice_is_no_error(values: list[float], total: float | None) -> None:
    made = Curve()
    for value in values:
        made.add(None, value)
    assert len(advise(made.points(), odd_run=made.odd_run, total=total)) <= 1


class TestTrends:
    def test_the_bounds_of_a_trend_have_it_as_often_as_they_should(self) -> None:
        source = random.Random(11)
        missed = {0.0: 0, 0.7: 0}
        for alike in missed:
            for _ in range(200):
                values, error = [], 0.0
                for place in range(64):
                    error = alike * error + source.gauss(0, 1)
                    values.append(0.1 * place + error)
                trend = trend_of(values, sure=1.96)
                missed[alike] += not trend.least <= 0.1 <= trend.most
        # One in twenty with a known autocorrelation; here it is estimated from few values.
        assert missed[0.0] <= 20
        assert missed[0.7] <= 50

    def test_an_outlier_hardly_moves_it(self) -> None:
        values = [0.5 * place for place in range(40)]
        values[7] = 1e9
        trend = trend_of(values, sure=2.0)
        assert (trend.least, trend.slope, trend.most) == (0.5, 0.5, 0.5)

    @pytest.mark.parametrize("alike", [0.0, 0.9])
    def test_means_lie_as_far_apart_as_it_says_also_of_slow_noise(self, alike: float) -> None:
        source, error, values = random.Random(12), 0.0, []
        for place in range(4096):
            error = alike * error + math.sqrt(1 - alike**2) * source.gauss(0, 1)
            values.append(error - place / 50)
        known = math.sqrt((1 + alike) / (1 - alike) / 256)
        assert 0.6 * known < spread_of_means(values, 256) < 2 * known

    def test_of_too_few_values_nothing_is_sure(self) -> None:
        assert trend_of([1.0], sure=2.0).most == math.inf
        assert trend_of([1.0, 2.0, 3.0], sure=2.576).least == -math.inf


class TestIntervals:
    def test_young_and_daly_of_a_known_case(self) -> None:
        # Ten minutes a checkpoint and one failure a day.
        day, cost = 86_400.0, 600.0
        one = interval_of(cost_s=cost, nodes=24, per_node_hour=1 / (24 * 24))
        assert one.mtbf_s == pytest.approx(day)
        assert one.young_s == pytest.approx(math.sqrt(2 * cost * day))
        ratio = math.sqrt(cost / (2 * day))
        assert one.daly_s == pytest.approx(one.young_s * (1 + ratio / 3 + ratio**2 / 9) - cost)
        assert 0.11 < one.lost_share < 0.13

    def test_a_checkpoint_that_takes_longer_than_nodes_live_is_saved_once_a_life(self) -> None:
        assert daly_s(500.0, 200.0) == 200.0

    @pytest.mark.parametrize("cost_s", [1.0, 30.0, 600.0])
    def test_daly_is_near_the_best_interval(self, cost_s: float) -> None:
        mtbf_s = 10_000.0

        def time_per_work(interval: float) -> float:  # Daly's complete model, without the time of a restart
            return mtbf_s * math.expm1((interval + cost_s) / mtbf_s) / interval

        best = min((time_per_work(interval), interval) for interval in map(float, range(10, 20_000, 5)))
        assert time_per_work(daly_s(cost_s, mtbf_s)) <= best[0] * 1.001

    def test_where_little_was_seen_the_prior_counts_and_where_much_was_it_does_not(self) -> None:
        assert failures_per_node_hour(0, 0.0) == pytest.approx(1 / PRIOR_NODE_HOURS)
        assert failures_per_node_hour(1000, 1_000_000.0) == pytest.approx(0.001, rel=0.01)
        assert failures_per_node_hour(0, 100_000.0) < 1 / PRIOR_NODE_HOURS
