"""Gandiva; docs/policies/gandiva.md describes the goal and the differences from the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import BasePolicy, Job, Key, Need, Running, param
from scheduler.policies.gandiva import elastic, moves, pairs, probation
from scheduler.policies.gandiva.job_state import (
    LAST_SEARCH,
    NEXT_CHECK,
    SliceNodes,
    lasting_state,
    slice_nodes_state,
    suits,
    waits_for_slice,
)
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.gandiva.suspended import SuspendedJobs, WakeQueue
from scheduler.policies.gandiva.time_slices import TimeSlices
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import UNSCHEDULABLE, CycleContext, Demand, Denial, HoldReason, become_free, words

_LOOK_EVERY_S = 15.0
# The keys of the jobs that wait for a time slice are below this, those of new jobs above.
_NEW: Key = (1,)


@dataclass(frozen=True, slots=True)
class Gandiva(BasePolicy):
    """Packs jobs of one size onto nodes of their own, time-slices them there, and migrates them closer together.

    Source: Xiao et al., Gandiva: Introspective Cluster Scheduling for Deep Learning (OSDI 2018), §3 and §4.
    """

    chooses_gpus: ClassVar[bool] = True
    slice_s: float | None = param(
        60, "The length of a time slice on over-subscribed GPUs. null: no time slicing.", minimum=1
    )
    max_height: float = param(
        4, "The most GPUs requested on a node, suspended jobs included, per GPU that it has.", minimum=1
    )
    introspect_s: float | None = param(
        300, "The minimum time before a job is moved, and between two checks. null: no moves.", minimum=1
    )
    restart_s: float = param(
        0, "The cost of a start: it lengthens slices, and a job with less time left is not moved.", minimum=0
    )
    grow_after_s: float | None = param(
        None, "The time that GPUs are idle before an elastic job of the node takes them. null: never.", minimum=1
    )
    trial_s: float | None = param(60, "The probation of pairs, moves and growth. null: none; no sharing.", minimum=0)

    @property
    def period_s(self) -> float | None:
        asked = (self.introspect_s, self.grow_after_s, self.trial_s)
        return _LOOK_EVERY_S if any(after_s is not None for after_s in asked) else None

    preemptive: ClassVar[bool] = True

    @property
    def needs(self) -> frozenset[Need]:
        """Remaining times, if a job that ends soon is not worth a restart."""
        return frozenset({Need.REMAINING} if self.restart_s > 0 else ())

    def waiting_key(self, job: Job) -> Key:
        """Suspended jobs first, longest waiting first; then by priority, then submission."""
        if waits_for_slice(job):
            return (0, job.waiting_since, 0.0)
        return (1, -job.priority, job.submitted_at)

    def group_of(self, job: Job) -> int:
        """Suspended jobs exchange no places with new ones."""
        return int(waits_for_slice(job))

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The time at which a suspended job's slice may begin, or a running job may be moved or may grow."""
        if run is None:
            at = job.policy_state.get(NEXT_CHECK)
        else:
            known = (
                moves.due_at(run, self.introspect_s),
                elastic.due_at(run, self.grow_after_s),
                pairs.due_at(run, self.trial_s),
                probation.due_at(run, self.trial_s),
            )
            at = min((moment for moment in known if moment is not None and moment > now + SOON_S), default=None)
        return at if at is not None and at > now + SOON_S else None

    def serve(self, context: CycleContext) -> None:
        """See `Policy`.

        1. Suspended jobs, in order: back to their time-slice nodes if these have room, else to other free GPUs, else in
           place of jobs there whose time slice is over.
        2. New jobs, in order: to the least loaded node of their affinity with a height below 1, to an empty node, to
           any free GPUs, to GPUs that elastic jobs give back, or to time slices; else they are queued.
        3. Periodically: moves that make room for a waiting job, or bring a job closer together; a job that became
           slower by a move or by growth goes back.
        4. Jobs that still wait are paired with others, and pairs slower than time slicing are undone.
        5. Elastic jobs grow into GPUs that have been idle for long enough.
        """
        _Decision(self, context).run()


class _Decision:
    """One decision."""

    def __init__(self, policy: Gandiva, context: CycleContext) -> None:
        self.policy, self.context = policy, context
        self.suspended = context.state.waiting_index(SuspendedJobs, lambda: SuspendedJobs(policy.waiting_key))
        self.suspended.refresh()
        self.nodes = Nodes(context, self.suspended, (policy.slice_s or 0.0) + policy.restart_s)
        self.time_slices = TimeSlices(context, self.nodes, policy.max_height)
        # The queue must not change during the walk, so the states of waiting jobs are written at the end.
        self.policy_states: dict[int, tuple[Job, Mapping[str, float]]] = {}
        self.left: list[Job] = []  # jobs that could not be placed, the first of each class

    def run(self) -> None:
        self._resume_suspended()
        self._serve_new()
        policy, context = self.policy, self.context
        if policy.trial_s is not None:
            probation.judge(context, self.nodes, policy.trial_s, policy.restart_s)
        if policy.introspect_s is not None:
            looked = moves.make_room(context, self.nodes, self.left, policy.introspect_s, policy.restart_s)
            if looked is not None:
                self._remember(looked, {**self._memo(looked), LAST_SEARCH: context.now})
            moves.bring_together(context, self.nodes, policy.introspect_s, policy.restart_s)
        if policy.trial_s is not None:
            self._pairs(policy.trial_s)
        for job_id, (job, policy_state) in sorted(self.policy_states.items()):
            now = lasting_state(job) if job_id in context.places else policy_state
            if now != job.policy_state:
                context.note(job, None, now)
        if policy.grow_after_s is not None:
            elastic.grow(context, self.nodes, policy.grow_after_s, policy.restart_s)

    def _pairs(self, trial_s: float) -> None:
        context, queue = self.context, self.context.state.queue(self.policy)
        pairs.judge(context, trial_s)
        if any(job.request.shares_gpu for job, _ in queue.classes()):
            for job in pairs.pack(context, self.nodes, queue.walk()):
                self._remember(job, {})
        if not any(job.request.first.gpus and job.id not in context.places for job, _ in queue.classes()):
            pairs.separate(context, self.nodes, self.policy.restart_s)

    def _resume_suspended(self) -> None:
        """Serve the suspended jobs that may not sleep on, in the order of the queue."""
        context, nodes = self.context, self.nodes
        examine_all = self.policy.slice_s is None or context.admission.reclaims or context.explain
        wake_queue = WakeQueue(context, self.suspended, examine_all=examine_all)
        while (one := wake_queue.next()) is not None:
            if one.job.id in context.places or one.job.id in context.reserved:
                continue
            nodes.served = one.entry
            if not self._sleeps(one.job, one.slice_nodes):
                nodes.awake.add(one.job.id)
                self._resume(one.job, one.slice_nodes)
        nodes.served = None

    def _resume(self, job: Job, slice_nodes: SliceNodes) -> None:
        """Resume a suspended job, or let it wait for its time slice."""
        context = self.context
        demands, denial = context.admissible(job)
        if denial is not None and denial.reason in UNSCHEDULABLE:
            return
        moment = (
            self.time_slices.next_slice_at(job, slice_nodes)
            if self.policy.slice_s is not None and suits(job, slice_nodes)
            else None
        )
        self.nodes.host(job, slice_nodes, -1)
        for demand in demands if moment is not None else ():
            found = None if any(map(self.nodes.is_blocked, slice_nodes)) else self.nodes.place_on(demand, slice_nodes)
            if found is not None and self._take(job, found):
                return
        if (demands and self._place_on_free(job, demands)) or self._reclaim(job):
            return
        if moment is None:  # its time-slice nodes cannot serve it any more, so it counts as new
            self._remember(job, {})
            self.left.append(job)
            return
        self._wait_for_slice(job, slice_nodes, moment)

    def _sleeps(self, job: Job, slice_nodes: SliceNodes) -> bool:
        """True if nothing can have changed for the job since it was last examined, which holds for most jobs."""
        at = job.policy_state.get(NEXT_CHECK, 0.0)
        if self.policy.slice_s is None or at <= self.context.now + SOON_S or not suits(job, slice_nodes):
            return False
        if self.context.admission.reclaims or not self.nodes.has_nothing_free(job, slice_nodes):
            return False
        if self.context.explain:
            self.context.pending_reasons[job.id] = self._waits_for_slice(job, slice_nodes)
        return True

    def _serve_new(self) -> None:
        context, droppable = self.context, not self.context.placement.relaxes
        walk = context.state.queue(self.policy).walk(since=_NEW)
        grown: Sequence[Running] | None = None
        while (entry := walk.next()) is not None:
            job, _ = entry
            if job.id in context.places or job.id in context.reserved:
                continue
            demands, denial = context.admissible(job)
            if denial is not None and denial.reason in UNSCHEDULABLE:
                walk.drop()
                continue
            if (demands and self._place_on_free(job, demands)) or self._reclaim(job):
                continue
            grown = elastic.all_grown(context) if grown is None else grown
            if elastic.shrink(context, self.nodes, job, demands or context.demands(job), grown):
                self._remember(job, {})
                self.time_slices.placed(job)
                continue
            if job.id in context.deferred:
                if not context.explain:
                    return
                continue
            slice_nodes = self._find_slice_nodes(job, demands)
            if slice_nodes is not None:
                self._wait_for_slice(job, slice_nodes, self.time_slices.next_slice_at(job, slice_nodes))
                continue
            self.left.append(job)
            if droppable and self._represents_class(job):
                walk.drop()

    def _represents_class(self, job: Job) -> bool:
        """True if no other job of its class can do better than the job."""
        return self.policy.slice_s is None or (job.checkpoints and job.preemptible) or not job.request.needs_gpus

    def _find_slice_nodes(self, job: Job, admitted: Sequence[Demand]) -> SliceNodes | None:
        if self.policy.slice_s is None:
            return None
        return self.time_slices.find_slice_nodes(job, admitted or self.context.demands(job), own=not admitted)

    def _wait_for_slice(self, job: Job, slice_nodes: SliceNodes, at: float | None) -> None:
        """Start the job's time slice, or let it wait for one on these nodes."""
        if self.time_slices.begin(job, slice_nodes):
            self._remember(job, {})
            return
        self.nodes.host(job, slice_nodes, 1)
        if at is not None:
            at = self.time_slices.wait(job, slice_nodes, at)
            if (
                self.suspended.slice_nodes(job.id) == slice_nodes
                and self.context.now + SOON_S < job.policy_state.get(NEXT_CHECK, 0.0) < at
            ):
                at = job.policy_state[
                    NEXT_CHECK
                ]  # checking early costs nothing, while a changed policy state must be written
            looked = {LAST_SEARCH: job.policy_state[LAST_SEARCH]} if LAST_SEARCH in job.policy_state else {}
            self._remember(job, {**slice_nodes_state(slice_nodes), **looked, NEXT_CHECK: at})
        if self.context.explain and job.id not in self.context.deferred:
            self.context.pending_reasons[job.id] = self._waits_for_slice(job, slice_nodes)

    def _place_on_free(self, job: Job, demands: Sequence[Demand]) -> bool:
        """Place the job on free GPUs; True if it has them."""
        for demand in demands:
            found = self.nodes.find_place(job, demand)
            if found is not None and self._take(job, found):
                return True
        placed = self.nodes.place_elsewhere(job, demands)
        if placed:
            self._remember(job, {})
            self.time_slices.placed(job)
        return placed

    def _reclaim(self, job: Job) -> bool:
        """Reclaim GPUs that others have on loan; True if the job has them."""
        victims = self.context.reclaimable(job)
        if not victims or not self.context.place_instead(job, victims, "its GPUs go to a job ahead of it"):
            return False
        self.context.bind_deferred_lots()
        self._remember(job, {})
        self.time_slices.placed(job)
        return True

    def _take(self, job: Job, found: Sequence[Any]) -> bool:
        if self.context.limit_reached:
            self.context.deferred.add(job.id)
            return False
        self.context.take(job, tuple(found))
        self._remember(job, {})
        self.time_slices.placed(job)
        return True

    def _memo(self, job: Job) -> Mapping[str, float]:
        return self.policy_states[job.id][1] if job.id in self.policy_states else job.policy_state

    def _remember(self, job: Job, policy_state: Mapping[str, float]) -> None:
        if policy_state or job.policy_state:
            self.policy_states[job.id] = (job, {**lasting_state(job), **policy_state})
        else:
            self.policy_states.pop(job.id, None)

    def _waits_for_slice(self, job: Job, slice_nodes: SliceNodes) -> Denial:
        names = [self.context.view.node_by_id[node_id].name for node_id in slice_nodes]
        where = names[0] if len(names) == 1 else words.count(len(names), "node")
        return Denial(
            HoldReason.NO_FREE_GPUS,
            f"this job shares time slices on {where} with jobs of its size, and waits for its slice",
            {"nodes": len(names), "needed": job.request.gpus_total},
            ("the time slice of a job there ends",),
            wanted=job.request.gpus_total,
            once_free=become_free(job.request.gpus_total, "GPU" if job.request.gpus_total == 1 else "GPUs"),
        )
