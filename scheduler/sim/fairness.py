"""Fairness of an allocation: sharing incentive, Pareto efficiency and envy-freeness, each with a witness.

Parties (tenants, or jobs) hold bundles of GPUs. The value V of a bundle for a party is the most work that its jobs
do on it, in GPUs: a job that runs as fast as on its first choice of 4 GPUs counts 4. Where a party is one job, V orders
bundles as 1/rho does, whose other terms the bundle does not change. docs/operator/fairness.md has the definitions
and examples.

Sources: Ghodsi et al., Dominant Resource Fairness (NSDI 2011), §3, for the three properties; Mahajan et al., Themis
(NSDI 2020), §3, for judging them by what jobs do with the GPUs and not by how many they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import fsum, inf

import numpy as np

_TIME_IS_OVER = 1  # a status of `milp`

EPSILON = 1e-6  # a smaller difference of values, relative, is a rounding error

# The seconds that are left to decide.
Remaining = Callable[[], float]


def _for_ever() -> float:
    return inf


# GPU type → the GPUs on each node.
Bundle = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a job: `ranks` of `gpus` each on one type, and the work per second that it does so, in GPUs.

    Ranks that are `apart` need a node each.
    """

    gpu_type: str
    gpus: int
    worth: float
    ranks: int = 1
    apart: bool = True

    @property
    def size(self) -> int:
        """Its GPUs in all."""
        return self.ranks * self.gpus


Jobs = Mapping[int, tuple[Way, ...]]  # job id → its ways to run


@dataclass(frozen=True, slots=True)
class Party:
    """A tenant or a job: its live jobs, the GPUs that it holds, and its own share of each GPU type in GPUs."""

    name: str
    jobs: Jobs
    holds: Bundle
    share: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Loss:
    """The witness against the sharing incentive: the party's value of its own share is above that of what it holds.

    `job_ids` are the jobs that would do more alone, ascending.
    """

    party: Party
    value: float
    alone: float
    job_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Envy:
    """The witness against envy-freeness: the party's value of what `other` holds is above that of what it holds."""

    party: Party
    other: Party
    value: float
    other_value: float


@dataclass(frozen=True, slots=True)
class Better:
    """The witness against Pareto efficiency: which jobs to run and how, for values that are nowhere lower.

    `values` are by party, before and after.
    """

    runs: Mapping[int, Way]
    values: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The three verdicts, by their witnesses: a property without a witness holds. The worst witness is first.

    `kept_by_shares`: shares are hard, and no better allocation leaves each party within its own.
    """

    losses: tuple[Loss, ...]
    better: Better | None
    envies: tuple[Envy, ...]
    kept_by_shares: bool = False


def verdicts(
    parties: Sequence[Party], supply: Bundle, remaining_s: Remaining = _for_ever, *, hard: bool = False
) -> Verdicts:
    """The verdicts on what these parties hold of the supply; `hard` if none may have more than its share.

    Raises:
        TimeoutError: the time was over before they were found.
    """
    values = _values(parties, remaining_s)
    better = _improvement(parties, supply, values, remaining_s)
    kept = hard and better is not None and _improvement(parties, supply, values, remaining_s, hard=True) is None
    return Verdicts(_losses(parties, values, remaining_s), better, _envies(parties, values, remaining_s), kept)


def improvement(parties: Sequence[Party], supply: Bundle) -> Better | None:
    """An allocation of the supply that is better for one party and worse for none; None if there is none.

    Of all such allocations, one with the largest sum of the gains, each relative to the party's most.
    """
    return _improvement(parties, supply, _values(parties, _for_ever), _for_ever)


def _values(parties: Sequence[Party], remaining_s: Remaining) -> Sequence[float]:
    return [value(party.jobs, party.holds, remaining_s) for party in parties]


def _losses(parties: Sequence[Party], values: Sequence[float], remaining_s: Remaining) -> tuple[Loss, ...]:
    """The parties that would be better off alone with their own share: V(held) < V(share)."""
    lost = []
    for party, here in zip(parties, values, strict=True):
        worths = alone(party)
        most = fsum(worths.values())
        if _less(here, most):
            runs = _solve([party.jobs], party.holds, [0.0], remaining_s)
            more = [job_id for job_id in worths if job_id not in runs or _less(runs[job_id].worth, worths[job_id])]
            lost.append(Loss(party, here, most, tuple(sorted(more))))
    return tuple(sorted(lost, key=lambda each: (each.value / each.alone, -each.alone)))


def _envies(parties: Sequence[Party], values: Sequence[float], remaining_s: Remaining) -> tuple[Envy, ...]:
    """Envy of parties: one prefers another's GPUs; only parties with equal shares are compared."""
    found = [
        Envy(party, other, own, value(party.jobs, other.holds, remaining_s))
        for party, own in zip(parties, values, strict=True)
        for other in parties
        if other is not party and other.share == party.share and _less(own, _bound(party.jobs, other.holds))
    ]
    envied = [each for each in found if _less(each.value, each.other_value)]
    return tuple(sorted(envied, key=lambda each: (each.value / each.other_value, -each.other_value)))


def _bound(jobs: Jobs, bundle: Bundle) -> float:
    """A value that the bundle does not exceed: of each GPU the most that a job does on one."""
    best: dict[str, float] = {}
    for way in {way for ways in jobs.values() for way in ways}:
        best[way.gpu_type] = max(best.get(way.gpu_type, 0.0), way.worth / way.size)
    return sum(sum(nodes) * best.get(kind, 0.0) for kind, nodes in bundle.items())


def _improvement(
    parties: Sequence[Party], supply: Bundle, before: Sequence[float], remaining_s: Remaining, *, hard: bool = False
) -> Better | None:
    runs = _solve([party.jobs for party in parties], supply, before, remaining_s, caps=parties if hard else ())
    after = [sum(runs[job_id].worth for job_id in party.jobs if job_id in runs) for party in parties]
    if not any(_less(old, new) for old, new in zip(before, after, strict=True)):
        return None
    return Better(runs, tuple(zip(before, after, strict=True)))


def value(jobs: Jobs, bundle: Bundle, remaining_s: Remaining = _for_ever) -> float:
    """The most work per second that the jobs do on a bundle, in GPUs; each runs as a whole gang or not at all."""
    _require_time(remaining_s)
    if len(jobs) == 1:
        (ways,) = jobs.values()
        return max((way.worth for way in ways if fits(way, bundle)), default=0.0)
    return sum(way.worth for way in _solve([jobs], bundle, [0.0], remaining_s).values())


def alone(party: Party) -> Mapping[int, float]:
    """The work per second of each job that runs on the party's own share where their sum is largest, in GPUs.

    A share may be less than a gang: jobs take turns there, so that a job has a share of the time of its gang.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 - slow to load, and for verdicts alone

    ways = [(row, job_id, way) for row, (job_id, options) in enumerate(party.jobs.items()) for way in options]
    if not ways:
        return {}
    types = sorted(party.share)
    rows = np.zeros((len(party.jobs) + len(types), len(ways)))
    for column, (row, _, way) in enumerate(ways):
        rows[row, column] = 1.0
        if way.gpu_type in types:
            rows[len(party.jobs) + types.index(way.gpu_type), column] = way.size
    upper = np.concatenate([np.ones(len(party.jobs)), [party.share[kind] for kind in types]])
    bounds = [(0.0, 1.0 if way.gpu_type in types else 0.0) for _, _, way in ways]
    solved = linprog([-way.worth for _, _, way in ways], A_ub=rows, b_ub=upper, bounds=bounds, method="highs")
    worths: dict[int, float] = {}
    for (_, job_id, way), part in zip(ways, solved.x, strict=True):
        if part > EPSILON:
            worths[job_id] = worths.get(job_id, 0.0) + way.worth * float(part)
    return worths


def _solve(
    groups: Sequence[Jobs],
    supply: Bundle,
    floors: Sequence[float],
    remaining_s: Remaining,
    *,
    caps: Sequence[Party] = (),
) -> Mapping[int, Way]:
    """The runs with the largest sum of the groups' values, each relative to its most, where none is below its floor.

    A mixed integer program with one column for each way of each kind of jobs: how many of them run so. Jobs of a group
    with equal ways are one kind. It has these rows:

    1. the jobs of a kind that run are at most as many as there are;
    2. for each GPU type and each size g of a rank there, the ranks divided by g, rounded down, are at most the GPUs of
       each node divided by g, rounded down: what fits on the nodes satisfies it;
    3. the value of each group is at least its floor;
    4. with `caps`, the parties of the groups, the GPUs of each group are at most its share, or what it holds already.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to load, and for verdicts alone
    from scipy.sparse import coo_array  # noqa: PLC0415

    kinds: dict[tuple[int, tuple[Way, ...]], list[int]] = {}
    for group, jobs in enumerate(groups):
        for job_id, ways in jobs.items():
            kinds.setdefault((group, ways), []).append(job_id)
    columns = [(group, kind, way) for kind, (group, ways) in enumerate(kinds) for way in ways if fits(way, supply)]
    if not columns:
        return {}
    most = [sum(max((way.worth for way in ways), default=0.0) for ways in jobs.values()) for jobs in groups]
    entries: list[tuple[int, int, float]] = []
    lower: list[float] = []
    upper: list[float] = []

    def row(values: Iterable[tuple[int, float]], least: float, limit: float) -> None:
        entries.extend((len(lower), column, each) for column, each in values)
        lower.append(least)
        upper.append(limit)

    by_kind: dict[int, list[int]] = {}
    by_type: dict[str, list[int]] = {}
    by_group: dict[int, list[int]] = {}
    jobs_of = list(kinds.values())
    for column, (group, kind, way) in enumerate(columns):
        by_kind.setdefault(kind, []).append(column)
        by_type.setdefault(way.gpu_type, []).append(column)
        by_group.setdefault(group, []).append(column)
    for kind, members in by_kind.items():
        row(((column, 1.0) for column in members), -inf, float(len(jobs_of[kind])))
    for gpu_type, members in by_type.items():
        for size in {1, *(columns[column][2].gpus for column in members)}:
            used = [(column, float(columns[column][2].ranks * (columns[column][2].gpus // size))) for column in members]
            row(used, -inf, float(sum(gpus // size for gpus in supply[gpu_type])))
    for group, members in by_group.items():
        row(((column, columns[column][2].worth) for column in members), floors[group] * (1 - EPSILON / 10), inf)
    for (group, party), gpu_type in product(enumerate(caps), supply):
        own = [
            (column, way)
            for column, (owner, _, way) in enumerate(columns)
            if (owner, way.gpu_type) == (group, gpu_type)
        ]
        most_gpus = max(party.share.get(gpu_type, 0.0), float(sum(party.holds.get(gpu_type, ()))))
        row(((column, float(way.size)) for column, way in own), -inf, most_gpus)
    at, where, values = zip(*entries, strict=True)
    solved = milp(
        [-way.worth / most[group] for group, _, way in columns],
        constraints=LinearConstraint(
            coo_array((values, (at, where)), (len(lower), len(columns))).tocsr(), lower, upper
        ),
        bounds=Bounds(0, [len(jobs_of[kind]) for _, kind, _ in columns]),
        integrality=np.ones(len(columns)),
        options={"mip_rel_gap": 1e-9, "time_limit": _require_time(remaining_s)},
    )
    if solved.status == _TIME_IS_OVER:
        raise TimeoutError("the time for the verdicts is over")
    if solved.x is None:
        raise ValueError(f"what the parties hold is not a part of the supply: {solved.message}")
    runs: dict[int, Way] = {}
    left = [iter(jobs) for jobs in jobs_of]
    for (_, kind, way), number in zip(columns, solved.x, strict=True):
        runs |= dict.fromkeys(islice(left[kind], round(number)), way)
    return runs


def _require_time(remaining_s: Remaining) -> float:
    left_s = remaining_s()
    if left_s <= 0:
        raise TimeoutError("the time for the verdicts is over")
    return left_s


def fits(way: Way, bundle: Bundle) -> bool:
    """True if the nodes of the bundle have the GPUs of each rank."""
    nodes = bundle.get(way.gpu_type, ())
    places = [gpus // way.gpus for gpus in nodes]
    return sum(min(each, 1) if way.apart else each for each in places) >= way.ranks


def _less(smaller: float, larger: float) -> bool:
    return smaller < larger * (1 - EPSILON) - 1e-12
