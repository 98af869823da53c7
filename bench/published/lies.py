"""The gain of a lie for a bidder in the auction of `themis`: the value of its GPUs times the part of its lease.

Payments are time of a lease, GPUs, or, which no cluster can carry out, a fraction of all GPUs that are won.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from scheduler.policies.themis.auction import Bid, Payment, Row, hold
from scheduler.policies.themis.bidding import Application, Member

_TYPE = "V100"
_SUPPLIES = (4, 6, 8)
_SIZES = (1, 2, 3, 4)
_POWERS = (0.3, 0.6, 0.9, 1.0)
_FACTORS = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)
_WORKS = (2.0, 8.0, 32.0)  # GPU-hours left of a sweep
_AGES_H = (0.0, 1.0, 4.0)
_MEMBERS = 4


Worth = Callable[[float], float]  # the true value of a number of GPUs


@dataclass(frozen=True, slots=True)
class Gain:
    """The largest gain by a lie, relative to the truth, and in how many of the auctions a lie gains a thousandth."""

    largest: float
    gainful: int
    auctions: int


def about_values(payment: Payment | None) -> Gain:
    """Two bidders with values GPUs^power, one of which tells each row's value times a factor of its own."""
    gains = []
    for mine, theirs, supply in itertools.product(_POWERS, _POWERS, _SUPPLIES):
        honest, other = _by_power("a", mine), _by_power("b", theirs)
        lies = (
            replace(
                honest,
                rows=tuple(replace(row, value=row.value * by) for row, by in zip(honest.rows, factors, strict=True)),
            )
            for factors in itertools.product(_FACTORS[::2], repeat=len(honest.rows))
        )
        gains.append(_largest(honest, lies, other, lambda gpus, power=mine: gpus**power, supply, payment=payment))
    return _gain(gains)


def about_work(payment: Payment | None) -> Gain:
    """Two sweeps of four members, some of which wait already, one of which tells its work times a factor."""
    gains = []
    for mine, theirs in itertools.product(itertools.product(_WORKS, _AGES_H), repeat=2):
        for supply in _SUPPLIES:
            honest, other = _sweep(*mine), _sweep(*theirs)
            lies = (_bid("a", _sweep(mine[0] * factor, mine[1]), supply) for factor in _FACTORS)

            def worth(gpus: float, sweep: Application = honest, supply: int = supply) -> float:
                return _alone_s(sweep, supply) / sweep.shared_s(0.0, {_TYPE: gpus})

            bids = _bid("a", honest, supply), _bid("b", other, supply)
            gains.append(_largest(bids[0], lies, bids[1], worth, supply, payment=payment))
    return _gain(gains)


def table() -> str:
    """All lies with each payment, as a table for docs/design/measurements/policies.md."""
    lines = ["| a lie about | paid with | largest gain | auctions where a lie gains |", "|---|---|---:|---:|"]
    kinds = {"the values of its rows": about_values, "the work that it has left": about_work}
    payments = {"time": Payment.LEASE, "GPUs": Payment.GPUS, "fractions of GPUs": None}
    for (lie, gain), (payment, how) in itertools.product(kinds.items(), payments.items()):
        found = gain(how)
        largest = f"{100 * found.largest:.0f} %" if found.largest > 1e-3 else "none"
        lines.append(f"| {lie} | {payment} | {largest} | {found.gainful} of {found.auctions} |")
    return "\n".join(lines)


def _gain(gains: Sequence[float]) -> Gain:
    return Gain(max(gains), sum(gain > 1e-3 for gain in gains), len(gains))


def _largest(
    honest: Bid, lies: Iterable[Bid], other: Bid, value: Worth, supply: int, *, payment: Payment | None
) -> float:
    def worth(told: Bid) -> float:
        outcome = hold([told, other], {_TYPE: supply}, auction=1, payment=payment or Payment.LEASE)
        win = outcome.wins.get(told.bidder)
        if win is None or win.row is None:
            return 0.0
        return value(win.row.gpus * win.part) if payment is None else value(win.row.gpus) * win.part

    return max(map(worth, lies)) / worth(honest) - 1


def _by_power(name: str, power: float) -> Bid:
    return Bid(name, 1, tuple(Row(_TYPE, gpus, True, gpus**power) for gpus in _SIZES))


def _sweep(gpu_hours: float, age_h: float) -> Application:
    members = [Member(number, gpu_hours * 3600 / _MEMBERS, 0.0, {_TYPE: 1}, {_TYPE: 1.0}) for number in range(_MEMBERS)]
    return Application("sweep", 1, -3600 * age_h, tuple(members))


def _alone_s(sweep: Application, supply: int) -> float:
    return sweep.isolated_s({_TYPE: supply}, 2.0, _MEMBERS)


def _bid(name: str, sweep: Application, supply: int) -> Bid:
    bid = sweep.bid(1, {_TYPE: supply}, now=0.0, isolated_s=_alone_s(sweep, supply), weight=1.0)
    return replace(bid, bidder=name)
