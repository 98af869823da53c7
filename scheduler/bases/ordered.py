"""The base of policies with one order of all jobs: first jobs are placed first, and may preempt the last ones."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.bases.policy import BasePolicy
from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.engine.queue import Key
from scheduler.model import Job, Running
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import UNSCHEDULABLE
from scheduler.placement.demand import Demand


@dataclass(frozen=True, slots=True)
class OrderedPolicy(BasePolicy):
    """A policy defined by its order alone; subclasses need only define the keys.

    1. In the order of the keys, each waiting job is placed or left.
    2. A preemptive policy lets it preempt running jobs with larger keys, largest first.
    3. A preempted job is examined too, at the position of its key: it stays after all if it fits by then, because later
       preemptions freed more than was needed.
    4. Jobs behind a job that cannot start may pass it, unless `lets_pass` forbids it.
    """

    @property
    def preemptive(self) -> bool:
        """True if waiting jobs may preempt running ones."""
        return False

    def running_key(self, run: Running, now: float) -> Key:
        """The position of a running job among the waiting ones."""
        return self.waiting_key(run.job)

    def preemption_key(self, run: Running, now: float) -> Key:
        return self.running_key(run, now)

    def aging_rate(self, run: Running) -> float:
        return 1

    def may_go(self, run: Running, now: float) -> bool:
        """True if the running job may be preempted by now."""
        return True

    @property
    def blocks(self) -> bool:
        """True if `lets_pass` may ever be false."""
        return False

    def lets_pass(self, job: Job, now: float) -> bool:
        """True if later jobs may start before this one, which could run but not now."""
        return True

    def review(self, job: Job, run: Running | None, now: float) -> Mapping[str, float] | None:
        """The job's new policy state, if it changes by now."""
        return None

    def serve(self, context: CycleContext) -> None:
        self._review(context)
        reprieve = _Reprieve(self, context)
        for job_class in context.service_classes():
            self._walk(context, reprieve, job_class)
        reprieve.examine_rest()

    def _walk(self, context: CycleContext, reprieve: _Reprieve, job_class: JobClass | None) -> None:
        """Serve all waiting jobs, or those of one class, in order."""
        head_of_pool: Job | None = None
        head_of_vc: dict[int, Job] = {}
        walk = context.state.queue(self).walk(job_class)
        droppable = not self.blocks and not context.placement.relaxes
        while (entry := walk.next()) is not None:
            job, key = entry
            reprieve.examine_up_to(key)
            if job.id in context.places or job.id in context.reserved:
                continue
            admitted, denial = context.admissible(job)
            if denial is not None and denial.reason in UNSCHEDULABLE:
                walk.drop()
                continue
            head = head_of_pool or head_of_vc.get(job.vc_id)
            if head is not None:
                context.waits_behind[job.id] = head
                continue
            if context.place(job, admitted) or self._place_instead(context, job, key, admitted, reprieve):
                continue
            if job.id in context.deferred:
                if not context.explain:
                    return
                # While nothing changes, the limit leaves out the others of its class too.
                context.deferred.update(walk.take_rest() if droppable and not context.preempts else ())
                continue
            if droppable:
                walk.drop()
            elif not self.lets_pass(job, context.now):
                if not admitted:  # only jobs of its own virtual cluster can free the quota that it lacks
                    head_of_vc[job.vc_id] = job
                elif context.explain:
                    head_of_pool = job
                else:
                    return

    def _place_instead(
        self, context: CycleContext, job: Job, key: Key, admitted: Sequence[Demand], reprieve: _Reprieve
    ) -> bool:
        """Place the job by preempting jobs with resources on loan, or jobs later in the order; True if placed."""
        if context.limit_reached or not (self.preemptive or context.admission.reclaims):
            return False
        key = max(key, self.waiting_key(job))  # a place that it took from another job lets it preempt no more jobs
        # Only jobs that share its quota can free it: often there are none to preempt.
        if not admitted and not context.admitted_without(job, self._all_victims(context, job, key, of_quota=True)):
            return False
        # It fits a share without jobs after it in the order. These need not go for that, if the quota has room for all.
        with context.beyond_shares():
            if not admitted and context.place(job, context.admissible(job)[0]):
                return True
            victims = self._all_victims(context, job, key)
            placed = context.place_instead(job, victims, "its GPUs go to a job ahead of it")
        if placed and self.preemptive:
            reprieve.add_latest()
        if not placed and admitted:
            context.keep_free(job, admitted[0])
        return placed

    def _all_victims(self, context: CycleContext, job: Job, key: Key, *, of_quota: bool = False) -> Iterator[Running]:
        """The jobs that the job may preempt, or those of them that share its quota, in order of preemption."""
        lent = context.lent_of_quota(job) if of_quota else context.reclaimable(job)
        yield from lent
        if self.preemptive:
            known, vc_id = {run.job.id for run in lent}, job.vc_id if of_quota else None
            yield from (run for run in self.victims(context, key, job, vc_id) if run.job.id not in known)

    def victims(self, context: CycleContext, key: Key, job: Job, vc_id: int | None = None) -> Iterator[Running]:
        """The running jobs after the key, last one first, in one virtual cluster or in all.

        A job cannot preempt for resources that it would have on loan, nor a job of its virtual cluster that a manager
        put before it.
        """
        for run in context.state.preemption_order(self).victims(context.now, vc_id):
            if self.running_key(run, context.now) <= key:
                return
            if context.on_loan(job, run):
                continue
            if run.job.vc_id == job.vc_id and run.job.bumped > job.bumped:
                continue
            if context.stays(run) and self.may_go(run, context.now):
                yield run

    def _review(self, context: CycleContext) -> None:
        """Let the policy update the states of the jobs that are due."""
        state, view = context.state, context.view
        # A note moves a job within these indexes, so they must exist before: created later, they would miss it.
        state.queue(self)
        state.preemption_order(self)
        if type(self).review is OrderedPolicy.review:
            return  # it keeps no state
        due = state.due
        if due is None:
            due = {*view.waiting_by_id, *view.running_by_job}
        for job_id in sorted(due):
            run = view.running_by_job.get(job_id)
            job = run.job if run is not None else view.waiting_by_id.get(job_id)
            if job is None or (run is not None and run.foreign) or (run is None and backoff_reason(job, context.now)):
                continue
            policy_state = self.review(job, run, context.now)
            if policy_state is not None:
                context.note(job, run, policy_state)


class _Reprieve:
    """The preempted jobs of the decision so far: each may stay after all when its key is reached."""

    def __init__(self, policy: OrderedPolicy, context: CycleContext) -> None:
        self._policy, self._context = policy, context
        # (key, position, job id, run, number of preemptions by then): no two entries share a job id.
        self._queue: list[tuple[Key, Key, int, Running, int]] = []
        self._known, self._times = len(context.preempts), 0

    def add_latest(self) -> None:
        """Add the latest preemptions."""
        self._times += 1
        self._add(len(self._context.preempts) - self._known)

    def examine_up_to(self, key: Key) -> None:
        """Examine the preempted jobs up to the key."""
        while self._queue and self._queue[0][0] <= key:
            self._turn()

    def examine_rest(self) -> None:
        """Examine all remaining preempted jobs."""
        while self._queue:
            self._turn()

    def _turn(self) -> None:
        key, _, _, run, times = heapq.heappop(self._queue)
        if times == self._times:  # no preemption since, so no more room than before
            return
        gone = self._make_room(run, key)
        if gone:
            self._times += 1
            self._add(len(gone))
        self._known = len(self._context.preempts)

    def _make_room(self, run: Running, key: Key) -> Sequence[Running]:
        """Try to keep the run by preempting others after it; returns those."""
        context, released = self._context, list[Running]()
        if not context.has_gpus_for(run):
            return ()  # its GPUs were given away, so they cannot come back
        # Only the own virtual cluster can free quota.
        vc_id = run.job.vc_id if context.has_room_for(run) else None
        victims = self._policy.victims(context, key, run.job, vc_id)
        while not context.can_stay(run):
            victim = next(victims, None)
            if victim is None:
                for other in reversed(released):
                    context.undo_release(other)
                return ()
            context.release(victim)
            released.append(victim)
        context.undo_release(run)
        preempt = context.preempts.pop(run.job.id)
        gone = []
        for other in reversed(released):
            if context.can_stay(other):
                context.undo_release(other)
            else:  # attribute it to the job for which this run was preempted
                context.preempt(other, preempt.for_job_id, preempt.detail)
                gone.append(other)
        return gone

    def _add(self, count: int) -> None:
        """Add the last `count` preemptions."""
        preempts, now = self._context.preempts, self._context.now
        for _, job_id in zip(range(count), reversed(preempts), strict=False):
            run = self._context.view.running_by_job[job_id]
            key, standing = self._policy.running_key(run, now), self._policy.preemption_key(run, now)
            heapq.heappush(self._queue, (key, standing, job_id, run, self._times))
        self._known = len(preempts)
