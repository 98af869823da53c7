"""The auction beside other policies on generated sweeps, on smaller instances than those of the page."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from bench.published import themis
from bench.published.data import NoData, data_folder, with_part
from bench.published.themis import POLICIES, WORKLOADS, Compared, Outcome, Policy, Traded, compared, split
from scheduler.engine.policy import POLICIES as KNOWN

ALIKE, SLOWER, PHILLY = WORKLOADS
AUCTION = Policy("themis")
HALF_H = 200 * themis.SPLIT_RUN_S / 8 / 3600  # the first tenant alone on half of 16 GPUs


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return data_folder()
    except NoData as error:
        pytest.skip(str(error))


def outcomes(folder: Path, workload: themis.Workload, *names: str) -> list[Outcome]:
    trace = workload.trace_of(folder, 0.5, seed=0, applications=20)
    return [themis.run(trace, POLICIES[name], seed=0, cluster="V100:16x8") for name in names]


def test_where_distance_costs_nothing_the_largest_rho_is_close_to_that_of_the_linear_program(folder: Path) -> None:
    auction, program = outcomes(folder, ALIKE, "themis", "themis-lp")
    assert auction.rho_max <= 1.1 * program.rho_max
    assert auction.rho_mean <= program.rho_mean


def test_at_a_contention_of_one_no_sweep_is_much_slower_than_alone(folder: Path) -> None:
    assert compared(folder, (ALIKE, 1.0, "themis", 0)).rho_max <= 1.3


def test_the_auction_takes_less_gpu_time_where_distance_costs_some(folder: Path) -> None:
    auction, program, fifo = outcomes(folder, SLOWER, "themis", "themis-lp", "fifo")
    assert auction.gpu_hours < 0.95 * min(program.gpu_hours, fifo.gpu_hours)
    assert auction.rho_max < min(program.rho_max, fifo.rho_max)


def test_a_tenant_that_splits_its_sweep_gains_no_part_of_the_pool() -> None:
    whole, apart = (split(AUCTION, whole=one, jobs=200, cluster="V100:4x4") for one in (True, False))
    # Its jobs end in another order, but not in more than about its half of the pool.
    assert apart.last_h["first"] >= 0.98 * HALF_H
    assert apart.last_h["second"] <= 1.1 * whole.last_h["second"]


def test_the_parts_of_the_page_are_made_anew_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    found: dict[Compared, Outcome] = {
        what: Outcome(1.5 + what[3], 1.25, 1.0 + 0.1 * what[1], 0.9, 1000 * what[1], 10)
        for what in product(WORKLOADS, themis.CONTENTIONS, POLICIES, themis.SEEDS)
    }
    table = themis.policies(found).splitlines()
    assert len(table) == 2 + len(WORKLOADS) * len(POLICIES)
    row = "3.50, 3.50, 3.50 | 1.25, 1.25, 1.25 | 1.10, 1.20, 1.40 | 0.90, 0.90, 0.90 | 1,000; 2,000; 4,000 | 10; 10; 10"
    assert table[2] == f"| Gavel's jobs, S = 1 | themis | {row} |"
    tried: dict[Traded, Outcome] = {
        (fairness, lease_s): Outcome(1.0 + fairness, 1.0, 1.0, 1.0, lease_s, 0)
        for fairness, lease_s in product(themis.FAIRNESS, themis.LEASES_S)
    }
    assert themis.trades(tried).splitlines()[4] == "| 0.4 | 1.40, 300 | 1.40, 600 | 1.40, 1,200 | 1.40, 2,400 |"
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        themis.draw(tried, path)
    assert first.read_bytes() == second.read_bytes()
    text = "before\n<!-- trade -->\nold\n<!-- /trade -->\nafter\n"
    assert with_part(text, "trade", "new\n") == text.replace("old", "new")


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_of_the_page_is_one_with_these_parameters(name: str) -> None:
    KNOWN.make(POLICIES[name].name, dict(POLICIES[name].params))
