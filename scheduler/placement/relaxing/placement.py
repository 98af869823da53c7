"""Relaxing; docs/policies/relaxing.md describes its goals and limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView, Job, Locality
from scheduler.placement.base import STRIKES_LIMIT
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from scheduler.placement.inner import INNER_PARAMS, inner_placement

_TIGHTEST_FIRST = (Locality.NODE, Locality.RACK, Locality.ANY)


@dataclass(frozen=True, slots=True)
class Relaxing:
    """Places a job on one node, within one rack after `node_s` in the queue, and anywhere after `rack_s`.

    The locality of the job stays the loosest level. The placement `inside` chooses among the nodes of the level.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "node_s": {
                "type": "number",
                "minimum": 0,
                "default": 300.0,
                "description": "how long a job waits for room on one node",
            },
            "rack_s": {
                "type": "number",
                "minimum": 0,
                "default": 1800.0,
                "description": "how long a job waits for room within one rack, from the start of its wait",
            },
            **INNER_PARAMS,
        },
        "additionalProperties": False,
    }
    relaxes: ClassVar[bool] = True
    fills: ClassVar[bool] = True

    node_s: float = 300.0
    rack_s: float = 1800.0
    inside: str = "consolidate"
    strikes_limit: float = STRIKES_LIMIT

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
        """See `Placement`."""
        return inner_placement(self.inside, self.strikes_limit).place(free, demand, avoid)
