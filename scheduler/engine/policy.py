"""Who goes first, and who makes room: the port of the policies and their registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from scheduler.engine.context import CycleContext
from scheduler.engine.queue import Key
from scheduler.model import Job, Running, View
from scheduler.registry import Plugin, Registry


class Policy(Plugin, Protocol):
    """Serves the jobs of a pool: it places those that wait, and preempts those that run if it must."""

    def serve(self, context: CycleContext) -> None:
        """Decide, through the methods of the context."""
        ...

    def order(self, view: View) -> Iterable[Job]:
        """Every job that waits, each once, the first to be served first: the order of the queues that people see."""
        ...

    def waiting_key(self, job: Job) -> Key:
        """Where a waiting job stands; the smaller goes first. It does not change while the job waits."""
        ...

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """When the policy will want to look at this job again though nothing happens: a moment after now, or None."""
        ...


@runtime_checkable
class PeriodicPolicy(Protocol):
    """A policy that changes what runs though nobody waits, and wants to be asked then, too."""

    @property
    def look_every_s(self) -> float | None:
        """How often while nobody waits; None: as its parameters are, never."""
        ...


POLICIES: Registry[Policy] = Registry("policy", "scheduler.policies")
