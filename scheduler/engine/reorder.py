"""The places that waiting jobs exchange: owners reorder their own jobs, and managers bump jobs to the top.

A place is where the policy's order puts a job. Jobs exchange places only within one virtual cluster, one job class and
one group of the policy. So jobs of other virtual clusters keep their places.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from scheduler.engine.queue import QueueOrdering
from scheduler.model import Job, View


class Ordering(QueueOrdering, Protocol):
    """The part of a policy that says in which order users see the waiting jobs."""

    def order(self, view: View) -> Iterable[Job]:
        """All waiting jobs, each once, in the order of service."""


def exchanges_of(ordering: QueueOrdering, view: View) -> Mapping[int, Job]:
    """For each waiting job that takes the place of another one, by its id: that other job."""
    return {
        job.id: instead
        for jobs in _jobs_by_unit(ordering, view).values()
        for job, instead in _exchanged(sorted(jobs, key=lambda job: (ordering.waiting_key(job), job.id)))
    }


def order_of(ordering: Ordering, view: View) -> Sequence[Job]:
    """All waiting jobs in the order of the policy, with the places that jobs exchange."""
    order = list(ordering.order(view))
    units = _jobs_by_unit(ordering, view)
    if not units:
        return order
    position_of = {job.id: position for position, job in enumerate(order)}
    dealt = list(order)
    for jobs in units.values():
        for job, instead in _exchanged(sorted(jobs, key=lambda job: position_of[job.id])):
            dealt[position_of[instead.id]] = job
    return dealt


def _jobs_by_unit(ordering: QueueOrdering, view: View) -> Mapping[Hashable, Sequence[Job]]:
    """The waiting jobs of each unit within which jobs exchange places; only units with a bumped or ranked job."""
    group_of = getattr(ordering, "group_of", lambda _: 0)
    moved = [job for job in view.waiting if job.bumped or job.own_rank is not None]
    if not moved:
        return {}
    units: dict[Hashable, list[Job]] = {(job.vc_id, job.job_class, group_of(job)): [] for job in moved}
    for job in view.waiting:
        unit = units.get((job.vc_id, job.job_class, group_of(job)))
        if unit is not None:
            unit.append(job)
    return units


def _exchanged(jobs: Sequence[Job]) -> Iterable[tuple[Job, Job]]:
    """The jobs of a unit that move, each with the job whose place it takes.

    1. The ranked jobs of an owner share out the places that they hold, by their ranks.
    2. Bumped jobs go first, the latest bump first.
    """
    dealt = list(jobs)
    ranked: dict[int, list[int]] = {}
    for position, job in enumerate(jobs):
        if job.own_rank is not None:
            ranked.setdefault(job.owner_id, []).append(position)
    for positions in ranked.values():
        by_rank = sorted((jobs[position] for position in positions), key=lambda job: (job.own_rank or 0.0, job.id))
        for position, job in zip(positions, by_rank, strict=True):
            dealt[position] = job
    dealt.sort(key=lambda job: -job.bumped)
    return [(job, instead) for job, instead in zip(dealt, jobs, strict=True) if job is not instead]
