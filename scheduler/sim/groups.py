"""The groups of a trace's jobs in the view: each lives while one of its members is in the cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from scheduler.model import Group, Job
from scheduler.sim.trace import Trace
from scheduler.sim.world import World


class Groups:
    """Keeps the groups of the world up to date; a trace without groups costs nothing."""

    def __init__(self, trace: Trace, world: World) -> None:
        self._world = world
        # Groups of different virtual clusters are different, even with one name.
        names = sorted({(job.vc, job.group) for job in trace.jobs if job.group})
        numbers = {name: number for number, name in enumerate(names, start=1)}
        self._group_of = {job.id: numbers[job.vc, job.group] for job in trace.jobs if job.group}
        present = [*world.waiting, *(run.job for run in world.running)]
        # In the cluster, by group.
        self._members = Counter(job.group_id for job in present if job.group_id is not None)
        self._groups = dict(world.group_by_id)  # of members that have arrived, also without members now

    def of(self, job_id: int) -> int | None:
        """The group of a job; None: it is in no group."""
        return self._group_of.get(job_id)

    def enter(self, job: Job) -> None:
        """A job has arrived in the cluster."""
        if job.group_id is not None:
            first = Group(job.group_id, job.tenant_id, job.submitted_at, done_gpu_s=0.0, to_come_gpu_s=0.0)
            self._world.group_by_id[job.group_id] = self._groups.setdefault(job.group_id, first)
            self._members[job.group_id] += 1

    def leave(self, job: Job, service_gpu_s: float) -> None:
        """A job has ended after this service."""
        if job.group_id is not None:
            group = self._groups[job.group_id]
            group = self._groups[group.id] = replace(group, done_gpu_s=group.done_gpu_s + service_gpu_s)
            self._members[group.id] -= 1
            if self._members[group.id]:
                self._world.group_by_id[group.id] = group
            else:
                del self._world.group_by_id[group.id]
