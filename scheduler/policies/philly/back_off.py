"""Gangs that back off after a failed try: which, until when, and how a decision skips them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from scheduler.authoring import Job, Key
from scheduler.workshop import CycleContext, Queues, QueueWalk

# Groups per virtual cluster: jobs to try, jobs that back off, and jobs that have no locality left to relax.
_TRIED, _BACKS_OFF, _FULLY_RELAXED = range(3)


def failed_tries(job: Job) -> float:
    """The number of failed tries in the job's present wait."""
    return job.policy_state.get("tries", 0.0) if job.policy_state.get("since") == job.waiting_since else 0.0


def retry_at(job: Job) -> float:
    """The time of the job's next try; 0 for a job that does not back off."""
    return job.policy_state.get("again_at", 0.0) if job.policy_state.get("since") == job.waiting_since else 0.0


@dataclass(frozen=True, slots=True)
class BackOffGroups:
    """Three groups for each virtual cluster, as hundreds of gangs may back off or have relaxed fully."""

    fully_relaxed: Callable[[Job], bool]

    def waiting_key(self, job: Job) -> Key:
        """By priority, then submission."""
        return (-job.priority, job.submitted_at)

    def group_of(self, job: Job) -> int:
        """The group of a job; it depends on the policy state, so the job is re-inserted when that changes."""
        kind = _BACKS_OFF if retry_at(job) else _FULLY_RELAXED if self.fully_relaxed(job) else _TRIED
        return job.vc_id * 3 + kind


def back_off(context: CycleContext, groups: BackOffGroups, job: Job, seconds: float) -> None:
    """Note a failed try of a gang, and its next try: 0 if it has no locality left to relax."""
    policy_state = {"tries": failed_tries(job) + 1.0, "again_at": 0.0, "since": job.waiting_since}
    if seconds > 0 and not groups.fully_relaxed(replace(job, policy_state=policy_state)):
        policy_state["again_at"] = context.now + seconds
    context.state.queues(groups).remove(job.id)
    context.note(job, None, policy_state)


def ready_queues(context: CycleContext, groups: BackOffGroups, *, all_jobs: bool) -> Queues:
    """The queues with all jobs whose back-off is over in the group to try; `all_jobs`: all jobs.

    Only the queue's copies of these jobs lose their back-off.
    """
    state, now = context.state, context.now
    queues = state.queues(groups)
    if all_jobs or state.due is None:
        sleepers = [job for job in state.view.waiting if retry_at(job)]
    else:
        sleepers = [job for job_id in state.due if (job := state.view.waiting_by_id.get(job_id)) and retry_at(job)]
    for job in sleepers:
        ready = job.eligible_at <= now and not job.still_stopping and job.id not in context.places
        if ready and (all_jobs or retry_at(job) <= now):
            queues.remove(job.id)
            queues.add(replace(job, policy_state={**job.policy_state, "again_at": 0.0}))
    return queues


def merged_walks(
    queues: Queues, hopeless: Callable[[Job, bool], bool], walk: Callable[[int], QueueWalk]
) -> dict[int, MergedWalk]:
    """One walk per virtual cluster over the jobs that do not back off; `walk` walks through one group."""
    found: dict[int, list[tuple[QueueWalk, bool]]] = {}
    for group in queues:
        vc_id, kind = divmod(group, 3)
        if kind != _BACKS_OFF:
            found.setdefault(vc_id, []).append((walk(group), kind == _FULLY_RELAXED))
    return {vc_id: MergedWalk(walks, hopeless) for vc_id, walks in found.items()}


class MergedWalk(QueueWalk):
    """Several walks merged in order, without the classes of which no job can be placed now.

    `hopeless` decides that for a job, given whether it has relaxed fully; it then holds for the rest of its class.
    """

    def __init__(self, walks: Iterable[tuple[QueueWalk, bool]], hopeless: Callable[[Job, bool], bool]) -> None:
        super().__init__((), {})
        self._hopeless = hopeless
        self._fronts = [(walk, fully_relaxed, walk.next()) for walk, fully_relaxed in walks]
        self._used: int | None = None  # the walk that returned the last job

    def next(self) -> tuple[Job, Key] | None:
        while True:
            if self._used is not None:
                walk, fully_relaxed, _ = self._fronts[self._used]
                self._fronts[self._used] = (walk, fully_relaxed, walk.next())
            there = [
                (entry[1], entry[0].id, place) for place, (_, _, entry) in enumerate(self._fronts) if entry is not None
            ]
            if not there:
                self._used = None
                return None
            self._used = min(there)[2]
            walk, fully_relaxed, entry = self._fronts[self._used]
            if entry is not None and not self._hopeless(entry[0], fully_relaxed):
                return entry
            walk.drop()

    def drop(self) -> None:
        if self._used is not None:
            self._fronts[self._used][0].drop()
