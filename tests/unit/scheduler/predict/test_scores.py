"""Scores of predictions, against their definitions."""

import math

import numpy as np
import pytest

from scheduler.predict import scores


def test_pinball_loss_weighs_values_above_a_p90_nine_times_those_below() -> None:
    assert scores.pinball([10.0], [0.0], 0.9) == pytest.approx(9.0)
    assert scores.pinball([0.0], [10.0], 0.9) == pytest.approx(1.0)


def test_the_quantile_itself_has_the_least_pinball_loss_of_all_constants() -> None:
    values = np.random.default_rng(1).lognormal(size=999)
    best = scores.pinball(values, np.full(999, np.quantile(values, 0.9)), 0.9)
    assert all(best <= scores.pinball(values, np.full(999, np.quantile(values, q)), 0.9) for q in np.linspace(0, 1, 41))


def test_coverage_counts_values_on_the_bounds() -> None:
    assert scores.coverage([1, 2, 3, 4], [3, 3, 3, 3]) == 0.75
    assert scores.coverage([1, 2, 3, 4], [3, 3, 3, 3], [2, 2, 2, 2]) == 0.5


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    chance = np.random.default_rng(2)
    real, score = chance.random(60) < 0.4, chance.integers(0, 8, 60)
    pairs = [(p > n) + 0.5 * (p == n) for p in score[real] for n in score[~real]]
    assert scores.auc(real, score) == pytest.approx(np.mean(pairs))


def test_balanced_accuracy_is_the_mean_over_both_classes() -> None:
    assert scores.balanced_accuracy([1, 1, 1, 1, 0], [1, 1, 1, 0, 0]) == pytest.approx((0.75 + 1.0) / 2)


def test_spearman_sees_only_the_order_and_shares_ranks() -> None:
    assert scores.spearman([1, 2, 3], [10, 100, 1000]) == pytest.approx(1.0)
    assert list(scores.ranks([5, 5, 1])) == [2.5, 2.5, 1.0]


def test_an_interval_of_groups_alike_is_wider_than_one_of_rows() -> None:
    chance = np.random.default_rng(3)
    days = np.repeat(np.arange(40), 25)
    values = chance.normal(size=40)[days] + 0.1 * chance.normal(size=1000)
    low, high = scores.interval(lambda rows: float(values[rows].mean()), days)
    by_row_low, by_row_high = scores.interval(lambda rows: float(values[rows].mean()), np.arange(1000))
    assert low < values.mean() < high
    assert high - low > 3 * (by_row_high - by_row_low)


def test_scores_without_enough_data_are_nan() -> None:
    none: list[float] = []
    assert math.isnan(scores.pinball(none, none, 0.5))
    assert math.isnan(scores.auc([True, True], [1, 2]))
    assert math.isnan(scores.balanced_accuracy([True], [True]))
    assert math.isnan(scores.spearman([1, 1], [1, 2]))
    assert all(math.isnan(bound) for bound in scores.interval(lambda rows: 1.0, [7, 7]))
