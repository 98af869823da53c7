"""Idle GPUs of a job: bookkeeping over readings for the warning to its owner, and for its stop. Pure.

A reading covers one minute of an attempt: the mean utilisation of its busiest GPU. A job is idle in a minute in which
*all* of its GPUs stayed below the rule's limit. A job that works on only one of its GPUs is wasteful but working, so it
is not stopped.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (USENIX ATC 2019), found
that running jobs used half of their GPUs' time on average; GPUs that are idle for long keep other jobs waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

STEP_S = 60.0
"""The length of a reading."""
STARTUP_S = 600.0
"""The time for loading data: idleness of a job that has not been busy yet counts only after it."""
MAX_GAP_S = 300.0
"""After a longer gap between readings the count starts again, as the job may have worked meanwhile."""


class Action(StrEnum):
    """Actions of the platform about an idle job."""

    OFF = "off"
    WARN = "warn"
    STOP = "stop"


class RuleOwner(StrEnum):
    """The maker of a rule."""

    JOB = "job"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Rule:
    """A job whose GPUs stay below `below` percent for `for_s` seconds is idle; `stops`: it is then stopped."""

    below: float
    for_s: float
    stops: bool

    @property
    def warns_after_s(self) -> float:
        """The idleness after which the owner is warned; before a stop, half of the rule's time."""
        return self.for_s / 2 if self.stops else self.for_s


@dataclass(frozen=True, slots=True)
class Policy:
    """A tenant's rule for its jobs without one of their own; `binding`: for all its jobs."""

    action: Action
    below: float
    for_s: float
    binding: bool = False

    @property
    def rule(self) -> Rule | None:
        """The rule; None if the tenant does nothing about idle jobs."""
        return None if self.action is Action.OFF else Rule(self.below, self.for_s, self.action is Action.STOP)


@dataclass(frozen=True, slots=True)
class Reading:
    """The minute from `at_s` on: the utilisation of the busiest measured GPU in percent; None if none was measured.

    `complete`: all GPUs of the job were measured. Only then can the reading show that all were idle.
    """

    at_s: float
    most: float | None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Count:
    """Counts under one rule, from the readings of an attempt up to `upto_s`.

    `since_s` is when the job became idle, None if it is not idle; `idle_s` is the measured part of the time since then.
    """

    upto_s: float
    since_s: float | None = None
    idle_s: float = 0.0
    was_busy: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A job that has been idle since `since_s`. It is stopped at `stop_at_s` if it stays idle; `stops`: now."""

    since_s: float
    below: float
    owner: RuleOwner
    stop_at_s: float | None = None
    stops: bool = False


def rules_of(own: Rule | None, policy: Policy) -> dict[RuleOwner, Rule]:
    """The rules that apply to a job: its own, and the tenant's if the job has none or the tenant's is binding."""
    found = {} if own is None else {RuleOwner.JOB: own}
    if policy.rule is not None and (own is None or policy.binding):
        found[RuleOwner.TENANT] = policy.rule
    return found


def add_readings(count: Count, readings: Sequence[Reading], *, rule: Rule, started_s: float) -> Count:
    """The count after further readings, in the order of time.

    1. Unknown readings do not count, and a long gap between readings starts the count again.
    2. A minute at or above the limit ends the idleness.
    3. The first minutes of a job that has not been busy yet do not count.
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
    """The finding about a job by the strictest of its rules; None if it has not been idle for long enough."""
    findings = [
        finding
        for owner, rule in rules.items()
        if owner in counts and (finding := _judge_by(owner, rule, counts[owner], now_s)) is not None
    ]
    return min(findings, key=lambda one: (one.stop_at_s is None, one.stop_at_s or 0.0, one.since_s), default=None)


def _judge_by(owner: RuleOwner, rule: Rule, count: Count, now_s: float) -> Finding | None:
    # An old count says nothing about now: the job may be working again.
    if count.since_s is None or count.idle_s < rule.warns_after_s or now_s - count.upto_s > MAX_GAP_S:
        return None
    if not rule.stops:
        return Finding(count.since_s, rule.below, owner)
    left_s = max(0.0, rule.for_s - count.idle_s)
    return Finding(count.since_s, rule.below, owner, count.upto_s + left_s, stops=left_s == 0)
