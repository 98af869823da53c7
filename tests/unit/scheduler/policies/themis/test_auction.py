"""The auction by its properties, against enumeration, and what lying would gain in it."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.policies.themis.auction import Bid, Outcome, Payment, Row, hold
from tests.profiles import examples


def bid(name: str, values: Mapping[int, float], *, gpu_type: str = "A100", **fields: float) -> Bid:
    return Bid(name, 1, tuple(Row(gpu_type, gpus, True, value) for gpus, value in values.items()), **fields)


def rigid(name: str, gpus: int, value: float = 1.0) -> Bid:
    return bid(name, {gpus: value})


@st.composite
def auctions(draw: st.DrawFn, types: Sequence[str] = ("A100", "V100")) -> tuple[list[Bid], dict[str, int]]:
    supply = {kind: draw(st.integers(1, 6)) for kind in types[: draw(st.integers(1, len(types)))]}
    bids = []
    for index in range(draw(st.integers(1, 4))):
        rows = [
            Row(kind, gpus, True, draw(st.floats(0.01, 10.0)))
            for kind in supply
            for gpus in draw(st.sets(st.integers(1, supply[kind]), max_size=3))
        ]
        held = draw(st.sampled_from([0.0, 0.0, 0.5]))
        bids.append(Bid(f"bidder {index}", 1, tuple(rows), held, draw(st.sampled_from([1.0, 1.0, 2.0]))))
    return bids, supply


def allocations(bids: Sequence[Bid], supply: Mapping[str, int]) -> Iterator[dict[str, tuple[Row | None, float]]]:
    """Every feasible choice of at most one row a bidder: the winners with their rows and values."""
    options = [[(None, each.held), *((row, row.value) for row in each.rows)] for each in bids]
    for chosen in itertools.product(*options):
        used = Counter[str]()
        for row, _ in chosen:
            if row is not None:
                used[row.gpu_type] += row.gpus
        if all(used[kind] <= supply[kind] for kind in used):
            yield {each.bidder: pair for each, pair in zip(bids, chosen, strict=True) if pair[1] > 0}


def log_welfare(bids: Sequence[Bid], allocation: Mapping[str, tuple[Row | None, float]], without: str = "") -> float:
    weights = {each.bidder: each.weight for each in bids}
    return math.fsum(weights[name] * math.log(value) for name, (_, value) in allocation.items() if name != without)


def weight_of(bids: Sequence[Bid], names: Iterator[str] | Sequence[str]) -> float:
    weights = {each.bidder: each.weight for each in bids}
    return math.fsum(weights[name] for name in names)


def values(bids: Sequence[Bid], outcome: Outcome) -> dict[str, tuple[Row | None, float]]:
    held = {each.bidder: each.held for each in bids}
    return {name: (win.row, held[name] if win.row is None else win.row.value) for name, win in outcome.wins.items()}


@given(auctions())
@settings(max_examples=examples(200), deadline=None)
def test_it_is_the_best_allocation_of_the_largest_set_of_winners(case: tuple[list[Bid], dict[str, int]]) -> None:
    bids, supply = case
    outcome = hold(bids, supply, auction=1)
    won, every = values(bids, outcome), list(allocations(bids, supply))
    most = max(weight_of(bids, list(each)) for each in every)
    assert weight_of(bids, list(won)) == pytest.approx(most)
    assert won in every  # within the supply, and rows that were bid
    best = max(log_welfare(bids, each) for each in every if weight_of(bids, list(each)) >= most - 1e-9)
    assert log_welfare(bids, won) == pytest.approx(best, abs=1e-6)
    weights = {each.bidder: each.weight for each in bids}
    for name, win in outcome.wins.items():
        others = [each for each in bids if each.bidder in won and each.bidder != name]
        alone = max(log_welfare(others, each) for each in allocations(others, supply) if len(each) == len(others))
        assert win.part == pytest.approx(
            math.exp((best - log_welfare(bids, {name: won[name]}) - alone) / weights[name])
        )
        assert 0 < win.part <= 1


def test_a_single_bidder_pays_nothing() -> None:
    outcome = hold([bid("a", {1: 0.5, 4: 1.5})], {"A100": 8}, auction=1)
    assert {name: (win.row and win.row.gpus, win.part) for name, win in outcome.wins.items()} == {"a": (4, 1.0)}


def test_rigid_bidders_that_do_not_all_fit_keep_their_leases() -> None:
    # Winners chosen anew without one of the two would let the third one in, and both would pay everything.
    outcome = hold([rigid("a", 4), rigid("b", 4), rigid("c", 4)], {"A100": 8}, auction=1)
    assert [win.part for win in outcome.wins.values()] == [1.0, 1.0]


def test_equal_bidders_of_linear_value_pay_with_half_of_their_lease() -> None:
    rows = {gpus: gpus / 8 for gpus in (1, 2, 4, 8)}
    outcome = hold([bid("a", rows), bid("b", rows)], {"A100": 8}, auction=1)
    assert {name: (win.row and win.row.gpus, round(win.part, 9)) for name, win in outcome.wins.items()} == {
        "a": (4, 0.5),
        "b": (4, 0.5),
    }


def test_payment_in_gpus_takes_the_largest_row_within_the_part() -> None:
    rows = {gpus: gpus / 8 for gpus in (1, 2, 4, 8)}
    outcome = hold([bid("a", rows), rigid("b", 4)], {"A100": 8}, auction=1, payment=Payment.GPUS)
    assert {name: (win.row and win.row.gpus, round(win.part, 9)) for name, win in outcome.wins.items()} == {
        "a": (4, 1.0),
        "b": (4, 0.5),  # no row within half of its gang: it pays with time
    }
    outcome = hold([bid("a", rows), bid("b", rows)], {"A100": 8}, auction=1, payment=Payment.GPUS)
    assert [(win.row and win.row.gpus, win.part) for win in outcome.wins.values()] == [(2, 1.0), (2, 1.0)]


def test_between_equal_winners_decides_the_number_of_the_auction() -> None:
    def winner(number: int) -> str:
        bids = [Bid(name, number, (Row("A100", 4, True, 1.0),)) for name in "ab"]
        return next(iter(hold(bids, {"A100": 4}, auction=number).wins))

    assert {winner(number) for number in range(20)} == {"a", "b"}
    assert [winner(number) for number in range(20)] == [winner(number) for number in range(20)]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (rigid("x", 4, math.nan), "nan"),
        (rigid("x", 4, -1.0), "-1"),
        (rigid("x", 4, math.inf), "inf"),
        (rigid("x", 4, 0.0), "the value 0"),
        (rigid("x", 9), "9 A100 were not offered"),
        (rigid("x", 0), "0 A100 were not offered"),
        (bid("x", {4: 1.0}, gpu_type="H100"), "4 H100 were not offered"),
        (Bid("x", 0, (Row("A100", 4, True, 1.0),)), "for auction 0, not for auction 1"),
        (bid("x", {4: 1.0}, held=math.nan), "what it holds"),
        (bid("x", {4: 1.0}, weight=0.0), "weight"),
    ],
)
def test_a_wrong_bid_counts_as_none_and_is_named(wrong: Bid, why: str) -> None:
    outcome = hold([wrong, rigid("a", 4)], {"A100": 8}, auction=1)
    assert why in outcome.refused["x"]
    assert list(outcome.wins) == ["a"]


# What lying gains. A table of values is true or one of these factors of it, row by row.

_FACTORS = (0.25, 0.8, 1.0, 1.2, 4.0)


def _gain(bids: Sequence[Bid], supply: Mapping[str, int], payment: Payment) -> float:
    """The most that the first bidder gains by a lie, relative: the value of its GPUs times the part of its lease."""
    honest, *others = bids

    def worth(told: Bid) -> float:
        win = hold([told, *others], supply, auction=1, payment=payment).wins.get(told.bidder)
        if win is None or win.row is None:
            return 0.0
        return {row.gpus: row.value for row in honest.rows}[win.row.gpus] * win.part

    true = worth(honest)
    lies = (
        bid(honest.bidder, {row.gpus: row.value * factor for row, factor in zip(honest.rows, factors, strict=True)})
        for factors in itertools.product(_FACTORS, repeat=len(honest.rows))
    )
    return max(worth(lie) for lie in lies) / true - 1


def _concave(power: float) -> dict[int, float]:
    return {gpus: gpus**power for gpus in (1, 2, 3)}


def test_no_lie_gains_where_time_is_paid_and_all_bidders_fit() -> None:
    for mine, theirs, third in itertools.product((0.3, 0.6, 1.0), repeat=3):
        bids = [bid("a", _concave(mine)), bid("b", _concave(theirs)), bid("c", _concave(third))]
        for supply in (3, 4):
            assert _gain(bids, {"A100": supply}, Payment.LEASE) <= 1e-6


def test_lies_gain_where_gpus_are_paid() -> None:
    gains = [
        _gain([bid("a", _concave(mine)), bid("b", _concave(theirs))], {"A100": supply}, Payment.GPUS)
        for mine, theirs in itertools.product((0.3, 0.6, 1.0), repeat=2)
        for supply in (3, 4, 6)
    ]
    assert max(gains) > 0.1


def test_a_lie_gains_where_winners_are_too_many() -> None:
    # The set of the winners is chosen by what they say: only within it no lie gains.
    bids = [rigid("a", 4, 1.0), rigid("b", 4, 1.5)]
    assert "a" not in hold(bids, {"A100": 4}, auction=1).wins
    assert "a" in hold([rigid("a", 4, 2.0), bids[1]], {"A100": 4}, auction=1).wins
