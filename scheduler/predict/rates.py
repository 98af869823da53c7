"""Predicted rates of a job on each size that it accepts, from runs of jobs alike and of other jobs.

Rates are in the unit of the job, so that only jobs of one identity compare directly. In falling trust:

1. measured: runs of the same identity on this GPU type, number of GPUs and placement, pooled by inverse variance;
2. screened: short runs on few GPUs, scaled by the ratio that earlier full runs had to them;
3. claimed: what the user says, corrected by how the user's past claims compare with what was measured;
4. estimated: from the identity's rates on other types, by `scheduler.predict.completion`, and on other numbers of
   GPUs, by how jobs alike scale.

Where several of 2 to 4 know a rate, they are weighted by their precision. All of it happens with logarithms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np

from scheduler.predict.completion import Completion, Entry, fit

MIN_RATE, MAX_RATE = 1e-9, 1e12
MAX_GPUS = 1 << 20
MIN_SPREAD = 0.02  # from run to run, relative
UNSTATED_SPREAD = 0.1  # of one reading without a deviation, relative
MAX_Z = 4.0  # a claim that is further from what is known is ignored
_MAX_SPREAD = 3.0


class RateSource(StrEnum):
    """The source of a rate, in falling trust."""

    MEASURED = "measured"
    SCREENED = "screened"
    CLAIMED = "claimed"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Size:
    """GPUs of one type on all nodes together; `spread` over more than one node."""

    gpu_type: str
    gpus: int
    spread: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of rates: jobs of one `identity` compare directly; owners have a track record of claims."""

    identity: Hashable
    owner: Hashable
    tenant: Hashable


@dataclass(frozen=True, slots=True)
class Measurement:
    """One job's measurement on one size, and its spec's claim for it."""

    subject: Subject
    size: Size
    per_s: float
    deviation: float | None = None
    readings: int = 1
    screened: bool = False
    claimed: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """The sizes that a job accepts, and the rates that it claims on them by GPU type."""

    subject: Subject
    sizes: tuple[Size, ...]
    claims: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """The rate on one size, its deviation, and its source. A rate of 0: the job does not run there."""

    size: Size
    per_s: float
    deviation: float
    source: RateSource


@dataclass(frozen=True, slots=True)
class Answer:
    """The rates that are known, in the order of the sizes, and what was ignored, with the reason."""

    rates: tuple[RateEstimate, ...]
    ignored: tuple[str, ...] = ()


class Habit:
    """Mean and deviation of a logarithm, by groups: a group with few values is like the larger one around it."""

    def __init__(self, mean: float, deviation: float) -> None:
        self._prior = (mean, deviation**2)
        self._sums: dict[Hashable, tuple[int, float, float]] = {}

    def learn(self, value: float, *groups: Hashable) -> None:
        """Count a value for everything and for these groups."""
        value = min(_MAX_SPREAD, max(-_MAX_SPREAD, value))
        for group in (None, *groups):
            count, total, squares = self._sums.get(group, (0, 0.0, 0.0))
            self._sums[group] = (count + 1, total + value, squares + value * value)

    def count(self, group: Hashable) -> int:
        """The values of the group."""
        return self._sums.get(group, (0, 0.0, 0.0))[0]

    def of(self, *groups: Hashable) -> Entry:
        """The expectation from the last of the groups, the widest one first."""
        mean, variance = self._prior
        for group in (None, *groups):
            count, total, squares = self._sums.get(group, (0, 0.0, 0.0))
            if count:
                own, weight = total / count, count / (count + 1)
                spread = max(MIN_SPREAD**2, squares / count - own * own)
                variance = (1 - weight) * variance + weight * spread + weight * (1 - weight) * (own - mean) ** 2
                mean = (1 - weight) * mean + weight * own
        return mean, variance**0.5


_Cells = dict[Size, Entry]


class Rates:
    """Rates learned from a history of measurements; `estimate` answers for any job."""

    def __init__(self, history: Iterable[Measurement]) -> None:
        self.ignored: list[str] = []
        self._scaling = Habit(0.5, 0.5)  # the growth of the rate by the growth of the number of GPUs
        self._spreading = Habit(-0.1, 0.2)  # on several nodes instead of one
        self._screening = Habit(0.0, 0.4)  # in a full run instead of a screening run
        self._claiming = Habit(0.0, 0.4)  # measured instead of claimed
        self._measured: dict[Hashable, _Cells] = {}
        self._screened: dict[Hashable, _Cells] = {}
        self._stuck: set[tuple[Hashable, str]] = set()  # identities and types on which they never got on
        tenants = self._pool(history)
        self._learn(tenants)
        self._completion = self._completed()

    def estimate(self, ask: Ask) -> Answer:
        """The rates of the job on its sizes."""
        ignored: list[str] = []
        claims = self._sound_claims(ask, ignored)
        found = (self._rate(ask, size, claims, ignored) for size in ask.sizes if 0 < size.gpus <= MAX_GPUS)
        return Answer(tuple(rate for rate in found if rate is not None), tuple(dict.fromkeys(ignored)))

    def slowdown(self, subject: Subject, gpu_type: str, gpus: int) -> float | None:
        """The rate on one node ÷ the rate on several, where jobs alike were measured on both; None: they were not."""
        cells = self._measured.get(subject.identity, {})
        on_one, on_several = (cells.get(Size(gpu_type, gpus, spread)) for spread in (False, True))
        if on_one is not None and on_several is not None:
            return math.exp(on_one[0] - on_several[0])
        if not self._spreading.count(subject.identity):
            return None
        change, _ = self._spreading.of(("tenant", subject.tenant), subject.identity)
        return math.exp(-change)

    # Learning

    def _pool(self, history: Iterable[Measurement]) -> Mapping[Hashable, Hashable]:
        """Pool the runs of each identity on each size; returns the tenant of each identity."""
        runs: defaultdict[tuple[bool, Hashable, Size], list[Entry]] = defaultdict(list)
        tenants: dict[Hashable, Hashable] = {}
        zeros: set[tuple[Hashable, str]] = set()
        for one in history:
            subject, size = one.subject, one.size
            if one.per_s == 0 and 0 < size.gpus <= MAX_GPUS:
                zeros.add((subject.identity, size.gpu_type))
                continue
            reason = _unusable(one.per_s) or (None if 0 < size.gpus <= MAX_GPUS else f"{size.gpus} GPUs")
            if reason is not None:
                self.ignored.append(f"measured on {size.gpus} {size.gpu_type}: {reason}")
                continue
            tenants[subject.identity] = subject.tenant
            runs[one.screened, subject.identity, size].append((math.log(one.per_s), _spread_of(one)))
            if one.claimed is not None and not one.screened and _unusable(one.claimed) is None:
                self._claiming.learn(math.log(one.per_s / one.claimed), ("owner", subject.owner))
        for (screened, identity, size), entries in runs.items():
            cells = self._screened if screened else self._measured
            cells.setdefault(identity, {})[size] = _pooled(entries)
        self._stuck = zeros - {(identity, size.gpu_type) for _, identity, size in runs}
        return tenants

    def _learn(self, tenants: Mapping[Hashable, Hashable]) -> None:
        for identity, cells in self._measured.items():
            by_place: defaultdict[tuple[str, bool], list[Size]] = defaultdict(list)
            for size in sorted(cells, key=lambda size: size.gpus):
                by_place[size.gpu_type, size.spread].append(size)
                other = cells.get(Size(size.gpu_type, size.gpus, not size.spread))
                if size.spread and other is not None:
                    self._spreading.learn(cells[size][0] - other[0], ("tenant", tenants[identity]), identity)
            for sizes in by_place.values():
                for smaller, larger in pairwise(sizes):
                    growth = (cells[larger][0] - cells[smaller][0]) / math.log(larger.gpus / smaller.gpus)
                    self._scaling.learn(growth, ("tenant", tenants[identity]), identity)
        for identity, screened in self._screened.items():
            groups = (("tenant", tenants[identity]), identity)
            for full, (mean, _) in self._measured.get(identity, {}).items():
                short = next((size for size in screened if size.gpu_type == full.gpu_type), None)
                if short is not None:
                    expected, _ = self._resized(screened[short], short, full, groups)
                    self._screening.learn(mean - expected, *groups)

    def _completed(self) -> Completion:
        """The matrix with a row for each identity, number of GPUs and placement."""
        rows: defaultdict[Hashable, dict[str, float]] = defaultdict(dict)
        for kind, tables in (("measured", self._measured), ("screened", self._screened)):
            for identity, cells in tables.items():
                for size, (mean, _) in cells.items():
                    rows[kind, identity, size.gpus, size.spread][size.gpu_type] = mean
        types = sorted({gpu_type for row in rows.values() for gpu_type in row})
        matrix = np.array([[row.get(kind, math.nan) for kind in types] for row in rows.values()])
        return fit(types, matrix.reshape(len(rows), len(types)))

    # Answering

    def _sound_claims(self, ask: Ask, ignored: list[str]) -> dict[Size, Entry]:
        """The user's claims, as the track record corrects them."""
        bias, deviation = self._claiming.of(("owner", ask.subject.owner))
        claims: dict[Size, Entry] = {}
        for gpu_type, claimed in ask.claims.items():
            sizes = (size for size in ask.sizes if size.gpu_type == gpu_type and 0 < size.gpus <= MAX_GPUS)
            size = next(sizes, None)
            reason = "the job does not accept it" if size is None else _unusable(claimed)
            if size is not None and claimed == 0:
                claims[size] = (-math.inf, 0.0)
            elif size is None or reason is not None:
                ignored.append(f"claimed for {gpu_type}: {reason}")
            else:
                claims[size] = (math.log(claimed) + bias, deviation)
        return claims

    def _rate(self, ask: Ask, size: Size, claims: Mapping[Size, Entry], ignored: list[str]) -> RateEstimate | None:
        identity = ask.subject.identity
        if (identity, size.gpu_type) in self._stuck:
            return RateEstimate(size, 0.0, 0.0, RateSource.MEASURED)
        measured = self._measured.get(identity, {})
        if size in measured:
            return _estimate(size, measured[size], RateSource.MEASURED)
        claim = claims.get(size)
        if claim is not None and claim[0] == -math.inf:
            return RateEstimate(size, 0.0, 0.0, RateSource.CLAIMED)
        groups = (("tenant", ask.subject.tenant), identity)
        known = self._evidence(size, groups)
        direct = known.get(size.gpu_type)
        completed = self._completion.complete({kind: entry for kind, (entry, _) in known.items()}).get(size.gpu_type)
        found = [] if direct is None else [direct]
        if completed is not None:
            found.append((completed, RateSource.ESTIMATED))
        if claim is not None:
            if found and _is_refuted(claim, _weighted([entry for entry, _ in found])):
                ignored.append(f"claimed for {size.gpu_type}: what is known of the job contradicts it")
            else:
                found.append((claim, RateSource.CLAIMED))
        if not found:
            by_type = {
                other.gpu_type: self._resized(entry, other, size, groups)
                for other, entry in claims.items()
                if entry[0] != -math.inf
            }
            completed = self._completion.complete(by_type).get(size.gpu_type)
            return None if completed is None else _estimate(size, completed, RateSource.ESTIMATED)
        _, source = min(found, key=lambda one: one[0][1])
        return _estimate(size, _weighted([entry for entry, _ in found]), source)

    def _evidence(self, size: Size, groups: Sequence[Hashable]) -> dict[str, tuple[Entry, RateSource]]:
        """Evidence from runs of the identity on each GPU type at this number of GPUs and placement."""
        found: defaultdict[str, list[tuple[Entry, RateSource]]] = defaultdict(list)
        for other, entry in self._measured.get(groups[-1], {}).items():
            found[other.gpu_type].append((self._resized(entry, other, size, groups), RateSource.ESTIMATED))
        bias, deviation = self._screening.of(*groups)
        for other, entry in self._screened.get(groups[-1], {}).items():
            mean, own = self._resized(entry, other, size, groups)
            found[other.gpu_type].append(((mean + bias, math.hypot(own, deviation)), RateSource.SCREENED))
        # Different sizes of one type share the error of the scaling: the surest of them counts, not their sum.
        return {gpu_type: min(entries, key=lambda one: one[0][1]) for gpu_type, entries in found.items()}

    def _resized(self, entry: Entry, seen: Size, asked: Size, groups: Sequence[Hashable]) -> Entry:
        """The entry at another number of GPUs and placement."""
        mean, deviation = entry
        if seen.gpus != asked.gpus:
            growth, unsure = self._scaling.of(*groups)
            ratio = math.log(asked.gpus / seen.gpus)
            mean, deviation = mean + growth * ratio, math.hypot(deviation, unsure * ratio)
        if seen.spread != asked.spread:
            change, unsure = self._spreading.of(*groups)
            mean, deviation = mean + (change if asked.spread else -change), math.hypot(deviation, unsure)
        return mean, deviation


def _unusable(per_s: float) -> str | None:
    """The reason that a value cannot be a rate."""
    if not math.isfinite(per_s):
        return f"{per_s} is no rate"
    if per_s <= 0:
        return f"{per_s:g} per second is not above 0"
    if not MIN_RATE <= per_s <= MAX_RATE:
        return f"{per_s:g} per second is not between {MIN_RATE:g} and {MAX_RATE:g}"
    return None


def _spread_of(one: Measurement) -> float:
    """The relative deviation of a run."""
    deviation = one.deviation
    if deviation is None or not math.isfinite(deviation) or deviation < 0:
        return max(MIN_SPREAD, UNSTATED_SPREAD / math.sqrt(max(1, one.readings)))
    return min(_MAX_SPREAD, max(MIN_SPREAD, deviation / one.per_s))


def _pooled(runs: Sequence[Entry]) -> Entry:
    """The runs by their inverse variance; where they differ by more than their deviations, these are too small."""
    mean, deviation = _weighted(runs)
    if len(runs) == 1:
        return runs[0]
    strain = sum(((value - mean) / own) ** 2 for value, own in runs) / (len(runs) - 1)
    return mean, deviation * max(1.0, strain) ** 0.5


def _weighted(entries: Sequence[Entry]) -> Entry:
    weights = [1 / deviation**2 for _, deviation in entries]
    total = sum(weights)
    return sum(weight * mean for weight, (mean, _) in zip(weights, entries, strict=True)) / total, total**-0.5


def _is_refuted(claim: Entry, known: Entry) -> bool:
    return abs(claim[0] - known[0]) > MAX_Z * math.hypot(claim[1], known[1])


def _estimate(size: Size, entry: Entry, source: RateSource) -> RateEstimate:
    mean, deviation = entry
    per_s = min(MAX_RATE, max(MIN_RATE, math.exp(min(mean, math.log(MAX_RATE)))))
    return RateEstimate(size, per_s, per_s * min(_MAX_SPREAD, deviation), source)
