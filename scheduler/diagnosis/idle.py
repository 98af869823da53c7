"""When a job's GPUs stand idle, whom that is told, and when the job is stopped for it: pure bookkeeping over readings.

A reading is one minute of an attempt: the mean utilisation of that of its GPUs which did most. A job is idle in a
minute in which *all* of its GPUs did less than a rule says: one that works on a single one of its GPUs is wasteful, but
at work, and nobody should stop it for that.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (USENIX ATC 2019), found the
GPUs of running jobs used by half on average; what is idle for long holds what others wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

STEP_S = 60.0
"""The length of a reading."""
STARTUP_S = 600.0
"""A job that was not busy once has so long to load what it works on before its idleness begins to count."""
MAX_GAP_S = 300.0
"""After so long without a reading the count begins anew: nobody knows what the job did meanwhile."""


class Action(StrEnum):
    """What becomes of an idle job."""

    OFF = "off"
    WARN = "warn"
    STOP = "stop"


class RuleOwner(StrEnum):
    """Who made a rule."""

    JOB = "job"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Rule:
    """A job whose GPUs do less than `below` percent for `for_s` seconds is idle; with `stops` it is stopped then."""

    below: float
    for_s: float
    stops: bool

    @property
    def warns_after_s(self) -> float:
        """After how much idleness the owner is told: of a stop while there is as much time left again."""
        return self.for_s / 2 if self.stops else self.for_s


@dataclass(frozen=True, slots=True)
class Policy:
    """What a tenant says of its jobs that say nothing; `binding`: of the others, too."""

    action: Action
    below: float
    for_s: float
    binding: bool = False

    @property
    def rule(self) -> Rule | None:
        """The rule; None where nothing is done about idle jobs."""
        return None if self.action is Action.OFF else Rule(self.below, self.for_s, self.action is Action.STOP)


@dataclass(frozen=True, slots=True)
class Reading:
    """The minute from `at_s` on: how busy the busiest GPU was, in percent, of those that were seen; None for none.

    `complete` where all were seen: only then can they all have been idle.
    """

    at_s: float
    most: float | None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Count:
    """What the readings of an attempt have shown under one rule, up to `upto_s`.

    `since_s` is when it became idle, None while it is not; `idle_s` is how much of the time since was seen.
    """

    upto_s: float
    since_s: float | None = None
    idle_s: float = 0.0
    was_busy: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A job is idle since then; at `stop_at_s` it is to be stopped if that goes on, and `stops`: now."""

    since_s: float
    below: float
    owner: RuleOwner
    stop_at_s: float | None = None
    stops: bool = False


def rules_of(own: Rule | None, policy: Policy) -> dict[RuleOwner, Rule]:
    """The rules that a job is under: its own, and its tenant's where it has none or that one binds all."""
    found = {} if own is None else {RuleOwner.JOB: own}
    if policy.rule is not None and (own is None or policy.binding):
        found[RuleOwner.TENANT] = policy.rule
    return found


def add_readings(count: Count, readings: Sequence[Reading], *, rule: Rule, started_s: float) -> Count:
    """The count after more readings, which are in the order of time.

    1. A reading that is not known counts for nothing, and a long time without one begins anew.
    2. A minute at or above the limit ends all idleness.
    3. Of a job that was never busy, the first minutes do not count.
    """
    for reading in readings:
        if reading.most is None or reading.at_s < count.upto_s:
            continue
        if not reading.complete and reading.most < rule.below:
            continue
        upto_s = reading.at_s + STEP_S
        if reading.at_s - count.upto_s > MAX_GAP_S:
            count = Count(count.upto_s, was_busy=count.was_busy)
        if reading.most >= rule.below:
            count = Count(upto_s, was_busy=True)
        elif not count.was_busy and reading.at_s < started_s + STARTUP_S:
            count = Count(upto_s)
        else:
            since_s = reading.at_s if count.since_s is None else count.since_s
            count = Count(upto_s, since_s, count.idle_s + STEP_S, count.was_busy)
    return count


def judge(rules: Mapping[RuleOwner, Rule], counts: Mapping[RuleOwner, Count], *, now_s: float) -> Finding | None:
    """What is to be done about a job, by the strictest of its rules; None as long as it is not idle for long enough."""
    findings = [
        finding
        for owner, rule in rules.items()
        if owner in counts and (finding := _judge_by(owner, rule, counts[owner], now_s)) is not None
    ]
    return min(findings, key=lambda one: (one.stop_at_s is None, one.stop_at_s or 0.0, one.since_s), default=None)


def _judge_by(owner: RuleOwner, rule: Rule, count: Count, now_s: float) -> Finding | None:
    # What was idle when it was last seen, long ago, may be at work now.
    if count.since_s is None or count.idle_s < rule.warns_after_s or now_s - count.upto_s > MAX_GAP_S:
        return None
    if not rule.stops:
        return Finding(count.since_s, rule.below, owner)
    left_s = max(0.0, rule.for_s - count.idle_s)
    return Finding(count.since_s, rule.below, owner, count.upto_s + left_s, stops=left_s == 0)
