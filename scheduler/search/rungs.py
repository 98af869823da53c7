"""Verdicts on the members of a sweep, by their reports at the rungs: successive halving and ASHA.

A rung is a number of steps at which members are compared, the value of the metric there being the first that is
reported at this step or later. Verdicts depend on the reports and their times alone, so a sweep can be judged anew at
any time, with the same result.

- `halving` waits: a member that is at a rung pauses until each living member is there or has ended. Then the best
  ⌊n / keep⌋ of the n that arrived go on, at least one, and the others stop. Source: Jamieson and Talwalkar,
  "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016.
- `asha` never waits: a member goes on if it is among the best ⌊n / keep⌋ of the n members that have arrived at the rung
  so far, itself included, or the best of fewer than `keep`. Source: Li et al., "A system for massively parallel
  hyperparameter tuning", MLSys 2020. There a member pauses at each rung and is promoted once enough others have
  arrived that are worse; here, as in Ray Tune's scheduler of that name, a member is judged once, when it arrives. So it
  needs no checkpoint, and early arrivals go on more often than one in `keep`.

A value that is not a finite number is worst, and a member that has one at a rung stops there.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from scheduler.search.space import SearchError


class Method(StrEnum):
    """Methods of a sweep: its choice of parameters, and its early stops."""

    GRID = "grid"
    RANDOM = "random"
    HALVING = "halving"
    ASHA = "asha"

    @property
    def stops_early(self) -> bool:
        """True if members are compared at rungs."""
        return self in {Method.HALVING, Method.ASHA}


class Goal(StrEnum):
    """The better values of a metric: lower or higher."""

    MIN = "min"
    MAX = "max"

    def cost(self, value: float) -> float:
        """The value as a number of which less is better; infinite if it is not finite."""
        if not math.isfinite(value):
            return math.inf
        return value if self is Goal.MIN else -value


class Action(StrEnum):
    """Actions of a sweep on a member."""

    GO_ON = "go on"
    PAUSE = "pause"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Rungs:
    """The steps of each rung, the last being those of a whole run; one member in `keep` goes on from each other."""

    steps: tuple[int, ...]
    keep: int

    @classmethod
    def of(cls, first: int, last: int, keep: int = 3, field: str = "sweep.rungs") -> Rungs:
        """The rungs first · keep^k below `last`, and `last`.

        Raises:
            SearchError: no members could be compared at such rungs.
        """
        if first < 1:
            raise SearchError(f"{field}.first", "the first rung is at step 1 or later")
        if keep < 2:
            raise SearchError(f"{field}.keep", "one member in `keep` goes on: give 2 or more")
        if last <= first:
            raise SearchError(f"{field}.last", f"a whole run has more steps than the first rung has, {first}")
        steps = [first]
        while steps[-1] * keep < last:
            steps.append(steps[-1] * keep)
        return cls((*steps, last), keep)

    def kept_of(self, arrived: int) -> int:
        """The number of members that go on, of those that arrived at a rung."""
        return max(1, arrived // self.keep)


@dataclass(frozen=True, slots=True)
class Report:
    """The value of the metric at a step of a member; `at` is the time of the report in seconds."""

    at: float
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The value with which a member is judged at a rung, and when it was reported."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Member:
    """A member with its readings at its first rungs; `living` until it has ended, before its start too."""

    number: int
    readings: tuple[Reading, ...] = ()
    step: int = 0
    living: bool = True

    @classmethod
    def from_reports(cls, number: int, reports: Sequence[Report], rungs: Rungs, *, living: bool) -> Member:
        """A member by its reports, in the order in which they came; steps may go backwards after a restart."""
        readings: list[Reading] = []
        for report in reports:
            while len(readings) < len(rungs.steps) and report.step >= rungs.steps[len(readings)]:
                readings.append(Reading(report.at, report.value))
        return cls(number, tuple(readings), reports[-1].step if reports else 0, living)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a member, and the comparison at the last rung at which it was judged or waits.

    `rung` counts from 0; it is None before the first. `rank` is its place among the `arrived` members, of which the
    best `kept` go on; `missing` members have yet to arrive at the rung of a member that waits.
    """

    action: Action
    rung: int | None = None
    steps: int = 0
    value: float = math.nan
    rank: int = 0
    arrived: int = 0
    kept: int = 0
    missing: int = 0

    @property
    def passed(self) -> int:
        """The number of rungs that the member has passed."""
        if self.rung is None:
            return 0
        return self.rung + (self.action is Action.GO_ON)

    def sentence(self, metric: str) -> str:
        """The reason, for the user; empty before the first rung."""
        if self.rung is None:
            return ""
        if self.action is Action.PAUSE:
            members = "1 more member" if self.missing == 1 else f"{self.missing} more members"
            return f"waits at step {self.steps} for {members}: then the best go on"
        if not math.isfinite(self.value):
            return f"{metric} at step {self.steps} is not a finite number"
        go_on = "only the best goes on" if self.kept == 1 else f"the best {self.kept} go on"
        return f"{metric} {self.value:.4g} at step {self.steps} is number {self.rank} of {self.arrived}: {go_on}"


@dataclass(frozen=True, slots=True)
class RungCount:
    """The members that have arrived at a rung, and those of them that went on (at the last rung: all), counted."""

    steps: int
    arrived: int
    kept: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on each member by its number, and the counts of each rung."""

    verdicts: Mapping[int, Verdict]
    counts: tuple[RungCount, ...]


def judge(method: Method, goal: Goal, rungs: Rungs, members: Iterable[Member]) -> Judgement:
    """Judge all members of a sweep that stops early."""
    asked = list(members)
    verdicts = {member.number: Verdict(Action.GO_ON) for member in asked}
    counts = []
    for rung in range(len(rungs.steps) - 1):
        arrived = [member for member in asked if len(member.readings) > rung]
        missing = sum(member.living and len(member.readings) <= rung for member in asked)
        if method is Method.HALVING:
            judged = _halve(goal, rungs, rung, arrived, missing)
        else:
            judged = _judge_arrivals(goal, rungs, rung, arrived)
        verdicts.update(judged)
        asked = [member for member in asked if verdicts[member.number].passed > rung]
        counts.append(RungCount(rungs.steps[rung], len(arrived), len(asked)))
    finished = sum(len(member.readings) == len(rungs.steps) for member in asked)
    return Judgement(verdicts, (*counts, RungCount(rungs.steps[-1], finished, finished)))


def _halve(goal: Goal, rungs: Rungs, rung: int, arrived: Sequence[Member], missing: int) -> dict[int, Verdict]:
    """Of equal values the earlier is better here, so that no more than one in `keep` goes on."""
    costs = {member.number: goal.cost(member.readings[rung].value) for member in arrived}
    ranked = sorted(arrived, key=lambda member: (costs[member.number], member.readings[rung].at, member.number))
    kept = rungs.kept_of(len(ranked))
    verdicts = {}
    for rank, member in enumerate(ranked, 1):
        if missing and costs[member.number] < math.inf:
            action = Action.PAUSE
        else:
            action = Action.GO_ON if rank <= kept and costs[member.number] < math.inf else Action.STOP
        verdicts[member.number] = Verdict(
            action, rung, rungs.steps[rung], member.readings[rung].value, rank, len(ranked), kept, missing
        )
    return verdicts


def _judge_arrivals(goal: Goal, rungs: Rungs, rung: int, arrived: Sequence[Member]) -> dict[int, Verdict]:
    """Members with equal values all go on or none: those that arrive at the same time are judged together."""
    costs: list[float] = []
    verdicts = {}
    in_order = sorted(arrived, key=lambda member: member.readings[rung].at)
    for _, group in groupby(in_order, key=lambda member: member.readings[rung].at):
        together = list(group)
        for member in together:
            insort(costs, goal.cost(member.readings[rung].value))
        kept = rungs.kept_of(len(costs))
        for member in together:
            value = member.readings[rung].value
            rank = bisect_left(costs, goal.cost(value)) + 1
            goes_on = rank <= kept and math.isfinite(value)
            verdicts[member.number] = Verdict(
                Action.GO_ON if goes_on else Action.STOP, rung, rungs.steps[rung], value, rank, len(costs), kept
            )
    return verdicts
