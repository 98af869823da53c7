"""Bidders of an auction: the applications that are served worst, and of one tenant no more than its part allows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from scheduler.policies.themis.bidding import Application

MAX_BIDDERS = 64
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Candidate:
    """An eligible application: its rho with the GPUs that it has now, and with its share of the pool from now on.

    `isolated_s` is its T_id, s; it would bid for `fewest` to `most` GPUs.
    """

    application: Application
    rho: float
    rho_from_now: float
    isolated_s: float
    fewest: int
    most: int


def ranked(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """The candidates, the worst served first, and without GPUs those first that would end latest by their share.

    Their wait alone would not tell one that has had GPUs from one that never had any.
    """
    return sorted(
        candidates,
        key=lambda each: (-each.rho, -each.rho_from_now, each.application.arrived_at, each.application.key),
    )


def split(
    candidates: Sequence[Candidate],
    fairness: float,
    offered: int,
    weights: Mapping[int, float],
    held: Mapping[int, int] | None = None,
) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
    """The bidders of the ranked candidates, and those outside.

    The first max(1, ⌈(1 - fairness) · candidates⌉) bid, at most `MAX_BIDDERS`. While several tenants want GPUs, the
    bidders of one tenant ask together for at most its part, by weight, of the GPUs that are offered or that these
    tenants hold by leases, less those that it holds itself (`held`), and for what the others leave. The first bidder
    of a tenant without GPUs bids in any case. So a tenant that divides a sweep into many gains no GPUs by it.
    """
    places = max(1, min(MAX_BIDDERS, math.ceil((1 - fairness) * len(candidates) - 1e-9)))
    wanted = Counter[int]()
    for each in candidates:
        wanted[each.application.tenant_id] += each.most
    total = sum(weights.get(tenant, 1.0) for tenant in wanted)
    has = {tenant: (held or {}).get(tenant, 0) for tenant in wanted}
    shared = offered + sum(has.values())
    part = {tenant: max(0.0, shared * weights.get(tenant, 1.0) / total - has[tenant]) for tenant in wanted}
    spare = offered - sum(min(wanted[tenant], part[tenant]) for tenant in wanted)
    limit = {tenant: offered if len(wanted) == 1 else part[tenant] + spare for tenant in wanted}
    asked, inside, outside = Counter[int](), list[Candidate](), list[Candidate]()
    for each in candidates:
        tenant = each.application.tenant_id
        first = not asked[tenant] and not has[tenant]
        fits = len(wanted) == 1 or first or asked[tenant] + each.fewest <= limit[tenant] + _ROUNDING
        if len(inside) < places and fits:
            inside.append(each)
            asked[tenant] += each.fewest
        else:
            outside.append(each)
    return inside, outside


def shares(bidders: Sequence[Candidate], weights: Mapping[int, float]) -> Sequence[float]:
    """The weight of each bidder: its tenant's, divided among the tenant's bidders."""
    number = Counter(each.application.tenant_id for each in bidders)
    return [weights.get(each.application.tenant_id, 1.0) / number[each.application.tenant_id] for each in bidders]


def drawn(outside: Sequence[Candidate], holders: frozenset[str], draw: Random) -> Sequence[Candidate]:
    """The order in which those outside get left-overs: holders on nodes with free GPUs first, then by lot.

    Tenants take turns, so that no tenant gains by many applications.
    """
    shuffled = sorted(outside, key=lambda each: each.application.key)
    draw.shuffle(shuffled)
    turn = Counter[tuple[bool, int]]()
    order: list[tuple[bool, int, int, Candidate]] = []
    for place, each in enumerate(shuffled):
        group = (each.application.key not in holders, each.application.tenant_id)
        order.append((group[0], turn[group], place, each))
        turn[group] += 1
    return [each for *_, each in sorted(order, key=lambda entry: entry[:3])]
