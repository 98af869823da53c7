"""Quota admission: the interface of the plug-ins that decide what a virtual cluster may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from scheduler.admission.ledger import ANY_GPUS, AdmissionError, Grant, Ledger, QuotaUsage
from scheduler.model import Job, View
from scheduler.model.invariants import Violation
from scheduler.model.plan import Plan
from scheduler.registry import Registry, params_of_fields

__all__ = ["ADMISSIONS", "ANY_GPUS", "Admission", "AdmissionError", "Grant", "Ledger", "LockScope", "QuotaUsage"]


class LockScope(StrEnum):
    """The rows that a plan is applied under, and so the running jobs that `violations` sees."""

    POOL = "pool"
    """The pool's row: one plan at a time, and all jobs of the pool are seen."""
    VIRTUAL_CLUSTERS = "virtual_clusters"
    """The rows of the virtual clusters of the plan's jobs: all jobs of these are seen. Enough for limits by cluster."""
    CHAINS = "chains"
    """As above, and the pool's cells of the plan's GPU types. If jobs were bound to cells of these types since the plan
    was made, it is checked on the whole pool, else `violations` is not asked again."""


class Admission:
    """Decides what a virtual cluster may have. The methods here are the defaults of a plug-in.

    `chooses_gpus` says that grants name GPUs or jobs to evict. A finer `lock_scope` than the default must see all that
    `violations` needs: a wrong one lets two plans pass a limit together.
    """

    __slots__ = ()
    params_schema: ClassVar[Mapping[str, Any]] = params_of_fields()
    lock_scope: ClassVar[LockScope] = LockScope.POOL
    chooses_gpus: ClassVar[bool] = False
    reclaims: ClassVar[bool] = False
    """True if `Ledger.reclaims` can return True."""
    lends: ClassVar[bool] = True
    """True if a virtual cluster may hold more than its quota."""
    has_cells: ClassVar[bool] = False
    """True if virtual clusters have cells in place of quotas."""

    def ledger(self, view: View) -> Ledger:
        """The ledger of the view, which counts its running jobs."""
        raise NotImplementedError

    def may_evict(self, view: View, running: Job, waiting: Job) -> bool:
        """True if the waiting job, once admitted, may preempt a job on which another planner decides."""
        return self.chooses_gpus

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        """The rules of the admission that the plan would break; it is asked again under lock."""
        raise NotImplementedError


ADMISSIONS: Registry[Admission] = Registry(
    "admission",
    "scheduler.admission",
    group="muster.admissions",
    needs=("ledger", "violations", "lock_scope"),
)
