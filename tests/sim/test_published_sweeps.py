"""Savings of early stopping on a small net that really trains on handwritten digits."""

from __future__ import annotations

import math

import pytest

from bench.published.sweeps import Curve, Run, curves_of, run
from scheduler.search.rungs import Method, Rungs

RUNGS = Rungs.of(1, 9, 3)


@pytest.fixture(scope="module")
def runs() -> dict[Method, Run]:
    curves = curves_of(seed=0, members=27, epochs=9)
    return {method: run(method, curves, RUNGS, 4) for method in (Method.RANDOM, Method.HALVING, Method.ASHA)}


def test_early_stopping_takes_a_part_of_the_epochs(runs: dict[Method, Run]) -> None:
    assert runs[Method.RANDOM].epochs == 27 * 9
    assert runs[Method.HALVING].epochs == 27 * 1 + 9 * 2 + 3 * 6
    assert runs[Method.HALVING].epochs <= runs[Method.ASHA].epochs <= 0.6 * runs[Method.RANDOM].epochs


def test_early_stopping_finds_nearly_the_best_member(runs: dict[Method, Run]) -> None:
    for method in (Method.HALVING, Method.ASHA):
        assert runs[method].best <= 1.1 * runs[Method.RANDOM].best


def test_a_member_whose_loss_is_no_number_stops_at_the_first_rung() -> None:
    curves = [Curve((math.nan,) * 9, 1.0), *(Curve((1.0 / n,) * 9, 1.0) for n in range(1, 9))]
    for method in (Method.HALVING, Method.ASHA):
        done = run(method, curves, RUNGS, 2)
        assert done.best == 1 / 8
        assert sum(math.isnan(loss) for _, loss in done.reports) == 1


def test_halving_at_the_parallel_bound_of_one_ends() -> None:
    done = run(Method.HALVING, [Curve((1.0 / n,) * 9, 1.0) for n in range(1, 10)], RUNGS, 1)
    assert (done.epochs, done.took_s, done.cpu_s) == (9 + 3 * 2 + 1 * 6, 21.0, 21.0)
