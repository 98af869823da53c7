"""The objectives against programs written down independently and solved by another solver, and by their conditions."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from scheduler.policies.gavel import objectives
from scheduler.policies.gavel.hierarchy import hierarchical
from scheduler.policies.gavel.large import Equal, highest_level, solve
from scheduler.policies.gavel.matching import allox
from scheduler.policies.gavel.pairs import random_pairs
from scheduler.policies.gavel.problem import Floats, Problem
from tests.profiles import examples
from tests.unit.scheduler.policies.gavel.problems import drawn, problem

SEEDS = range(examples(50))
CLOSE = 1e-4


def assert_feasible(asked: Problem, x: Floats) -> None:
    """Shares of time and of GPUs within their limits."""
    assert x.min() >= 0
    assert x.sum(axis=1).max() <= 1 + 1e-6
    assert ((asked.gpus * x).sum(axis=0) <= asked.supply * (1 + 1e-6)).all()


def most(asked: Problem, weights: Floats, floors: Floats | None = None) -> float:
    """The largest Σ weights · x with effective rates of at least `floors`, by the dual simplex of another interface."""
    count, kinds = asked.rates.shape
    time = np.kron(np.eye(count), np.ones(kinds))
    used = np.concatenate([np.diag(row) for row in asked.gpus], axis=1)
    lowest = np.zeros(count) if floors is None else floors
    rates = -time * asked.rates.reshape(-1)
    found = linprog(
        -weights.reshape(-1),
        A_ub=np.concatenate([time, used, rates]),
        b_ub=np.concatenate([np.ones(count), asked.supply, -lowest]),
        bounds=[(0, None if able else 0) for able in asked.able.reshape(-1)],
        method="highs-ds",
    )
    return float(-found.fun)


def highest_minimum(asked: Problem, weights: Floats) -> float:
    """The largest min over jobs of Σ weights · x, by bisection over feasibility and without a column for it."""
    count, kinds = asked.rates.shape
    time = np.kron(np.eye(count), np.ones(kinds))
    used = np.concatenate([np.diag(row) for row in asked.gpus], axis=1)
    needs = -np.concatenate([np.eye(count)[:, [m]] @ weights[m : m + 1] for m in range(count)], axis=1)
    low, high = 0.0, float(weights.sum(axis=1).max())
    for _ in range(40):
        middle = (low + high) / 2
        found = linprog(
            np.zeros(count * kinds),
            A_ub=np.concatenate([time, used, needs]),
            b_ub=np.concatenate([np.ones(count), asked.supply, np.full(count, -middle)]),
            bounds=[(0, None if able else 0) for able in asked.able.reshape(-1)],
            method="highs-ds",
        )
        low, high = (middle, high) if found.status == 0 else (low, middle)
    return low


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sum_of_the_rates_is_the_largest(seed: int) -> None:
    asked = drawn(seed)
    x = objectives.throughput(asked)
    assert_feasible(asked, x)
    assert (asked.rates * x).sum() == pytest.approx(most(asked, asked.rates), rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rate_per_price_is_the_largest(seed: int) -> None:
    asked = drawn(seed)
    prices = {"A": 3.0, "B": 0.5}
    worth = asked.rates / np.array([prices.get(kind, 1.0) for kind in asked.types])
    assert (worth * objectives.cost(asked, prices)).sum() == pytest.approx(most(asked, worth), rel=CLOSE)


def with_deadlines(seed: int) -> Problem:
    """A random problem in which about two jobs in three have a deadline; some deadlines are too early to be met."""
    asked, rng = drawn(seed), np.random.default_rng(seed)
    least_s = asked.left / asked.rates.max(axis=1)
    until_s = least_s * rng.uniform(0.8, 20.0, len(asked))
    return replace(asked, until_deadline_s=np.where(rng.random(len(asked)) < 2 / 3, until_s, np.inf))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rate_per_price_is_the_largest_that_lets_all_jobs_with_deadlines_run_at_the_same_part_of_their_need(
    seed: int,
) -> None:
    asked = with_deadlines(seed)
    x = objectives.cost(asked, {"A": 3.0, "B": 0.5})
    assert_feasible(asked, x)
    need = asked.left / asked.until_deadline_s
    rows = np.nonzero((need > 0) & (need <= asked.rates.max(axis=1)))[0]
    if not len(rows):
        return
    weights = asked.rates[rows] / need[rows, None]
    part = min(1.0, highest_minimum(asked.rows(rows), weights))
    assert (weights * x[rows]).sum(axis=1).min() >= part * (1 - CLOSE)
    floors = np.zeros(len(asked))
    floors[rows] = need[rows] * part * (1 - 1e-6)
    worth = asked.rates / np.array([{"A": 3.0, "B": 0.5}.get(kind, 1.0) for kind in asked.types])
    assert (worth * x).sum() == pytest.approx(most(asked, worth, floors), rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_worst_job_is_as_well_off_as_can_be(seed: int) -> None:
    asked = drawn(seed)
    equal = asked.rates @ (asked.supply / asked.supply.sum())
    weights = asked.rates * (asked.size / equal)[:, None]
    x = objectives.max_min(asked)
    assert_feasible(asked, x)
    assert (weights * x).sum(axis=1).min() == pytest.approx(highest_minimum(asked, weights), rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_job_ends_as_early_as_can_be(seed: int) -> None:
    asked = drawn(seed)
    weights = asked.rates / asked.left[:, None]
    x = objectives.makespan(asked)
    assert (weights * x).sum(axis=1).min() == pytest.approx(highest_minimum(asked, weights), rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_shares_give_a_smaller_finish_time_ratio(seed: int) -> None:
    asked = drawn(seed)
    isolated_s = dict.fromkeys(asked.ids, 500.0)
    alone_s = 500.0 + asked.left / objectives.isolated_rates(asked)

    def ratio(x: Floats) -> float:
        return float(((asked.age_s + asked.left / objectives.effective(asked, x)) / alone_s).max())

    x = objectives.finish_time(asked, isolated_s)
    assert_feasible(asked, x)
    smaller = ratio(x) * (1 - CLOSE)
    needs = asked.left / (smaller * alone_s - asked.age_s)
    assert (needs < 0).any() or highest_minimum(asked, asked.rates / needs[:, None]) < 1


@pytest.mark.parametrize("seed", SEEDS)
def test_water_filling_keeps_what_max_min_gives_to_the_worst_job(seed: int) -> None:
    asked = drawn(seed)
    assert_feasible(asked, hierarchical(asked, fifo_within=True))
    assert_feasible(asked, hierarchical(asked, fifo_within=False))
    alike = problem(asked.rates, asked.supply, gpus=asked.size)  # of one tenant
    lowest = objectives.levels(alike, hierarchical(alike, fifo_within=False)).min()
    assert lowest == pytest.approx(objectives.levels(alike, objectives.max_min(alike)).min(), rel=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_water_filling_no_level_can_rise_without_lowering_one_that_is_no_higher(seed: int) -> None:
    asked = drawn(seed)
    same = problem(asked.rates, asked.supply, gpus=asked.size)
    level = objectives.levels(same, hierarchical(same, fifo_within=False))
    normal = same.rates * (same.size / objectives.equal_rates(same))[:, None]
    for row in range(len(same)):
        kept = np.where(level <= level[row] * (1 + 1e-4), level, 0.0)
        # The job could rise if these shares gave it more while all levels up to its own are kept.
        count, kinds = same.rates.shape
        found = linprog(
            -np.concatenate([normal[row] if m == row else np.zeros(kinds) for m in range(count)]),
            A_ub=np.concatenate(
                [
                    np.kron(np.eye(count), np.ones(kinds)),
                    np.concatenate([np.diag(sizes) for sizes in same.gpus], axis=1),
                    -np.concatenate([np.eye(count)[:, [m]] @ normal[m : m + 1] for m in range(count)], axis=1),
                ]
            ),
            b_ub=np.concatenate([np.ones(count), same.supply, -kept * (1 - 1e-6)]),
            bounds=[(0, None if able else 0) for able in same.able.reshape(-1)],
        )
        assert -found.fun <= level[row] * 1.005 + 1e-3 * level.max()


def test_tenants_get_their_weights_and_fifo_serves_the_oldest_job_of_each() -> None:
    asked = problem([[1.0]] * 3, [2], tenants=[1, 1, 2], weights={1: 1.0, 2: 1.0})
    assert hierarchical(asked, fifo_within=False)[:, 0] == pytest.approx([0.5, 0.5, 1.0], abs=1e-4)
    assert hierarchical(asked, fifo_within=True)[:, 0] == pytest.approx([1.0, 0.0, 1.0], abs=1e-4)


def test_pairs_that_are_faster_together_raise_the_lowest_level() -> None:
    alone = problem([[1.0], [1.0]], [1])
    paired = replace(alone, pairs=np.array([[0, 1]]), pair_rates=np.array([[[0.8, 0.9]]]))
    x = objectives.max_min(paired)
    assert objectives.levels(alone, objectives.max_min(alone)).min() == pytest.approx(0.5, rel=CLOSE)
    assert objectives.levels(paired, x).min() == pytest.approx(0.9 / 1.1, rel=1e-2)
    assert x[2, 0] + x[:2].sum() <= 1 + 1e-6


def test_random_pairs_have_equal_gpus_and_last_while_both_jobs_are_there() -> None:
    asked = problem([[1.0]] * 5, [2], gpus=[1, 1, 1, 2, 2])
    every = replace(asked, pairs=np.array([[0, 1], [0, 2], [1, 2], [3, 4]]), pair_rates=np.full((4, 1, 2), 0.7))
    x, partner = random_pairs(every, {}, Random(1))
    assert partner[4] == 5
    assert len(partner) == 4
    assert (x.sum(axis=0) > 0).all()
    assert random_pairs(every, partner, Random(2))[1].items() >= partner.items()
    assert random_pairs(every.rows([0, 1]), {}, Random(1))[1] == {}


def test_gandiva_fair_gives_each_job_an_equal_part_of_each_type() -> None:
    asked = problem([[1.0, 2.0], [5.0, 1.0]], [1, 3], gpus=[4, 1])
    assert objectives.gandiva_fair(asked) == pytest.approx(np.array([[0.25, 0.75]] * 2))


def test_fifo_gives_the_oldest_job_its_fastest_type_and_lets_no_job_overtake() -> None:
    asked = problem([[3.0, 1.0], [3.0, 2.0], [1.0, 1.0], [1.0, 1.0]], [1, 2], gpus=[1, 1, 2, 1])
    assert objectives.fifo(asked).tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("seed", range(20))
def test_allox_starts_an_order_of_least_total_completion_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = problem(rng.uniform(0.5, 5.0, (4, 2)), [1, 1], left=rng.uniform(100, 1000, 4))
    run_s = asked.left[:, None] / asked.rates

    def total_s(order: tuple[int, ...], gpu_of: tuple[int, ...]) -> float:
        clock, total = [0.0, 0.0], 0.0
        for row in order:
            clock[gpu_of[row]] += run_s[row, gpu_of[row]]
            total += clock[gpu_of[row]]
        return total

    every = [(total_s(o, g), o, g) for o in permutations(range(4)) for g in product(range(2), repeat=4)]
    least = min(total for total, _, _ in every)
    firsts = {
        frozenset((gpu, next(row for row in order if gpu_of[row] == gpu)) for gpu in set(gpu_of))
        for total, order, gpu_of in every
        if total <= least * (1 + 1e-9)
    }
    x = allox(asked, {})
    assert frozenset((int(gpu), int(row)) for row, gpu in zip(*np.nonzero(x), strict=True)) in firsts


def test_allox_keeps_what_runs_and_leaves_out_jobs_with_several_gpus() -> None:
    asked = problem([[1.0, 9.0], [1.0, 9.0], [1.0, 9.0]], [1, 1], gpus=[1, 1, 2])
    assert allox(asked, {1: "A"}).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_equal_jobs_solved_as_one_lose_nothing() -> None:
    rng = np.random.default_rng(1)
    kinds = rng.uniform(0.5, 5.0, (5, 3))
    asked = problem(kinds[rng.integers(0, 5, 200)], [20, 20, 20])
    exact = objectives.levels(asked, objectives.max_min(asked)).min()
    x = solve(asked, objectives.max_min, exact_up_to=8, equal=Equal.RATES, seed=0).x
    assert_feasible(asked, x)
    assert objectives.levels(asked, x).min() == pytest.approx(exact, rel=CLOSE)


def test_random_parts_lose_little_and_are_the_same_for_the_same_seed() -> None:
    rng = np.random.default_rng(2)
    asked = problem(rng.uniform(0.5, 5.0, (400, 3)), [60, 60, 60])
    exact = objectives.levels(asked, objectives.max_min(asked)).min()
    first, again = (solve(asked, objectives.max_min, exact_up_to=100, equal=Equal.NONE, seed=3).x for _ in range(2))
    assert_feasible(asked, first)
    assert (first == again).all()
    assert exact * 0.9 <= objectives.levels(asked, first).min() <= exact * (1 + CLOSE)


@pytest.mark.parametrize("seed", range(20))
def test_no_shares_exceed_the_bound_and_the_optimum_is_close_to_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = rng.lognormal(0, 1, (80, 3)) * (rng.random((80, 3)) > 0.2)
    rates[:, 0] += 0.1
    asked = problem(rates, rng.integers(2, 60, 3), gpus=rng.choice([1, 2, 4], 80))
    best = float(objectives.levels(asked, objectives.max_min(asked)).min())
    bound = highest_level(asked, objectives.level_scale(asked))
    assert best <= bound * (1 + CLOSE)
    assert bound <= best * 1.02
