"""The admission by the tree of tenants; docs/policies/tree.md lists its guarantees and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from scheduler.admission import ANY_GPUS, Admission, Grant, Ledger, LockScope
from scheduler.admission.tally import Tally, job_of
from scheduler.admission.tree.arithmetic import Level, NodeId, Tree, Use, common
from scheduler.model import Job, Running, View
from scheduler.model.invariants import Violation
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.phrases import become_free
from scheduler.model.plan import Denial, Evidence, Plan
from scheduler.model.request import Config, Request
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import demand_of
from scheduler.registry import param

SHARE_EXCEEDED = "share_exceeded"


class TreeLedger(Ledger):
    """Offers guaranteed jobs what the tree has available to their virtual cluster, and opportunistic jobs everything.

    - While a job waits because those that borrow its share may not go yet, nothing more of that share is lent. So a
      job that needs several GPUs gets them together.
    """

    def __init__(self, view: View, min_run_s: float) -> None:
        super().__init__(view)
        self._min_run_s = min_run_s
        self._tree = Tree(view)
        self._level: int | None = None
        self._capacity: Capacity | None = None
        self._feasible: dict[Request, bool] = {}
        self._held = _guaranteed_use(self, self._tree)
        # What was available to jobs that were denied; they are denied again until something is given back.
        self._denied: dict[tuple[int, str, int, int | None], int] = {}
        self._staying: Use | None = None  # the same without stopping jobs
        self._called: Mapping[tuple[NodeId, str], int] | None = None  # what waiting jobs call back, by virtual cluster

    def begin(self) -> None:
        self._denied.clear()
        self._staying = self._called = None

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """Denies a guaranteed job that would exceed what its virtual cluster has and may borrow."""
        gpu_type, gpus = config.gpu_type, config.gpus
        if gpu_type is None or job.job_class is JobClass.OPPORTUNISTIC:
            return ANY_GPUS
        leaf, key = _leaf(job.vc_id), (job.vc_id, gpu_type, gpus, self._level)
        if key in self._denied:
            return self._denial(job, gpu_type, gpus, self._denied[key])
        available = self._use.available(leaf, gpu_type)
        if available >= gpus > self._tree.subtree(leaf, gpu_type) - self._use.of(leaf, gpu_type):
            path = self._tree.path(leaf)
            if self._level is not None and self._use.beyond(leaf, path[: self._level + 2][-1], gpu_type, gpus):
                available = 0
            else:
                available = self._available_beside_calls(self._use, leaf, gpu_type, gpus)
        if gpus <= available:
            return ANY_GPUS
        self._denied[key] = max(0, available)
        return self._denial(job, gpu_type, gpus, self._denied[key])

    def levels(self) -> int:
        return max((len(self._tree.path(_leaf(vc.id))) for vc in self.view.vcs), default=1) - 1

    def limit_to(self, level: int | None) -> None:
        self._level = level

    def reclaims_fewest(self) -> bool:
        """As few as possible."""
        return True

    def yields(self, job: Job, config: Config) -> bool:
        """True if the lenders of the job's share call it back; an opportunistic job yields to a guaranteed one."""
        gpu_type, leaf = config.gpu_type, _leaf(job.vc_id)
        if gpu_type is None:
            return False
        if job.job_class is JobClass.OPPORTUNISTIC:
            return any(
                gpus and not isinstance(self.offer(other, Config(gpu_type, gpus)), Denial)
                for other in self._startable()
                if (gpus := other.request.gpus_on(gpu_type))
            )
        use = self._use.copy()
        use.add(leaf, gpu_type, -config.gpus)
        return self._available_beside_calls(use, leaf, gpu_type, config.gpus) < min(
            config.gpus, use.available(leaf, gpu_type)
        )

    def _available_beside_calls(self, use: Use, leaf: NodeId, gpu_type: str, gpus: int) -> int:
        """GPUs available to a virtual cluster if its lenders get back all that they call for."""
        if self._called is None:
            self._called = self._calls()
        called = {
            other: wanted - use.of(other, gpu_type)
            for (other, kind), wanted in self._called.items()
            if kind == gpu_type and other != leaf and wanted > use.of(other, gpu_type)
        }
        available = use.available(leaf, gpu_type)
        if available - sum(called.values()) >= gpus:
            return available
        then = use
        for other, more in called.items():
            below = common(self._tree, leaf, other)
            if below is not None and use.beyond(leaf, below, gpu_type, gpus):
                then = use.copy() if then is use else then
                then.add(other, gpu_type, more)
        return then.available(leaf, gpu_type)

    def _calls(self) -> Mapping[tuple[NodeId, str], int]:
        """GPUs that virtual clusters would hold with the waiting jobs whose share is kept by young borrowers.

        These have not run for their minimum time, or still wait for the GPUs that are reserved for them.
        """
        young = {
            (run.job.vc_id, gpu_type)
            for run in self.view.running
            if run.job.job_class is JobClass.GUARANTEED and self.reclaimable_at(run) > self.view.now
            for _, gpu_type, _ in self._gpus(run.allocations[:1])
        }
        reserved = {one.job_id: one for one in self.view.reservations if one.until > self.view.now}
        for job_id, kept in reserved.items():
            job = self.view.waiting_by_id.get(job_id)
            if job is not None and job.job_class is JobClass.GUARANTEED:
                young.update((job.vc_id, gpu_type) for _, gpu_type, _ in self._gpus(kept.allocations[:1]))
        kinds = {gpu_type for _, gpu_type in young}
        waiting = Counter(
            (job.vc_id, gpu_type, job.request.gpus_on(gpu_type))
            for job in (self._startable() if young else ())
            for gpu_type in kinds
        )
        due = {
            (vc_id, gpu_type): max(self._lent(vc_id, other, kind) for other, kind in young if kind == gpu_type)
            for vc_id, gpu_type in {(vc_id, gpu_type) for vc_id, gpu_type, _ in waiting}
        }
        wanted: Counter[tuple[int, str]] = Counter()
        for (vc_id, gpu_type, gpus), jobs in waiting.items():
            if 0 < gpus <= due[vc_id, gpu_type]:
                wanted[vc_id, gpu_type] += gpus * jobs
        return {
            (_leaf(vc_id), gpu_type): self._use.of(_leaf(vc_id), gpu_type) + min(gpus, due[vc_id, gpu_type])
            for (vc_id, gpu_type), gpus in sorted(wanted.items())
        }

    def _startable(self) -> Iterator[Job]:
        """The guaranteed jobs that wait, have nothing reserved and would fit into the empty pool."""
        now = self.view.now
        reserved = {one.job_id for one in self.view.reservations if one.until > now}
        for job in self.view.waiting:
            startable = job.id not in reserved and not job.still_stopping and job.eligible_at <= now
            if startable and job.job_class is JobClass.GUARANTEED and self._is_feasible(job.request):
                yield job

    def _is_feasible(self, request: Request) -> bool:
        if request not in self._feasible:
            if self._capacity is None:
                self._capacity = Capacity(self.view)
            demands = (demand_of(request, choice) for choice in request.choices_among(self._capacity.types))
            self._feasible[request] = any(self._capacity.infeasible(demand) is None for demand in demands)
        return self._feasible[request]

    def _lent(self, lender: int, borrower: int, gpu_type: str) -> int:
        """The most GPUs for which a virtual cluster may reclaim what a borrower has on loan of its share; 0: none."""
        below = common(self._tree, _leaf(lender), _leaf(borrower))
        if below is None or not self._use.beyond(_leaf(borrower), below, gpu_type):
            return 0
        return self._use.due(_leaf(lender), below, gpu_type)

    def _denial(self, job: Job, gpu_type: str, gpus: int, available: int) -> Denial:
        tree, leaf = self._tree, _leaf(job.vc_id)
        name, used, quota = tree.name(leaf), self._use.of(leaf, gpu_type), tree.nominal(leaf, gpu_type)
        root = tree.path(leaf)[-1]
        evidence: Evidence = {
            "vc": name,
            "gpu_type": gpu_type,
            "used": used,
            "quota": quota,
            "available": available,
            "needed": gpus,
        }
        as_opportunistic = "submit it as an opportunistic job"
        most = tree.potential(leaf, gpu_type)
        if gpus > most:
            return Denial(
                HoldReason.QUOTA_TOO_SMALL,
                f"{name} may have {most or 'no'} {gpu_type} at most with what it may borrow; this job needs {gpus}",
                evidence,
                (as_opportunistic, f"ask an operator to raise the quota or the borrowing limit of {name}"),
            )
        helps = [as_opportunistic]
        if used + gpus <= quota:
            helps.insert(
                0, f"jobs that borrow its share are stopped for this job once they have run {self._min_run_s:g} s"
            )
        where = f" in {tree.name(root)}" if root != leaf else ""
        own = f"{name} uses {used} of its {quota} {gpu_type}"
        return Denial(
            HoldReason.QUOTA,
            f"{own}, and {available or 'none'} more {'is' if available < 2 else 'are'} available to it{where}; "
            f"this job needs {gpus}",
            evidence,
            tuple(helps),
            wanted=gpus - available,
            once_free=become_free(gpus - available, f"{gpu_type} of guaranteed jobs{where}"),
        )

    def reclaims(self, waiting: Job, running: Job, gpu_type: str | None) -> bool:
        """A guaranteed job reclaims GPUs of opportunistic jobs, and within a share of its branch those lent from it."""
        if waiting.job_class is JobClass.OPPORTUNISTIC or gpu_type is None:
            return False
        gpus = waiting.request.gpus_on(gpu_type)
        if not gpus:
            return False
        if running.job_class is JobClass.OPPORTUNISTIC:
            return True
        return gpus <= self._lent(waiting.vc_id, running.vc_id, gpu_type)

    def on_loan(self, waiting: Job, running: Job, gpu_type: str | None) -> bool:
        """As `reclaims` with the jobs exchanged, were the waiting job to run in place of the other."""
        if running.job_class is JobClass.OPPORTUNISTIC or gpu_type is None:
            return False
        if waiting.job_class is JobClass.OPPORTUNISTIC:
            return True
        below = common(self._tree, _leaf(waiting.vc_id), _leaf(running.vc_id))
        if below is None:
            return False
        use, gpus = self._use, waiting.request.gpus_on(gpu_type)
        lent = use.beyond(_leaf(waiting.vc_id), below, gpu_type, gpus)
        return lent and not use.beyond(_leaf(running.vc_id), below, gpu_type)

    @property
    def _use(self) -> Use:
        if self._staying is None:
            self._staying = _without_stopping(self._held, self.view)
        return self._staying

    def reclaimable_at(self, run: Running) -> float:
        """A guaranteed run has had its minimum time by then, with its grace."""
        if run.job.job_class is JobClass.OPPORTUNISTIC:
            return 0.0
        return run.placed_at + max(0.0, self._min_run_s - run.job.grace_s)

    def share_quota(self, one: Job, other: Job) -> bool:
        """True if both are guaranteed jobs of one tree."""
        if JobClass.OPPORTUNISTIC in (one.job_class, other.job_class):
            return False
        return common(self._tree, _leaf(one.vc_id), _leaf(other.vc_id)) is not None

    def charge(self, vc_id: int, job_class: JobClass, gpu_type: str, gpus: int) -> None:
        super().charge(vc_id, job_class, gpu_type, gpus)
        if gpus < 0:
            self._denied.clear()
        if job_class is JobClass.GUARANTEED:
            self._held.add(_leaf(vc_id), gpu_type, gpus)
            if self._staying is not None:
                self._staying.add(_leaf(vc_id), gpu_type, gpus)

    def copy(self) -> Self:
        other = super().copy()
        other._held, other._staying, other._denied = self._held.copy(), self._use.copy(), {}
        return other


@dataclass(frozen=True, slots=True)
class ShareTree(Admission):
    """Admits guaranteed jobs within what their virtual clusters have and may borrow, and every opportunistic job.

    Source: the cohorts of Kueue, its documentation and `pkg/cache/resource_node.go`.
    """

    lock_scope: ClassVar[LockScope] = LockScope.POOL
    reclaims: ClassVar[bool] = True

    min_run_s: float = param(
        300, "The shortest time that a job keeps its GPUs before others reclaim them, its grace included.", minimum=0
    )

    def ledger(self, view: View) -> Ledger:
        return TreeLedger(view, self.min_run_s)

    def may_evict(self, view: View, running: Job, waiting: Job) -> bool:
        """A guaranteed job may evict opportunistic ones, and guaranteed ones of other virtual clusters of its tree."""
        if waiting.job_class is JobClass.OPPORTUNISTIC:
            return False
        return running.job_class is JobClass.OPPORTUNISTIC or TreeLedger(view, 0).share_quota(running, waiting)

    def violations(self, view: View, plan: Plan) -> Iterator[Violation]:
        """The guaranteed places that exceed a share, and the guaranteed jobs preempted for opportunistic ones.

        GPUs that the plan frees do not count.
        """
        use, tally = _without_stopping(_guaranteed_use(Ledger(view), Tree(view)), view), Tally(view)
        before = use.copy()
        for preempt in plan.preempts:
            run = view.running_by_job.get(preempt.job_id)
            if run is None or run.job.job_class is JobClass.OPPORTUNISTIC:
                continue
            _count(use, tally.freed_by(run), -1)
            winner = job_of(view, preempt.for_job_id)
            if winner is not None and winner.job_class is JobClass.OPPORTUNISTIC:
                message = f"the plan preempts a guaranteed job for opportunistic job {winner.id}"
                yield Violation(SHARE_EXCEEDED, run.job.id, message)
        for place in plan.places:
            job = job_of(view, place.job_id)
            if job is None or job.job_class is JobClass.OPPORTUNISTIC:
                continue  # `check` reports unknown jobs
            types = tally.taken_by(job, place.allocations)
            _count(use, types, 1)
            for vc_id, gpu_type in sorted(types):
                full = use.exceeded(_leaf(vc_id), gpu_type)
                if full is not None and use.of(full, gpu_type) > before.of(full, gpu_type):
                    message = f"{use.tree.name(full)} would hold {use.of(full, gpu_type)} {gpu_type}, more than it may"
                    yield Violation(SHARE_EXCEEDED, job.id, message)


def _guaranteed_use(ledger: Ledger, tree: Tree) -> Use:
    use = Use(tree)
    for vc_id, gpu_type in ledger.usage:
        if vc_id > 0:
            use.add(_leaf(vc_id), gpu_type, ledger.usage[vc_id, gpu_type] - ledger.usage[-vc_id, gpu_type])
    return use


def _without_stopping(use: Use, view: View) -> Use:
    """The use without what stopping jobs hold: those for whom they stop have it already."""
    staying, tally = use.copy(), Tally(view)
    for run in view.running:
        if run.stopping and run.job.job_class is JobClass.GUARANTEED:
            _count(staying, tally.freed_by(run), -1)
    return staying


def _leaf(vc_id: int) -> NodeId:
    return (Level.VIRTUAL_CLUSTER, vc_id)


def _count(use: Use, gpus: Mapping[tuple[int, str], int], times: int) -> None:
    for (vc_id, gpu_type), number in gpus.items():
        use.add(_leaf(vc_id), gpu_type, times * number)
