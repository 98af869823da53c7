"""Feasibility of a job: a pool could run it if it were empty and all its nodes were in service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduler.engine.context import CycleContext
from scheduler.engine.cycle import CycleConfig, compose
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, Snapshot
from scheduler.model.plan import UNSCHEDULABLE, Denial

Resize = Callable[[Job, int, int], Job]
"""Returns the job with other numbers of GPUs per node and of nodes."""


class Feasibility:
    """The feasibility of jobs in one pool by its nodes, quotas and settings; each demand is judged once."""

    def __init__(self, snapshot: Snapshot, config: CycleConfig) -> None:
        empty = replace(snapshot, waiting=(), running=(), reservations=())
        parts = compose(config)
        self._context = CycleContext(
            SchedulerState(empty), parts.admission, parts.placement, max_places=1, explain=False
        )

    def denial(self, job: Job, gpus: int | None = None) -> Denial | None:
        """The reason that waiting cannot help the job; None if it could run, and while the pool has no nodes.

        `gpus` of the whole gang override the size of an elastic job.
        """
        _, denial = self._context.admissible(job, gpus)
        return denial if denial is not None and denial.reason in UNSCHEDULABLE else None

    def nearest(self, job: Job, resize: Resize) -> Job | None:
        """The job with the nearest feasible shape: as many GPUs on other nodes, or else as many as possible."""
        given = [replace(job, request=job.request.given(choice)) for choice in job.request.choices]
        resized = (resize(one, gpus, nodes) for one in given for gpus, nodes in self._shapes(one))
        return next((each for each in resized if self.denial(each) is None), None)

    def _shapes(self, job: Job) -> Iterator[tuple[int, int]]:
        """The shapes to try, in order: GPUs per node and nodes."""
        types = job.request.types_among(self._context.state.capacity.types)
        counts = (sum(gpu.type == kind for gpu in node.gpus) for node in self._context.view.nodes for kind in types)
        largest = max(counts, default=0)
        gpus, total = min(job.request.first.gpus, largest), job.request.gpus_total
        if job.request.needs_gpus and not largest:
            return
        yield from ((each, total // each) for each in range(min(total, largest), 0, -1) if total % each == 0)
        yield from ((gpus, nodes) for nodes in range(job.request.nodes, 0, -1))
        yield from ((each, 1) for each in range(gpus - 1, 0, -1))
