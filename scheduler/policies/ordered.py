"""The policies that put all jobs into one order: who comes first is placed first, and may take from who comes last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from scheduler.board import Key
from scheduler.model import Job, Running, View
from scheduler.plan import FOR_EVER
from scheduler.scratch import Scratch, not_yet


@dataclass(frozen=True, slots=True)
class Ordered:
    """The base of such a policy, which says what the order is; nothing else of it need be written.

    1. In the order of the keys, each job that waits has its turn: it is placed, or left.
    2. A preemptive policy lets it take the place of running jobs whose keys are larger, the largest first.
    3. A job that cannot start is passed by those behind it, unless `lets_pass` says no.
    """

    preemptive: ClassVar[bool] = False
    drifts: ClassVar[bool] = False  # see `scheduler.board.Ordering`

    def waiting_key(self, job: Job) -> Key:
        """See `Policy`."""
        raise NotImplementedError

    def running_key(self, run: Running, now: float) -> Key:
        """Where a running job stands among those that wait."""
        return self.waiting_key(run.job)

    def standing(self, run: Running, now: float) -> Key:
        """See `scheduler.board.Ordering`."""
        return self.running_key(run, now)

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

    def serve(self, scratch: Scratch) -> None:
        """See `Policy`."""
        self._review(scratch)
        head_of_pool: Job | None = None
        head_of_vc: dict[int, Job] = {}
        walk = scratch.board.queue(self).walk()
        droppable = not self.blocks and not scratch.placement.relaxes
        while (turn := walk.next()) is not None:
            job, key = turn
            if job.id in scratch.places or job.id in scratch.kept:
                continue
            admitted, denial = scratch.entitled(job)
            if denial is not None and denial.reason in FOR_EVER:
                walk.drop()
                continue
            head = head_of_pool or head_of_vc.get(job.vc_id)
            if head is not None:
                scratch.waits_behind[job.id] = head
                continue
            if scratch.place(job, admitted) or self._place_instead(scratch, job, key):
                continue
            if job.id in scratch.too_late:
                if not scratch.explain:
                    return
                continue
            if droppable:
                walk.drop()
            elif not self.lets_pass(job, scratch.now):
                if not admitted:  # only its own virtual cluster can free the quota that it lacks
                    head_of_vc[job.vc_id] = job
                elif scratch.explain:
                    head_of_pool = job
                else:
                    return

    def _place_instead(self, scratch: Scratch, job: Job, key: Key) -> bool:
        if not self.preemptive:
            return False
        return scratch.place_instead(job, self._victims(scratch, job, key), "its GPUs go to a job that is ahead of it")

    def _victims(self, scratch: Scratch, job: Job, key: Key) -> Iterator[Running]:
        """Those that run and come after the job, the last one first."""
        for run in scratch.board.standings(self).from_the_last():
            if self.running_key(run, scratch.now) <= key:
                return
            if scratch.stays(run) and self.may_go(run, scratch.now):
                yield run

    def _review(self, scratch: Scratch) -> None:
        """Let the policy look at the memos of those that are due."""
        board, view = scratch.board, scratch.view
        due = board.due
        if due is None:
            due = {*view.waiting_by_id, *view.running_by_job}
        for job_id in sorted(due):
            run = view.running_by_job.get(job_id)
            job = run.job if run is not None else view.waiting_by_id.get(job_id)
            if job is None or (run is None and not_yet(job, scratch.now)):
                continue
            memo = self.review(job, run, scratch.now)
            if memo is not None:
                scratch.note(job, run, memo)
