"""Classes of waiting jobs, for users who submit jobs beyond their quota as opportunistic ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler.engine.state import SchedulerState
from scheduler.model import Job
from scheduler.model.lifecycle import JobClass
from scheduler.sim.world import World


class JobClasses:
    """The classes of waiting jobs, by the room in the quotas of their virtual clusters.

    In each virtual cluster those jobs are guaranteed, in order of submission, that fit its quota beside its guaranteed
    jobs that run and those that wait before them. All others are opportunistic until there is room for them. A running
    job keeps its class. Where this is not `on`, all jobs keep theirs.
    """

    def __init__(self, world: World, state: SchedulerState, *, on: bool) -> None:
        self._world, self._state, self._on = world, state, on
        self._members: dict[int, set[int]] = {}  # ids of jobs that wait, or did, by virtual cluster
        self._touched: set[int] = set()

    def enter(self, job: Job) -> None:
        """The job waits."""
        if not self._on:
            return
        self._members.setdefault(job.vc_id, set()).add(job.id)
        self._touched.add(job.vc_id)

    def touch(self, vc_id: int) -> None:
        """GPUs of the virtual cluster have become free."""
        if self._on:
            self._touched.add(vc_id)

    def update(self) -> Iterator[tuple[Job, Job]]:
        """Change the classes by the room that there is now; yields each changed job as it was and as it is."""
        for vc_id in sorted(self._touched):
            for job in list(self._changed_in(vc_id)):
                before = self._world.waiting_by_id[job.id]
                self._world.waiting_by_id[job.id] = job
                self._state.add_waiting(job)
                yield before, job
        self._touched.clear()

    def _changed_in(self, vc_id: int) -> Iterator[Job]:
        waiting, usage = self._world.waiting_by_id, self._state.ledger.usage
        members = self._members[vc_id] = self._members.get(vc_id, set()) & waiting.keys()
        left = {
            kind: gpus - usage[vc_id, kind] + usage[-vc_id, kind]
            for kind, gpus in self._world.vc_by_id[vc_id].quotas.items()
        }
        for job in sorted((waiting[job_id] for job_id in members), key=lambda job: (job.submitted_at, job.id)):
            kinds = job.request.types_among(self._state.capacity.types)
            kind = next((each for each in kinds if job.request.gpus_on(each) <= left.get(each, 0)), None)
            job_class = JobClass.OPPORTUNISTIC if kind is None else JobClass.GUARANTEED
            if kind is not None:
                left[kind] -= job.request.gpus_on(kind)
            if job_class is not job.job_class:
                yield replace(job, job_class=job_class)
