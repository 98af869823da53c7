"""Expected run times: from the user, from history, from the limit."""

from __future__ import annotations

import pytest

from scheduler.predict.estimate import Estimate, Source, doubled, estimate

CASES: dict[str, tuple[float | None, tuple[float, ...], float | None, Estimate | None]] = {
    "nothing is known": (None, (), None, None),
    "the user's estimate counts": (60, (), 3600, Estimate(60, Source.USER)),
    "the mean of the last two counts where the user says nothing": (
        None, (100, 300, 9000), 3600, Estimate(200, Source.HISTORY),
    ),
    "one ended job is a history": (None, (100,), None, Estimate(100, Source.HISTORY)),
    "the limit counts where there is nothing else": (None, (), 3600, Estimate(3600, Source.LIMIT)),
    "jobs alike that took up to twice as long do not contradict the user": (
        100, (200, 200), None, Estimate(100, Source.USER),
    ),
    "jobs alike that took more than twice as long do": (100, (200, 202), None, Estimate(201, Source.HISTORY)),
    "shorter jobs alike do not": (100, (1, 1), None, Estimate(100, Source.USER)),
    "no estimate is above the limit": (None, (7000,), 3600, Estimate(3600, Source.HISTORY)),
}  # fmt: skip


@pytest.mark.parametrize(("user_s", "took_s", "limit_s", "expected"), CASES.values(), ids=CASES.keys())
def test_an_estimate_comes_from_the_best_source(
    user_s: float | None, took_s: tuple[float, ...], limit_s: float | None, expected: Estimate | None
) -> None:
    assert estimate(user_s=user_s, took_s=took_s, limit_s=limit_s) == expected


@pytest.mark.parametrize(
    ("ran_s", "limit_s", "expected"),
    [(99, None, 100), (100, None, 200), (450, None, 800), (450, 600, 600), (700, 600, 600)],
)
def test_an_estimate_that_a_job_outlives_is_doubled(ran_s: float, limit_s: float | None, expected: float) -> None:
    assert doubled(100, ran_s=ran_s, limit_s=limit_s) == expected


def test_an_estimate_of_nothing_is_doubled_from_a_second() -> None:
    assert doubled(0, ran_s=5, limit_s=None) == 8
