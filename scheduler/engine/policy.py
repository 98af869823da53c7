"""The interface of policies, which order and preempt jobs, and their registry."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol, runtime_checkable

from scheduler.engine.context import CycleContext
from scheduler.engine.queue import Key
from scheduler.model import Job, Running, View
from scheduler.registry import Plugin, Registry


class Policy(Plugin, Protocol):
    """Orders the jobs of a pool, places waiting jobs and may preempt running ones."""

    def serve(self, context: CycleContext) -> None:
        """Place and preempt jobs through the methods of the context."""

    def order(self, view: View) -> Iterable[Job]:
        """All waiting jobs, each once, in the order of service. Users see their queue positions in this order."""

    def waiting_key(self, job: Job) -> Key:
        """The sort key of a waiting job; smaller goes first. It does not change while the job waits."""

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The next time after now at which the policy may decide otherwise about the job without an event, or None."""


@runtime_checkable
class PeriodicPolicy(Protocol):
    """A policy that follows measurements of running jobs, for example to grow or move them."""

    @property
    def period_s(self) -> float | None:
        """The maximum time between two decisions while jobs run, s; None: its parameters do not need them."""


@runtime_checkable
class PreemptivePolicy(Protocol):
    """A policy that may stop running jobs for waiting ones, or take turns."""

    @property
    def preemptive(self) -> bool:
        """True if the policy preempts with its parameters."""


class Need(StrEnum):
    """Facts about jobs that a policy may need beyond their requests."""

    RATES = "rates"  # how fast each job is on each GPU type, or on each number of GPUs
    REMAINING = "remaining"  # how long each job still runs


@runtime_checkable
class InformedPolicy(Protocol):
    """A policy that decides by estimates: the better they are, the better it decides."""

    @property
    def needs(self) -> frozenset[Need]:
        """The facts that the policy needs with its parameters."""


POLICIES: Registry[Policy] = Registry(
    "policy",
    "scheduler.policies",
    group="muster.policies",
    needs=("serve", "order", "waiting_key", "next_change"),
)
