"""The ledger of any admission with the caps on users on top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import copy
from typing import Any, Self

from scheduler.admission.ledger import Grant, Ledger
from scheduler.model import AllocationView, Job, View
from scheduler.model.caps import Cap, Owner, caps_by_owner, owner_of
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Denial
from scheduler.model.request import Config


def capped(ledger: Ledger, view: View) -> Ledger:
    """The ledger, with the caps of the view if it has any."""
    return CappedLedger(ledger, view) if view.caps else ledger


class CappedLedger(Ledger):
    """Denies what exceeds a cap, and asks the ledger within for everything else."""

    def __init__(self, within: Ledger, view: View) -> None:
        self.within, self.view, self.usage = within, view, within.usage
        self._caps = caps_by_owner(view.caps)
        self._held: defaultdict[Owner, dict[int, int]] = defaultdict(dict)  # by capped owner: job id -> its GPUs
        for run in view.running:
            self._count(run.job, run.gpus)

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        cap = self._caps.get(owner_of(job))
        return (self._denial(cap, job, config) if cap is not None else None) or self.within.offer(job, config)

    def key(self, job: Job) -> Hashable:
        """See `Ledger`. Only users with a cap have classes of their own."""
        owner = owner_of(job)
        return (self.within.key(job), owner) if owner in self._caps else self.within.key(job)

    def take(self, job: Job, allocations: Iterable[AllocationView]) -> None:
        allocations = tuple(allocations)
        self._count(job, sum(len(share.gpu_ids) for share in allocations))
        self.within.take(job, allocations)

    def give(self, job: Job, allocations: Iterable[AllocationView]) -> None:
        allocations = tuple(allocations)
        self._count(job, -sum(len(share.gpu_ids) for share in allocations))
        self.within.give(job, allocations)

    def promise(self, job: Job, gpu_type: str, gpus: int) -> None:
        self._count(job, gpus)
        self.within.promise(job, gpu_type, gpus)

    def copy(self) -> Self:
        other = copy(self)
        other.within = self.within.copy()
        other.usage = other.within.usage
        other._held = defaultdict(dict, {owner: dict(jobs) for owner, jobs in self._held.items()})
        return other

    def _count(self, job: Job, gpus: int) -> None:
        owner = owner_of(job)
        if owner not in self._caps:
            return
        held = self._held[owner]
        left = held.get(job.id, 0) + gpus
        if left > 0 or (gpus == 0 and job.id not in held):
            held[job.id] = left
        else:
            held.pop(job.id, None)

    def _denial(self, cap: Cap, job: Job, config: Config) -> Denial | None:
        held = self._held.get(owner_of(job), {})
        if job.id in held and not config.gpus:
            return None  # it may keep what it has
        gpus = cap.gpus_elsewhere + sum(held.values())
        jobs = cap.jobs_elsewhere + len(held.keys() - {job.id})
        if cap.gpus is not None and gpus + config.gpus > cap.gpus and config.gpus:
            return _denial(
                f"{cap.owner} holds {gpus} of at most {cap.gpus} GPUs; this job needs {config.gpus}",
                {"user": cap.owner, "held": gpus, "cap": cap.gpus, "needed": config.gpus},
                f"ask for at most {cap.gpus} GPUs" if config.gpus > cap.gpus else f"jobs of {cap.owner} end",
            )
        if cap.jobs is not None and jobs + 1 > cap.jobs:
            return _denial(
                f"{cap.owner} runs {jobs} of at most {cap.jobs} jobs",
                {"user": cap.owner, "jobs": jobs, "cap": cap.jobs},
                f"a job of {cap.owner} ends",
            )
        if cap.used_up and cap.gpu_hours_month is not None:
            used = cap.gpu_s_used / 3600
            return _denial(
                f"{cap.owner} has used {used:.1f} GPU-hours this month; the cap is {cap.gpu_hours_month:g}",
                {"user": cap.owner, "gpu_hours": round(used, 1), "cap": cap.gpu_hours_month, "again_at": cap.renews_at},
                "the next month begins",
            )
        return None


def _forward(name: str) -> Callable[..., Any]:
    def method(self: CappedLedger, *args: Any, **options: Any) -> Any:
        return getattr(self.within, name)(*args, **options)

    return method


# Caps have no part in the other methods. Look-aheads count without a job, so they pass no cap either.
for _name in (name for name, value in vars(Ledger).items() if callable(value) and not name.startswith("_")):
    if _name not in vars(CappedLedger):
        setattr(CappedLedger, _name, _forward(_name))


def _denial(detail: str, evidence: dict[str, int | float | str], help_: str) -> Denial:
    return Denial(HoldReason.CAP, detail, evidence, (help_, "ask a manager of your tenant to raise the cap"))
