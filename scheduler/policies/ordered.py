"""The policies that put all jobs into one order: who comes first is placed first, and may take from who comes last."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.engine.queue import Key
from scheduler.model import Job, Running, View
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import UNSCHEDULABLE
from scheduler.placement.free import Demand


@dataclass(frozen=True, slots=True)
class Ordered:
    """The base of such a policy, which says what the order is; nothing else of it need be written.

    1. In the order of the keys, each job that waits has its turn: it is placed, or left.
    2. A preemptive policy lets it take the place of running jobs whose keys are larger, the largest first.
    3. A running job that has to go has its turn, too, where its key stands: it stays after all if it would fit by then,
       because another one that went since has left more than was needed.
    4. A job that cannot start is passed by those behind it, unless `lets_pass` says no.
    """

    @property
    def preemptive(self) -> bool:
        """Whether jobs that wait may take from jobs that run."""
        return False

    def waiting_key(self, job: Job) -> Key:
        """See `Policy`."""
        raise NotImplementedError

    def running_key(self, run: Running, now: float) -> Key:
        """Where a running job stands among those that wait."""
        return self.waiting_key(run.job)

    def preemption_key(self, run: Running, now: float) -> Key:
        """See `scheduler.engine.queue.PreemptionOrdering`."""
        return self.running_key(run, now)

    def aging_rate(self, run: Running) -> float:
        """See `scheduler.engine.queue.PreemptionOrdering`."""
        return 1

    def may_go(self, run: Running, now: float) -> bool:
        """Whether the running job may be preempted by now."""
        return True

    @property
    def blocks(self) -> bool:
        """Whether `lets_pass` may ever say no."""
        return False

    def lets_pass(self, job: Job, now: float) -> bool:
        """Whether those behind the job, which could run but not now, may start before it."""
        return True

    def review(self, job: Job, run: Running | None, now: float) -> Mapping[str, float] | None:
        """The job's new memo, if it should have another one by now."""
        return None

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """See `Policy`."""
        return None

    def order(self, view: View) -> Iterable[Job]:
        """See `Policy`."""
        return sorted(view.waiting, key=lambda job: (self.waiting_key(job), job.id))

    def serve(self, context: CycleContext) -> None:
        """See `Policy`."""
        self._review(context)
        second_thoughts = _Reprieve(self, context)
        for klass in context.service_classes():
            self._walk(context, second_thoughts, klass)
        second_thoughts.about_all()

    def _walk(self, context: CycleContext, second_thoughts: _Reprieve, klass: JobClass | None) -> None:
        """Let all who wait have their turns, or those of one class."""
        head_of_pool: Job | None = None
        head_of_vc: dict[int, Job] = {}
        walk = context.state.queue(self).walk(klass)
        droppable = not self.blocks and not context.placement.relaxes
        while (turn := walk.next()) is not None:
            job, key = turn
            second_thoughts.before(key)
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
            if context.place(job, admitted) or self._place_instead(context, job, key, admitted, second_thoughts):
                continue
            if job.id in context.deferred:
                if not context.explain:
                    return
                continue
            if droppable:
                walk.drop()
            elif not self.lets_pass(job, context.now):
                if not admitted:  # only its own virtual cluster can free the quota that it lacks
                    head_of_vc[job.vc_id] = job
                elif context.explain:
                    head_of_pool = job
                else:
                    return

    def _place_instead(
        self, context: CycleContext, job: Job, key: Key, admitted: Sequence[Demand], second_thoughts: _Reprieve
    ) -> bool:
        """Whether the job took the place of others: of those who had it on loan, and of those that come after it."""
        if context.limit_reached or not (self.preemptive or context.admission.reclaims):
            return False
        # Quota that is lacking can only come from the own virtual cluster: often nobody there would have to go.
        if not admitted and not context.admitted_without(job, self._all_victims(context, job, key, job.vc_id)):
            return False
        victims = self._all_victims(context, job, key)
        placed = context.place_instead(job, victims, "its GPUs go to a job that is ahead of it")
        if placed and self.preemptive:
            second_thoughts.remember()
        return placed

    def _all_victims(self, context: CycleContext, job: Job, key: Key, vc_id: int | None = None) -> Iterator[Running]:
        """Those from whom the job may take, in one virtual cluster or in all, the first to go first."""
        lent = [run for run in context.reclaimable(job) if vc_id in {None, run.job.vc_id}]
        yield from lent
        if self.preemptive:
            known = {run.job.id for run in lent}
            yield from (run for run in self.victims(context, key, job, vc_id) if run.job.id not in known)

    def victims(self, context: CycleContext, key: Key, job: Job, vc_id: int | None = None) -> Iterator[Running]:
        """Those that run and come after the key, the last one first, in one virtual cluster or in all.

        The job takes nothing back that it had on loan.
        """
        for run in context.state.preemption_order(self).victims(context.now, vc_id):
            if self.running_key(run, context.now) <= key:
                return
            if context.admission.reclaims and context.admission.reclaimable_by(job, run.job):
                continue
            if context.stays(run) and self.may_go(run, context.now):
                yield run

    def _review(self, context: CycleContext) -> None:
        """Let the policy look at the memos of those that are due."""
        state, view = context.state, context.view
        # A note moves a job within these, so they must be there: made afterwards, they would not know of it.
        state.queue(self)
        state.preemption_order(self)
        due = state.due
        if due is None:
            due = {*view.waiting_by_id, *view.running_by_job}
        for job_id in sorted(due):
            run = view.running_by_job.get(job_id)
            job = run.job if run is not None else view.waiting_by_id.get(job_id)
            if job is None or (run is None and backoff_reason(job, context.now)):
                continue
            memo = self.review(job, run, context.now)
            if memo is not None:
                context.note(job, run, memo)


class _Reprieve:
    """The running jobs that have to go, so far: each may stay after all when its turn comes."""

    def __init__(self, policy: Ordered, context: CycleContext) -> None:
        self._policy, self._context = policy, context
        # (key, standing, job id, run, how often somebody had gone by then): no two entries share a job id.
        self._turns: list[tuple[Key, Key, int, Running, int]] = []
        self._known = self._times = 0

    def remember(self) -> None:
        """Somebody has been made to go."""
        self._times += 1
        self._add(len(self._context.preempts) - self._known)

    def before(self, key: Key) -> None:
        """Those whose turn is not after the key have it now."""
        while self._turns and self._turns[0][0] <= key:
            self._turn()

    def about_all(self) -> None:
        """All others have it now."""
        while self._turns:
            self._turn()

    def _turn(self) -> None:
        key, _, _, run, times = heapq.heappop(self._turns)
        if times == self._times:  # nobody has gone since, so there is no more room than there was
            return
        gone = self._make_room(run, key)
        if gone:
            self._times += 1
            self._add(len(gone))
        self._known = len(self._context.preempts)

    def _make_room(self, run: Running, key: Key) -> Sequence[Running]:
        """Let the run stay if it can once others go that come after it; those are what is returned."""
        context, released = self._context, list[Running]()
        if not context.has_gpus_for(run):
            return ()  # they were given away: whoever else goes, these do not come back
        # Quota that is lacking can only come from the own virtual cluster.
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
            else:  # it goes to whom this one was to go, who is the reason for all of it
                context.preempt(other, preempt.for_job_id, preempt.detail)
                gone.append(other)
        return gone

    def _add(self, count: int) -> None:
        """Take up the last so many that were preempted."""
        preempts, now = self._context.preempts, self._context.now
        for _, job_id in zip(range(count), reversed(preempts), strict=False):
            run = self._context.view.running_by_job[job_id]
            key, standing = self._policy.running_key(run, now), self._policy.preemption_key(run, now)
            heapq.heappush(self._turns, (key, standing, job_id, run, self._times))
        self._known = len(preempts)
