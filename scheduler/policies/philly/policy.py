"""Philly's scheduler as a preset; docs/policies/philly.md describes it and the effect of its switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from scheduler.authoring import Job, JobClass, Key, Locality, Need, Running, View, param
from scheduler.policies.philly.back_off import (
    BackOffGroups,
    back_off,
    failed_tries,
    merged_walks,
    ready_queues,
    retry_at,
)
from scheduler.policies.philly.places import ANYWHERE, FEWEST_SERVERS, ONE_RACK, fewest_servers, find
from scheduler.policies.queues import ratio
from scheduler.policies.shared import Shared, ShareLedger
from scheduler.workshop import (
    AllocationView,
    Capacity,
    CycleContext,
    Demand,
    Denial,
    HoldReason,
    QueueWalk,
    ResourceUsage,
    defragment,
)


@dataclass(frozen=True, slots=True)
class Philly(Shared):
    """Serves the virtual cluster that uses the least of its quota, and relaxes locality after a number of tries.

    Source: Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters (USENIX ATC 2019), §2.3; lessons in §5.
    """

    chooses_gpus: ClassVar[bool] = True
    preemption_share: ClassVar[float] = 1.0  # only the quotas of the preempting virtual clusters bound it
    preempt_above: float = param(
        0.9, "The share of GPUs in use from which jobs beyond quota are preempted.", minimum=0, maximum=1
    )
    tries: int = param(3, "The number of tries before a gang's locality is relaxed.", minimum=1)
    back_off_s: float = param(120, "The time that a gang waits after a failed try.", minimum=0)
    relax_after_s: float | None = param(
        None, "The wait after which locality is relaxed anyway. null: only after tries.", minimum=1
    )
    long_jobs_wait_for_locality: bool = param(
        False, "Let long jobs fail four times as many tries before their locality relaxes."
    )
    long_s: float = param(14400, "The predicted run time from which a job is long.", minimum=0)
    dedicated_nodes: bool = param(False, "Let a gang on several servers share them with no other job.")
    migrate_to_defragment: bool = param(False, "Move jobs with checkpoints to make room for a gang.")
    restart_s: float = param(60, "The cost of such a move, to choose the cheapest.", minimum=0)
    no_retry_of_hopeless: bool = param(False, "End a job at once after a hopeless failure. The policy ignores it.")

    @property
    def needs(self) -> frozenset[Need]:
        """Run times, if long jobs wait for their locality."""
        return frozenset({Need.REMAINING} if self.long_jobs_wait_for_locality else ())

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> _Quotas:
        return _Quotas(view, capacity, usage, self.preempt_above)

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The end of its back-off, or the moment at which its locality relaxes."""
        if run is not None:
            return None
        moments = [retry_at(job)]
        if self.relax_after_s is not None:
            moments += [job.waiting_since + times * self.relax_after_s for times in (1, 2)]
        return min((moment for moment in moments if moment > now), default=None)

    def stage(self, job: Job, now: float) -> int:
        """The locality stage that the job has reached, see `places`."""
        stage = int(failed_tries(job) // self._tries_of(job))
        if self.relax_after_s is not None:
            stage = max(stage, int((now - job.waiting_since) // self.relax_after_s))
        return min(stage, ONE_RACK if job.request.locality is not Locality.ANY else ANYWHERE)

    def fully_relaxed(self, job: Job) -> bool:
        """True if a try at the last locality stage failed: backing off again gains nothing.

        Not if other jobs may move for it: that search is too expensive for every decision.
        """
        last = ONE_RACK if job.request.locality is not Locality.ANY else ANYWHERE
        return (last == ANYWHERE or not self.migrate_to_defragment) and failed_tries(job) > last * self._tries_of(job)

    def walks(self, context: CycleContext, ledger: ShareLedger, job_class: JobClass | None) -> Mapping[int, QueueWalk]:
        """See `Shared`; without jobs that back off, and without classes of which no job can be placed."""
        queues = ready_queues(context, BackOffGroups(self.fully_relaxed), all_jobs=_idle(context))

        def hopeless(job: Job, fully_relaxed: bool) -> bool:
            """True if no job of its class finds room, or may preempt."""
            if (
                job.request.only_type is None
                or not job.request.needs_gpus
                or context.admission.reclaims
                or not isinstance(ledger, _Quotas)
            ):
                return False
            if ledger.within(job.vc_id, job.request.only_type, job.request.gpus_total):
                return False
            if context.state.free.gpus(job.request.only_type) < job.request.gpus_total:
                return True
            alike = fully_relaxed or not _has_locality(job)
            return alike and ledger.fails(context, context.demands(job)[0], ANYWHERE)

        return merged_walks(queues, hopeless, lambda group: queues[group].walk(job_class))

    def try_place(self, context: CycleContext, ledger: ShareLedger, job: Job, demand: Demand) -> bool:
        """See `Shared`; tries the job at its stage and notes a failed try."""
        idle = _idle(context)
        if not idle and retry_at(context.view.waiting_by_id[job.id]) > context.now:
            return False  # it was included because nothing ran, but a job has been placed since
        if context.limit_reached:
            context.deferred.add(job.id)
            return False
        context.bind_deferred_lots()
        stage, free = ANYWHERE if idle else self.stage(job, context.now), context.state.free
        found = None
        known = isinstance(ledger, _Quotas) and ledger.fails(context, demand, stage)
        for avoid in (job.avoid_nodes, ()) if job.avoid_nodes else ((),):  # nodes to avoid are better than none
            for looser in range(stage if not idle else 0, stage + 1) if not known else ():
                found = found or find(free, demand, looser, avoid, dedicated=self.dedicated_nodes)
        if found is not None:
            context.take(job, found)
            return True
        if isinstance(ledger, _Quotas):
            ledger.failed[demand] = max(stage, ledger.failed.get(demand, stage))
        size = demand.gpus * demand.nodes
        if max(size, demand.nodes) < 2 or free.gpus(demand.gpu_type) < size:
            return False  # it lacks GPUs, not only their locality
        if self.migrate_to_defragment and self._make_room(context, job, demand):
            return True
        if isinstance(ledger, _Quotas) and not self.fully_relaxed(job):
            ledger.tried[job.id] = job
        return False

    def class_varies(self, context: CycleContext, job: Job) -> bool:
        """True if gangs of a class differ in their tries while enough GPUs are free and locality is left to relax."""
        if not _has_locality(job) or self.fully_relaxed(job):
            return False
        kinds = job.request.types_among(context.state.capacity.types)
        return not job.request.needs_gpus or any(
            context.state.free.gpus(kind) >= job.request.gpus_on(kind) for kind in kinds
        )

    def finish(self, context: CycleContext, ledger: ShareLedger) -> None:
        """Note the failed tries."""
        if not isinstance(ledger, _Quotas):
            return
        for job_id in sorted(ledger.tried.keys() - context.places.keys()):
            back_off(context, BackOffGroups(self.fully_relaxed), ledger.tried[job_id], self.back_off_s)
        for job in context.view.waiting if context.explain else ():
            note = context.notes.get(job.id)
            late = job if note is None else replace(job, policy_state=note.policy_state)
            if job.id in context.places or retry_at(late) <= context.now:
                continue
            demands, denial = context.admissible(job)
            if denial is None:
                context.pending_reasons[job.id] = _backs_off(late, demands[0])

    def _tries_of(self, job: Job) -> int:
        """The number of tries before the job's locality relaxes."""
        waits = self.long_jobs_wait_for_locality and job.expected_s is not None and job.expected_s >= self.long_s
        return 4 * self.tries if waits else self.tries

    def _make_room(self, context: CycleContext, job: Job, demand: Demand) -> bool:
        """Move other jobs, each of which resumes from its checkpoint, for the job; True if it found room."""
        free, close, stage = context.state.free, demand, self.stage(job, context.now)
        if demand.within is Locality.ANY and stage < ANYWHERE:
            close = demand.relaxed(Locality.RACK)
        if demand.divisible and stage == FEWEST_SERVERS and fewest_servers(free, demand) == 1:
            close = demand.relaxed(Locality.NODE)
        runs = [run for run in context.view.running if context.stays(run)]
        moves = defragment(free, runs, close, context.placement, now=context.now, restart_s=lambda _: self.restart_s)
        if not moves or len(context.places) + len(moves) >= context.max_places:
            return False
        for move in moves:
            context.release(move.run)
        found = context.placement.place(free, close, ())
        if found is not None:
            free.take(found)
            fits = _all_fit(context, [move.allocations for move in moves])
            free.give(found)
            if fits:
                context.take(job, found)
                for move in moves:
                    context.take(move.run.job, move.allocations)
                    context.preempt(move.run, move.run.job.id, "it moves to make room for a gang")
                return True
        for move in reversed(moves):
            context.undo_release(move.run)
        return False


class _Quotas(ShareLedger):
    """Shares by quota, and the gangs whose tries failed."""

    def __init__(self, view: View, capacity: Capacity, usage: ResourceUsage, preempt_above: float) -> None:
        self.tried: dict[int, Job] = {}
        self.failed: dict[Demand, int] = {}  # demands that found no room, with the last stage tried
        self._preempted = 0
        self._kinds = capacity.types
        self._preempt_above = preempt_above
        super().__init__(view, capacity, usage, lambda job: job.vc_id)

    def key(self, group: int) -> Key:
        """The share of its quota that the virtual cluster uses."""
        used = self.used.get(group, Counter[str]())
        return (ratio({kind: used[kind] for kind in self._kinds}, self._quota(group)),)

    def fails(self, context: CycleContext, demand: Demand, stage: int) -> bool:
        """True if the demand is known to find no room: it found none, and nothing has been freed since."""
        if len(context.preempts) != self._preempted:
            self._preempted = len(context.preempts)
            self.failed.clear()
        return self.failed.get(demand, -1) >= stage

    def within(self, vc_id: int, kind: str, gpus: int) -> bool:
        """True if the virtual cluster stays within its quota with `gpus` more."""
        return self.used.get(vc_id, Counter[str]())[kind] + gpus <= self._quota(vc_id).get(kind, 0)

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """True if the virtual cluster with the job stays within its quota, and the pool is full enough."""
        kind = demand.gpu_type
        if kind is None:
            return False
        if not self.within(job.vc_id, kind, demand.gpus * demand.nodes):
            return False
        all_used = sum(used[each] for used in self.used.values() for each in self._kinds)
        total = sum(self.total[each] for each in self._kinds)
        return all_used >= self._preempt_above * total

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """GPUs beyond the quota."""
        kind = demand.gpu_type
        return 0.0 if kind is None else float(self.used[group][kind] - self._quota(group).get(kind, 0))

    def _quota(self, vc_id: int) -> Mapping[str, int]:
        vc = self.view.vc_by_id.get(vc_id)
        return vc.quotas if vc else {}


def _all_fit(context: CycleContext, wanted: Sequence[tuple[AllocationView, ...]]) -> bool:
    """True if all of them are free together; leaves the free resources unchanged."""
    taken: list[tuple[AllocationView, ...]] = []
    for allocations in wanted:
        if not context.state.free.can_take(allocations):
            break
        context.state.free.take(allocations)
        taken.append(allocations)
    for allocations in reversed(taken):
        context.state.free.give(allocations)
    return len(taken) == len(wanted)


def _idle(context: CycleContext) -> bool:
    """True if no job runs that a gang could wait for."""
    nodes = context.view.node_by_id
    shares = (share for run in context.view.running for share in run.allocations)
    return not context.places and not any((node := nodes.get(one.node_id)) and node.schedulable for one in shares)


def _has_locality(job: Job) -> bool:
    """True if the job has several GPUs or nodes, which can lie more or less close together."""
    return job.request.nodes > 1 or any(choice.gpus > 1 for choice in job.request.choices)


def _backs_off(job: Job, demand: Demand) -> Denial:
    moment = datetime.fromtimestamp(retry_at(job), UTC).isoformat(timespec="seconds")
    tries, size = int(failed_tries(job)), demand.gpus * demand.nodes
    return Denial(
        HoldReason.FRAGMENTED,
        f"{size} GPUs were free, but not close enough together, {tries} times; this job is tried again at {moment}",
        {"gpu_type": demand.gpu_type or "", "needed": size, "tries": tries, "again_at": retry_at(job)},
        ("its locality is relaxed after more tries",),
        wanted=size,
        once_free=f"{size} GPUs become free close together",
    )
