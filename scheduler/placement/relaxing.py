"""Place jobs close together at first, and further apart the longer they wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from scheduler.model import AllocationView, Job, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from scheduler.placement.inner import Delegating
from scheduler.registry import param

_TIGHTEST_FIRST = (Locality.NODE, Locality.RACK, Locality.ANY)


@dataclass(frozen=True, slots=True)
class Relaxing(Delegating):
    """Places a job on one node, within one rack after `node_s` in the queue, and anywhere after `rack_s`.

    The locality of the job stays the loosest level. The placement `inside` chooses among the nodes of the level.
    """

    relaxes: ClassVar[bool] = True
    fills: ClassVar[bool] = True

    node_s: float = param(300.0, "the time that a job waits for room on one node", minimum=0)
    rack_s: float = param(
        1800.0, "the time that a job waits for room within one rack, from the start of its wait", minimum=0
    )

    def within(self, job: Job, now: float) -> Locality:
        """The level that the job has reached by waiting, or its own locality if that is closer."""
        level = Locality.ANY
        # The same sums as in `relaxes_at`, so that the level has changed at that very time.
        if now < job.waiting_since + self.rack_s:
            level = Locality.RACK
        if now < job.waiting_since + self.node_s:
            level = Locality.NODE
        if level is Locality.NODE and job.request.nodes > 1:
            level = Locality.RACK if now < job.waiting_since + self.rack_s else Locality.ANY
        return min(level, job.request.locality, key=_TIGHTEST_FIRST.index)

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """The next time at which the level of the job loosens, or None."""
        moments = sorted({job.waiting_since + self.node_s, job.waiting_since + self.rack_s})
        here = self.within(job, now)
        return next((moment for moment in moments if moment > now and self.within(job, moment) is not here), None)

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        return self.inner.place(free, demand, avoid)


PLUGIN = Relaxing
