"""The ledger of cells: which GPUs a job may have by the cells of its virtual cluster, and whom it evicts there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Self

from scheduler.admission.hived.config import CellConfig
from scheduler.admission.hived.pool import Cells
from scheduler.admission.hived.want import OPPORTUNISTIC, Leaf, Placed, Want
from scheduler.admission.ledger import ANY_GPUS, Grant, Ledger
from scheduler.admission.screening import screens
from scheduler.model import AllocationView, Job, Locality, View
from scheduler.model.eligibility import NodeEligibility
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.phrases import become_free
from scheduler.model.plan import Denial, Evidence
from scheduler.model.request import Config

GUARANTEED = 0
"""The priority of all guaranteed jobs in their virtual cluster, where the policy decides which of them goes first."""


class CellLedger(Ledger):
    """Offers guaranteed jobs the GPUs of their virtual cells, and opportunistic jobs idle GPUs.

    A guaranteed job of which the cells are gone, such as after a reconfiguration, keeps its GPUs and counts as an
    opportunistic one: it is in `demoted`.
    """

    def __init__(self, view: View, config: CellConfig) -> None:
        super().__init__(view)
        self._names = {vc.id: vc.name for vc in view.vcs}
        self.config, self.cells = config, Cells(config)
        self.demoted: set[int] = set()
        self._gpu_ids = {(node.name, gpu.index): gpu.id for node in view.nodes for gpu in node.gpus}
        self._leaves = {gpu_id: leaf for leaf, gpu_id in self._gpu_ids.items()}
        self._eligibility = NodeEligibility(view.nodes)
        self._open: dict[frozenset[int], frozenset[str] | None] = {}
        self._answers: dict[Hashable, Grant | Denial] = {}
        self._denials: dict[tuple[int, JobClass], dict[Hashable, Denial]] = {}
        self._never: dict[Hashable, bool] = {}
        self._passing = False  # the last answer depends on jobs that are about to give GPUs
        self._read_nodes()
        for run in sorted(view.running, key=lambda run: (run.placed_at, run.job.id)):
            self._hold(run.job, run.allocations)
            idle_only = run.job.id in self.demoted or not self.is_guaranteed(run.job)
            if idle_only and (run.stopping or not run.evictable):
                self.cells.block(self._leaves_of(run.allocations))
        for kept in view.reservations:
            if kept.job_id not in view.waiting_by_id and kept.until > view.now:
                self.cells.block(self._leaves_of(kept.allocations))

    def _read_nodes(self) -> None:
        for node in self.view.nodes:
            if not node.schedulable:
                self.cells.set_healthy(node.name, False)
            else:
                self.cells.block((node.name, gpu.index) for gpu in node.gpus if not gpu.healthy)

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """The GPUs of the cells of the job's virtual cluster, or idle ones for an opportunistic job."""
        if config.gpu_type is None or not config.gpus:
            return ANY_GPUS
        closed = self._eligibility.to(job, self.view.now)
        key, owner = (job.request, config, closed, job.preemptible), (job.vc_id, job.job_class)
        denied = self._denials.setdefault(owner, {})
        known = denied.get(key) or self._answers.get((owner, key))
        if known is None:
            self._passing = False
            known = self._offer(job, config, self._nodes_without(closed))
            if isinstance(known, Denial) and not closed and not self._passing:
                denied[key] = known
            else:
                self._answers[owner, key] = known
        return known

    def _offer(self, job: Job, config: Config, suggested: frozenset[str] | None) -> Grant | Denial:
        guaranteed = self.is_guaranteed(job)
        if not guaranteed and (denial := self._cap(job, config)) is not None:
            return denial
        for want in self._wants(job, config, suggested):
            if (placed := self._place(want)) is not None:
                return self._grant(placed)
        return self._denial(job, config, suggested)

    def _place(self, want: Want) -> Placed | None:
        """A place without GPUs of jobs that cannot stop for it: those that are stopping, or have only reserved them."""
        blocked = self.cells.ground.blocked
        try:
            while isinstance(answer := self.cells.place(want), Placed):
                staying = [one for one in answer.evicts if not self._may_stop(one)]
                stay = {leaf for one in staying for leaf in self.cells.holds[one].leaves}
                if not stay:
                    return answer
                if stay <= self.cells.ground.blocked:
                    return None
                self.cells.ground.blocked = self.cells.ground.blocked | stay
                self._passing = True
            return None
        finally:
            self.cells.ground.blocked = blocked

    def _may_stop(self, group: Hashable) -> bool:
        run = self.view.running_by_job.get(group) if isinstance(group, int) else None
        return run is not None and run.evictable and not run.stopping

    def _grant(self, placed: Placed) -> Grant:
        leaves = {self._gpu_ids[leaf.node, leaf.index]: leaf.cell for pod in placed.pods for leaf in pod}
        cells = leaves if all(leaves.values()) else {}
        return Grant(frozenset(leaves), tuple(sorted(one for one in placed.evicts if isinstance(one, int))), cells)

    def _wants(self, job: Job, config: Config, suggested: frozenset[str] | None) -> Iterator[Want]:
        """Requests to the cells, in order; the first that has a place is taken.

        A divisible job is asked for on one node, then in halves, in quarters and so on. Pinned cells come last.
        """
        vc = self._names.get(job.vc_id, "")
        guaranteed = self.is_guaranteed(job)
        pins = ("", *self._pinned(job.vc_id)) if guaranteed else ("",)
        for pin in pins:
            for pods, together in self._asked(job, config):
                yield Want(
                    group=job.id,
                    vc=vc,
                    priority=GUARANTEED if guaranteed else OPPORTUNISTIC,
                    pods=pods,
                    leaf_type=config.gpu_type,
                    pinned=pin,
                    suggested=suggested,
                    together=together,
                    distinct_nodes=not job.request.divisible,
                )

    def _asked(self, job: Job, config: Config) -> Iterator[tuple[tuple[int, ...], bool]]:
        """The GPUs of each pod, and whether all must be in one rack."""
        within = config.locality or job.request.locality
        together = within is not Locality.ANY
        if not job.request.divisible:
            nodes = config.nodes or (1 if job.request.over_gang else job.request.nodes)
            yield (config.gpus // nodes,) * nodes, together
            return
        parts = 1
        while parts <= config.gpus and (parts == 1 or within is not Locality.NODE):
            size, more = divmod(config.gpus, parts)
            yield (size + 1,) * more + (size,) * (parts - more), together
            parts *= 2

    def is_guaranteed(self, job: Job) -> bool:
        """True if the job uses cells; screening runs use idle GPUs."""
        return job.job_class is JobClass.GUARANTEED and not screens(job.vc_id)

    def _pinned(self, vc_id: int) -> tuple[str, ...]:
        vc = self.view.vc_by_id.get(vc_id)
        return vc.pinned if vc is not None else ()

    def _nodes_without(self, closed: frozenset[int]) -> frozenset[str] | None:
        if not closed:
            return None
        if closed not in self._open:
            self._open[closed] = frozenset(node.name for node in self.view.nodes if node.id not in closed)
        return self._open[closed]

    # Denials

    def _cap(self, job: Job, config: Config) -> Denial | None:
        """The reason that an opportunistic job would exceed its cluster's loans, or a screening run its quota."""
        vc, gpu_type = self.view.vc_by_id.get(job.vc_id), str(config.gpu_type)
        name = vc.name if vc is not None else f"virtual cluster {job.vc_id}"
        screened = screens(job.vc_id)
        limits: Mapping[str, int] = {} if vc is None else vc.quotas if screened else vc.borrowing
        limit = limits.get(gpu_type)
        used = self.usage[job.vc_id if screened else -job.vc_id, gpu_type]
        if limit is None or used + config.gpus <= limit:
            return None
        evidence: Evidence = {"vc": name, "gpu_type": gpu_type, "used": used, "quota": limit, "needed": config.gpus}
        what = "GPUs of screening runs" if screened else "opportunistic jobs"
        detail = f"{what} of {name} may hold {limit} {gpu_type} and hold {used}; this job needs {config.gpus}"
        if config.gpus > limit:
            helps = (f"ask for at most {limit} {gpu_type}", f"ask an operator to raise the borrowing limit of {name}")
            return Denial(HoldReason.QUOTA_TOO_SMALL, detail, evidence, helps)
        short = used + config.gpus - limit
        once_free = become_free(short, f"{gpu_type} of {what} of {name}")
        return Denial(HoldReason.QUOTA, detail, evidence, (), wanted=short, once_free=once_free)

    def _denial(self, job: Job, config: Config, suggested: frozenset[str] | None) -> Denial:
        gpu_type, needed = str(config.gpu_type), config.gpus
        if not self.is_guaranteed(job):
            return Denial(
                HoldReason.FRAGMENTED,
                f"no {needed} idle {gpu_type} lie as this job needs them",
                {"gpu_type": gpu_type, "needed": needed},
                ("ask for fewer GPUs on a node, or for more nodes",),
                wanted=needed,
                once_free=become_free(needed, gpu_type),
            )
        name = self._names.get(job.vc_id, f"virtual cluster {job.vc_id}")
        total, free = self.cells.owned(name, gpu_type), self.cells.unused(name, gpu_type)
        evidence: Evidence = {
            "vc": name,
            "gpu_type": gpu_type,
            "used": total - free,
            "quota": total,
            "needed": needed,
        }
        ask = f"ask an operator for larger cells for {name}"
        if needed > total or self._is_never(job, config):
            what = f"the cells of {name} have {total or 'no'} {gpu_type}"
            shape = "" if needed > total else ", but never as this job needs them"
            return Denial(
                HoldReason.QUOTA_TOO_SMALL, f"{what}{shape}; this job needs {_shape(job, config)}", evidence, (ask,)
            )
        if needed > free:
            return Denial(
                HoldReason.QUOTA,
                f"{name} uses {total - free} of the {total} {gpu_type} of its cells; this job needs {needed}",
                evidence,
                (ask,),
                wanted=needed - free,
                once_free=become_free(needed - free, f"{gpu_type} of {name}"),
            )
        return Denial(
            HoldReason.FRAGMENTED,
            f"{free} {gpu_type} in the cells of {name} are free, but not as this job needs them: {_shape(job, config)}",
            evidence,
            ("jobs of the virtual cluster that share its cells end", ask),
            wanted=needed,
            once_free=become_free(needed, f"{gpu_type} of {name}"),
        )

    def _is_never(self, job: Job, config: Config) -> bool:
        """True if not even an idle pool of healthy nodes has a place for the guaranteed job."""
        key = (job.vc_id, job.request, config)
        if key not in self._never:
            wants = self._wants(job, config, None)
            self._never[key] = not any(isinstance(self.cells.could_ever(want), Placed) for want in wants)
        return self._never[key]

    def _forget(self, job: Job, *, given: bool) -> None:
        """Forget the answers that a change of the job's GPUs changes.

        Grants name GPUs that another job may have now. A denial to a virtual cluster changes only with its own cells
        while all nodes are healthy and open; a denial to opportunistic jobs changes when GPUs come free.
        """
        self._answers.clear()
        if self.cells.ground.bad_nodes or self.cells.ground.blocked:
            self._denials.clear()
            return
        for owner in list(self._denials):
            if owner[0] == job.vc_id or (given and owner[1] is JobClass.OPPORTUNISTIC):
                del self._denials[owner]

    # Holdings

    def take(self, job: Job, allocations: Iterable[AllocationView]) -> None:
        allocations = tuple(allocations)
        super().take(job, allocations)
        self._forget(job, given=False)
        self._hold(job, allocations)

    def give(self, job: Job, allocations: Iterable[AllocationView]) -> None:
        super().give(job, allocations)
        self._forget(job, given=True)
        self.demoted.discard(job.id)
        if job.id in self.cells.holds:
            self.cells.give(job.id)

    def charge(self, vc_id: int, job_class: JobClass, gpu_type: str, gpus: int) -> None:
        """See `Ledger`; cells are not charged by numbers."""
        super().charge(vc_id, job_class, gpu_type, gpus)
        self._answers.clear()
        self._denials.pop((vc_id, job_class), None)

    def copy(self) -> Self:
        other = super().copy()
        other.cells, other.demoted = self.cells.copy(), set(self.demoted)
        other._answers, other._denials = {}, {}
        return other

    def key(self, job: Job) -> Hashable:
        """See `Ledger`: each virtual cluster has GPUs of its own."""
        return job.vc_id, job.job_class

    def adopted(self, job: Job, allocations: Iterable[AllocationView]) -> tuple[AllocationView, ...]:
        """The allocations with the cells around them; as they are if the job has none there."""
        shares = tuple(allocations)
        leaves = self.cells.adopt(self._names.get(job.vc_id, ""), GUARANTEED, self._bound_leaves(shares))
        if not self.is_guaranteed(job) or leaves is None:
            return shares
        cells = {self._gpu_ids[leaf.node, leaf.index]: leaf.cell for leaf in leaves}
        return tuple(replace(share, cells=tuple(cells[gpu_id] for gpu_id in share.gpu_ids)) for share in shares)

    def bind(self, job: Job, allocations: Iterable[AllocationView]) -> bool:
        """Hold exactly the cells of the allocations; False, and nothing is held, if they are not free for the job."""
        leaves = self._bound_leaves(allocations)
        self._forget(job, given=False)
        vc = self._names.get(job.vc_id, "")
        return all(leaf.cell for leaf in leaves) and self.cells.take(job.id, vc, GUARANTEED, leaves)

    def _bound_leaves(self, allocations: Iterable[AllocationView]) -> list[Leaf]:
        return [
            Leaf(*self._leaves[gpu_id], cell)
            for share in allocations
            for gpu_id, cell in zip(share.gpu_ids, share.cells or ("",) * len(share.gpu_ids), strict=True)
            if gpu_id in self._leaves
        ]

    def _hold(self, job: Job, allocations: tuple[AllocationView, ...]) -> None:
        leaves = self._bound_leaves(allocations)
        # All offers of a round are for jobs that do not exist yet.
        group: Hashable = job.id or ("offer", len(self.cells.holds))
        if group in self.cells.holds or not leaves:
            return
        vc = self._names.get(job.vc_id, "")
        if self.is_guaranteed(job):
            if all(leaf.cell for leaf in leaves) and self.cells.take(group, vc, GUARANTEED, leaves):
                return
            adopted = self.cells.adopt(vc, GUARANTEED, leaves)
            if adopted is not None and self.cells.take(group, vc, GUARANTEED, adopted):
                return
            self.demoted.add(job.id)
        self.cells.take(group, vc, OPPORTUNISTIC, [Leaf(leaf.node, leaf.index) for leaf in leaves])

    def _leaves_of(self, allocations: Iterable[AllocationView]) -> Iterator[tuple[str, int]]:
        return (self._leaves[gpu_id] for share in allocations for gpu_id in share.gpu_ids if gpu_id in self._leaves)


def _shape(job: Job, config: Config) -> str:
    """`8 A100 on one node`, `2 × 8 A100 in one rack`."""
    nodes = config.nodes or (1 if job.request.over_gang else job.request.nodes)
    within = config.locality or job.request.locality
    if job.request.divisible:
        return f"{config} within one {within}" if within is not Locality.ANY else f"{config.gpus} {config.gpu_type}"
    each = f"{config.gpus // nodes} {config.gpu_type}"
    if nodes == 1:
        return f"{each} on one node"
    return f"{each} on each of {nodes} nodes" + (" in one rack" if within is not Locality.ANY else "")
