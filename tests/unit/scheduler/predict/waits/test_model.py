"""The model of waits: what it learns, and what it does with little or strange data."""

from functools import cache

import numpy as np
import pytest

from scheduler.predict import scores
from scheduler.predict.storage import ModelError, pack
from scheduler.predict.waits import QUICK_S, WaitModel, train
from scheduler.predict.waits.features import NAMES
from scheduler.predict.waits.model import MIN_ROWS
from scheduler.predict.waits.replay import rows_of
from scheduler.predict.waits.state import Floats
from tests.unit.scheduler.predict.waits.traces import trace

TRAINED = 450


@cache
def _data() -> tuple[Floats, Floats]:
    jobs = list(trace())
    return rows_of(jobs), np.array([job.started_at - job.eligible_at for job in jobs])


@cache
def _model() -> WaitModel:
    rows, waits = _data()
    model = train(rows[:TRAINED], waits[:TRAINED], np.ones(TRAINED, dtype=bool))
    assert model is not None
    return model


def test_later_waits_of_a_queue_are_foretold() -> None:
    rows, waits = (part[TRAINED:] for part in _data())
    found = _model().forecasts(rows)
    assert scores.auc(waits <= QUICK_S, [one.quick for one in found]) > 0.9
    assert scores.spearman(waits, [one.p50_s for one in found]) > 0.8
    assert 0.75 < scores.coverage(waits, [one.p90_s for one in found]) <= 1.0


def test_quantiles_rise_and_agree_with_the_probability_of_a_quick_start() -> None:
    for one in _model().forecasts(_data()[0]):
        assert 0 <= one.p10_s <= one.p50_s <= one.p90_s
        assert (one.p50_s <= QUICK_S + 1e-6) == (one.quick >= 0.5)
        assert (one.p90_s <= QUICK_S + 1e-6) == (one.quick >= 0.9)


def test_a_stored_model_gives_the_same_forecasts() -> None:
    rows = _data()[0][TRAINED:]
    assert WaitModel.from_bytes(_model().to_bytes()).forecasts(rows) == _model().forecasts(rows)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data[:-20], "cut"),
        (lambda data: data[:10], "not the file of a predictor"),
        (lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:], "damaged"),
        (lambda _: pack("wait", 99, {}, {}), "version 99"),
        (lambda _: pack("wait", 1, {"row": 99, "rows": 1, "trees": []}, {}), "features of version 99"),
        (lambda _: pack("wait", 1, {"row": 1, "rows": 1, "trees": []}, {}), "0 ensembles"),
    ],
)
def test_a_model_file_that_is_cut_or_of_another_version_says_so(spoil, says) -> None:
    with pytest.raises(ModelError, match=says):
        WaitModel.from_bytes(spoil(_model().to_bytes()))


def test_no_history_and_one_job_train_no_model() -> None:
    for count in (0, 1, MIN_ROWS - 1):
        assert train(np.zeros((count, len(NAMES))), np.zeros(count), np.ones(count, dtype=bool)) is None


@pytest.mark.parametrize("wait", [0.0, 7200.0, 1e9])
def test_constant_waits_are_foretold_as_they_are(wait: float) -> None:
    model = train(_data()[0][:100], np.full(100, wait), np.ones(100, dtype=bool))
    assert model is not None
    found = model.forecast(_data()[0][0])
    assert (found.quick > 0.9) == (wait <= QUICK_S)
    if wait <= 1e6:
        assert found.p50_s == pytest.approx(wait, abs=120, rel=0.2)


def test_jobs_that_still_wait_lengthen_forecasts_and_new_ones_do_not_count() -> None:
    rows, waits = (part[:200] for part in _data())
    rows, waits = np.tile(rows[:1], (200, 1)), np.linspace(1000.0, 5000.0, 200)
    started = np.arange(200) % 2 == 0
    without = train(rows[started], waits[started], started[started])
    stuck = train(rows, np.where(started, waits, 5000.0), started)
    unknown = train(rows, np.where(started, waits, 60.0), started)
    assert without is not None
    assert stuck is not None
    assert unknown is not None
    assert stuck.forecast(rows[0]).p50_s > 1.3 * without.forecast(rows[0]).p50_s
    assert unknown.forecast(rows[0]) == without.forecast(rows[0])


def test_clocks_that_jump_train_a_model() -> None:
    waits = _data()[1][:200].copy()
    waits[::7] = -3600.0
    waits[::11] = np.nan
    assert train(_data()[0][:200], waits, np.ones(200, dtype=bool)) is not None
