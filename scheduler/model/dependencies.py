"""Conditions that a job may wait for: that another job, or a group, starts or ends in a certain way."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from scheduler.model.lifecycle import JobState


class DependencyKind(StrEnum):
    """Events of the other job or group that a job may await."""

    OK = "ok"
    """It succeeds."""
    ANY = "any"
    """It ends, however."""
    FAILED = "failed"
    """It fails or is cancelled."""
    CORR = "corr"
    """Of a group, that the member with the same number succeeds."""
    STARTED = "started"
    """It starts, or ends before it has."""
    SINGLETON = "singleton"
    """All earlier jobs of the same owner and name end."""


class DependencyState(StrEnum):
    """States of a dependency."""

    OPEN = "open"
    MET = "met"
    NEVER = "never"
    """The other one has ended, and otherwise."""


_ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


def judged(kind: DependencyKind, state: str, *, started: bool) -> DependencyState:
    """The state of a dependency, from the state of the other job or group; `started`: True if it has ever run."""
    if kind is DependencyKind.STARTED and started:
        return DependencyState.MET
    if state not in _ENDED:
        return DependencyState.OPEN
    if kind in {DependencyKind.OK, DependencyKind.CORR}:
        return DependencyState.MET if state == JobState.SUCCEEDED else DependencyState.NEVER
    if kind is DependencyKind.FAILED:
        return DependencyState.NEVER if state == JobState.SUCCEEDED else DependencyState.MET
    return DependencyState.MET


def of_all(states: Iterable[DependencyState]) -> DependencyState:
    """The state of a dependency whose parts must all be met."""
    found = set(states)
    for state in (DependencyState.NEVER, DependencyState.OPEN):
        if state in found:
            return state
    return DependencyState.MET


def of_alternatives(states: Iterable[DependencyState]) -> DependencyState:
    """The state of a dependency of which one alternative is enough."""
    found = set(states)
    for state in (DependencyState.MET, DependencyState.OPEN):
        if state in found:
            return state
    return DependencyState.NEVER
