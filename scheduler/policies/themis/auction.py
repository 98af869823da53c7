"""One auction: which bidder wins how many GPUs, and the part of a full lease that it keeps after its hidden payment.

Source: Mahajan et al., Themis (NSDI 2020), §4, whose partial allocation is that of Cole, Gkatzelis and Goel, Mechanism
design for fair division (EC 2013). Of all the feasible winners, the auction takes

1. the largest set by weight, then the one with the largest weighted sum of log V; this set is then fixed;
2. the rows that maximise the weighted sum of log V over the set;
3. for each winner i the part exp of (1 / w_i) · the sum over the other winners j of w_j · (log V_j with i - log V_j
   without i), above 0 and at most 1: what its presence costs the others.

Winners chosen anew without i would make each payment total: of three bidders of 4 GPUs each on 8 GPUs, the third
would win in the place of each of the other two.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from scheduler.policies.themis import knapsack, program
from scheduler.policies.themis.knapsack import Option

_WIN = 1e4  # for each unit of weight, more than all the logarithms of an auction: |log V| is below 1e2
_MIN_VALUE, _MAX_VALUE = 1e-40, 1e40


class Payment(StrEnum):
    """A winner's means of payment: time of its lease, or GPUs, as the paper does."""

    LEASE = "lease"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True)
class Row:
    """One wish of a bid: `gpus` of a type and their value. Packed GPUs are on the fewest nodes that hold them."""

    gpu_type: str
    gpus: int
    packed: bool
    value: float


@dataclass(frozen=True, slots=True)
class Bid:
    """The wishes of one bidder, of which it wins at most one; `held` is the value of what it holds without any."""

    bidder: str
    auction: int
    rows: tuple[Row, ...]
    held: float = 0.0
    weight: float = 1.0

    def without(self, rows: Collection[Row]) -> Bid:
        """The bid without these rows."""
        return replace(self, rows=tuple(row for row in self.rows if row not in rows)) if rows else self


@dataclass(frozen=True, slots=True)
class Win:
    """A bidder's win: a row, or None if it keeps its GPUs, and the part of a full lease that is left to it."""

    row: Row | None
    part: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The winners by bidder, and why bids were refused, by bidder."""

    wins: Mapping[str, Win]
    refused: Mapping[str, str]


def hold(
    bids: Sequence[Bid],
    supply: Mapping[str, int],
    *,
    auction: int,
    payment: Payment = Payment.LEASE,
    seed: int = 0,
) -> Outcome:
    """Hold the auction with this number for the supply, GPUs by type. Equal inputs give the same outcome."""
    refused: dict[str, str] = {}
    fair: list[Bid] = []
    for bid in bids:
        problem = problem_of(bid, supply, auction)
        if problem is None:
            fair.append(bid)
        else:
            refused[bid.bidder] = problem
    # Between equal winners decides the order, which is drawn for each auction.
    fair.sort(key=lambda bid: bid.bidder)
    Random(f"{seed}:{auction}").shuffle(fair)  # noqa: S311 - the same in each replay
    smallest = min((bid.weight for bid in fair), default=1.0)
    weights = [bid.weight / smallest for bid in fair]
    tables = [_options(bid, weight, supply) for bid, weight in zip(fair, weights, strict=True)]
    capacities = [supply[kind] for kind in sorted(supply)]
    solver = knapsack if len(capacities) == 1 else program
    chosen = solver.best(list(map(_winnable, tables, weights)), capacities).chosen
    winners = [index for index, option in enumerate(chosen) if option is not None]
    tables = [tables[index] for index in winners]
    best, others = solver.best(tables, capacities), solver.without_each(tables, capacities)
    wins: dict[str, Win] = {}
    for index, table, option, other in zip(winners, tables, best.chosen, others, strict=True):
        if option is None or option.row is None:
            raise RuntimeError(f"the winner {fair[index].bidder} wins nothing in the allocation among winners")
        bid = fair[index]
        part = math.exp(min(0.0, (best.total - option.worth - other) / weights[index]))
        row = bid.rows[option.row] if option.row >= 0 else None
        win = Win(row, part)
        if payment is Payment.GPUS and row is not None:
            win = _smaller([bid.rows[each.row] for each in table if each.row is not None and each.row >= 0], win)
        wins[bid.bidder] = win
    return Outcome(wins, refused)


def problem_of(bid: Bid, supply: Mapping[str, int], auction: int) -> str | None:
    """The reason that the bid does not count; None if it does."""
    if bid.auction != auction:
        return f"the bid is for auction {bid.auction}, not for auction {auction}"
    if not 0 < bid.weight < math.inf:
        return f"the weight {bid.weight:g} is not above 0"
    if not (bid.held == 0 or _MIN_VALUE <= bid.held <= _MAX_VALUE):
        return f"the value {bid.held:g} of what it holds is neither 0 nor a number from 1e-40 to 1e40"
    for row in bid.rows:
        if not 0 < row.gpus <= supply.get(row.gpu_type, 0):
            return f"{row.gpus} {row.gpu_type} were not offered"
        if not _MIN_VALUE <= row.value <= _MAX_VALUE:
            return f"the value {row.value:g} of {row.gpus} {row.gpu_type} is not a number from 1e-40 to 1e40"
    return None


def _options(bid: Bid, weight: float, supply: Mapping[str, int]) -> list[Option]:
    """The bidder's possible wins, without rows that another row beats: no more GPUs for no less."""
    types = sorted(supply)
    options = [Option(-1, 0, 0, weight * math.log(bid.held))] if bid.held > 0 else []
    for gpu_type in sorted({row.gpu_type for row in bid.rows}):
        best = bid.held
        ranked = sorted(enumerate(bid.rows), key=lambda entry: (entry[1].gpus, -entry[1].value, entry[0]))
        for index, row in ranked:
            if row.gpu_type == gpu_type and row.value > best:
                options.append(Option(index, types.index(gpu_type), row.gpus, weight * math.log(row.value)))
                best = row.value
    return options


def _winnable(table: Sequence[Option], weight: float) -> list[Option]:
    """The options with a bonus for winning, and the option to win nothing."""
    return [*(replace(one, worth=one.worth + weight * _WIN) for one in table), Option(None, 0, 0, 0.0)]


def _smaller(rows: Sequence[Row], win: Win) -> Win:
    """The win paid for with GPUs: the largest row within the part that it keeps; none: the win is paid for in time."""
    if win.row is None or win.part >= 1:
        return win
    left = win.part * win.row.gpus
    within = [row for row in rows if row.gpu_type == win.row.gpu_type and row.gpus <= left]
    return Win(max(within, key=lambda row: row.gpus), 1.0) if within else win
