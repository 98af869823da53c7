"""Admit every job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from scheduler.admission import ANY_GPUS, Admission, Grant, Ledger, LockScope
from scheduler.model import Job, View
from scheduler.model.invariants import Violation
from scheduler.model.plan import Denial, Plan
from scheduler.model.request import Config


class OpenLedger(Ledger):
    """Offers everything."""

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """Any GPUs."""
        return ANY_GPUS


@dataclass(frozen=True, slots=True)
class Open(Admission):
    """Admits every job, for policies that divide the pool themselves."""

    lock_scope: ClassVar[LockScope] = LockScope.VIRTUAL_CLUSTERS

    def ledger(self, view: View) -> Ledger:
        return OpenLedger(view)

    def violations(self, view: View, plan: Plan) -> Iterator[Violation]:
        """Always empty."""
        return iter(())


PLUGIN = Open
