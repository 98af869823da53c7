"""Who goes first: the port of the policies and their registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler.model import Job, Snapshot
from scheduler.registry import Plugin, Registry


class Policy(Plugin, Protocol):
    """An order of the jobs that wait, and whether the later ones may pass an earlier one that cannot start."""

    def order(self, snapshot: Snapshot) -> Sequence[Job]:
        """Every job that waits, each once, the first to be served first."""
        ...

    def lets_pass(self, snapshot: Snapshot, blocked: Job) -> bool:
        """Whether jobs behind `blocked`, which could run but not now, may start before it."""
        ...


POLICIES: Registry[Policy] = Registry("policy", "scheduler.policies")
