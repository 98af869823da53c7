"""Relaxing; docs/policies/relaxing.md says what it optimises and what it does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView, Job, Locality
from scheduler.placement.bases import BASE_PARAMS, base
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from scheduler.placement.steady import STRIKES_LIMIT

_TIGHTEST_FIRST = (Locality.NODE, Locality.RACK, Locality.ANY)


@dataclass(frozen=True, slots=True)
class Relaxing:
    """A job lies on one node, after `node_s` in the queue at least within one rack, after `rack_s` anywhere.

    Its own locality stays the loosest level that it accepts. What that leaves is for the placement `inside` to choose.
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
                "description": "how long it waits for room within one rack, counted from the same moment",
            },
            **BASE_PARAMS,
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
        """The level that the job has waited for, or its own when that is closer."""
        level = Locality.ANY
        # By the same sums as `relaxes_at`, so that the level has changed when that moment has come.
        if now < job.waiting_since + self.rack_s:
            level = Locality.RACK
        if now < job.waiting_since + self.node_s:
            level = Locality.NODE
        if level is Locality.NODE and job.nodes > 1:  # no two ranks share a node: nothing is won by waiting for it
            level = Locality.RACK if now < job.waiting_since + self.rack_s else Locality.ANY
        return min(level, job.locality, key=_TIGHTEST_FIRST.index)

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """The next end of a wait that lets the job lie further apart."""
        moments = sorted({job.waiting_since + self.node_s, job.waiting_since + self.rack_s})
        here = self.within(job, now)
        return next((moment for moment in moments if moment > now and self.within(job, moment) is not here), None)

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """See `Placement`."""
        return base(self.inside, self.strikes_limit).place(free, demand, avoid)
