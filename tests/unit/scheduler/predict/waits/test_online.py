"""Calibration and combination of forecasts of waits."""

import json

import numpy as np
import pytest

from scheduler.predict.waits import Calibration, Online, WaitForecast, WaitSource, Weights, combine
from scheduler.predict.waits.forecast import MAX_WAIT_S

OPEN = WaitForecast(0.3, 600.0, 1200.0, 2400.0, WaitSource.MODEL)


def test_the_share_of_waits_below_each_quantile_becomes_right_after_a_shift() -> None:
    chance = np.random.default_rng(1)
    calibration, below = Calibration(), []
    for wait in chance.lognormal(mean=9.0, sigma=1.0, size=3000):
        shown = calibration.apply(OPEN)
        below.append([wait <= at for at in shown.quantiles])
        calibration, counted = calibration.observe(shown, wait, started=True)
        assert counted == 3
    assert np.mean(below[500:], axis=0) == pytest.approx([0.1, 0.5, 0.9], abs=0.02)


def test_a_wait_that_outlives_its_p90_counts_at_once_and_only_once() -> None:
    early, counted = Calibration().observe(OPEN, 2500.0, started=False)
    assert counted == 3
    assert early.apply(OPEN).p90_s > OPEN.p90_s
    assert early.observe(OPEN, 9999.0, started=True, counted=counted) == (early, 3)


def test_a_wait_below_its_quantiles_counts_at_its_start() -> None:
    assert Calibration().observe(OPEN, 500.0, started=False) == (Calibration(), 0)
    after, _ = Calibration().observe(OPEN, 500.0, started=True)
    assert after.apply(OPEN).p90_s < OPEN.p90_s


def test_forecasts_that_find_a_quick_start_likely_have_shifts_of_their_own() -> None:
    after, _ = Calibration().observe(OPEN, 1e6, started=True)
    sure = WaitForecast(0.95, 1.0, 2.0, 3.0, WaitSource.MODEL)
    assert after.apply(sure).quantiles == pytest.approx(sure.quantiles)


def test_quantiles_never_cross_and_stay_within_bounds() -> None:
    crossed = OPEN.moved([5.0, -1.0, -2.0])
    assert crossed.p10_s <= crossed.p50_s <= crossed.p90_s
    assert OPEN.moved([-99.0] * 3).quantiles == (0.0, 0.0, 0.0)
    assert OPEN.moved([99.0] * 3).p90_s == pytest.approx(MAX_WAIT_S)


def test_samples_give_quantiles_and_no_probability_of_exactly_0_or_1() -> None:
    found = WaitForecast.of_samples([0.0, 100.0, 900.0, float("inf")], WaitSource.FORWARD)
    assert found.quick == 0.5
    assert found.p50_s == 500.0
    assert 0 < WaitForecast.of_samples([1.0] * 8, WaitSource.FORWARD).quick < 1


def test_the_source_with_the_smaller_recent_loss_weighs_more() -> None:
    online = Online()
    for _ in range(50):
        shown = online.forecasts(OPEN, WaitForecast(0.9, 1.0, 5.0, 60.0, WaitSource.FORWARD))
        online, _ = online.observe(shown, 1200.0, started=True, counted={})
    assert online.weights.quick > 0.8
    assert online.weights.quantiles > 0.6


def test_a_combination_lies_between_both() -> None:
    forward = WaitForecast(0.8, 60.0, 300.0, 600.0, WaitSource.FORWARD)
    both = combine(OPEN, forward, Weights(0.5, 0.5))
    assert both.source is WaitSource.COMBINED
    assert 0.3 < both.quick < 0.8
    assert all(low < at < high for low, at, high in zip(forward.quantiles, both.quantiles, OPEN.quantiles, strict=True))
    assert combine(OPEN, forward, Weights(1.0, 1.0)).quantiles == pytest.approx(OPEN.quantiles)


def test_a_quantile_beyond_the_horizon_of_the_policy_leaves_the_model_s() -> None:
    forward = WaitForecast(0.1, 600.0, float("inf"), float("inf"), WaitSource.FORWARD)
    assert combine(OPEN, forward, Weights()).quantiles == pytest.approx(OPEN.quantiles)


def test_a_wait_that_lasts_leaves_the_longer_part_of_its_forecast() -> None:
    later = OPEN.after(1200.0)
    assert later.quick == 0.0
    assert 1200.0 <= later.p10_s < later.p50_s < later.p90_s
    assert later.p50_s == pytest.approx(OPEN._quantile_s(0.75))
    waits = np.array([OPEN._quantile_s(level) for level in np.linspace(0.0005, 0.9995, 1000)])
    assert later.p90_s == pytest.approx(np.quantile(waits[waits > 1200.0], 0.9), rel=0.02)
    beyond = OPEN.after(1e5)
    assert 1e5 < beyond.p50_s < beyond.p90_s < float("inf")
    assert OPEN.after(0.0).quantiles == pytest.approx(OPEN.quantiles)
    assert OPEN.after(300.0).quick < OPEN.quick


def test_a_state_survives_json_and_a_broken_document_is_the_initial_state() -> None:
    online, _ = Online().observe(Online().forecasts(OPEN, None), 5000.0, started=True, counted={})
    assert Online.from_json(json.loads(json.dumps(online.to_json()))) == online
    for broken in ({}, {"version": 99}, {"version": 1, "calibrations": {"model": {"version": 1, "shifts": [[1]]}}}):
        found = Online.from_json(broken).forecasts(OPEN, None)[WaitSource.MODEL]
        assert found.quantiles == pytest.approx(OPEN.quantiles)


def test_a_forecast_says_how_likely_a_quick_start_is() -> None:
    assert WaitForecast(0.83, 1, 2, 3, WaitSource.MODEL).says == "likely within 10 minutes (83 %)"
    assert OPEN.says == ""
