"""The scheduler's knowledge of run times in a forward run: that of the snapshot, corrected where a job outlives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.model import Job
from scheduler.sim.cluster import ClusterSpec
from scheduler.sim.forecast import Forecast
from scheduler.sim.options import Oracle
from scheduler.sim.trace import TraceJob


class Known(Forecast):
    """Expected run times that no end of another job changes."""

    def __init__(self) -> None:
        super().__init__(Oracle.LEARNED, ClusterSpec(()))

    def ended(self, job: TraceJob, took_s: float, now: float, waiting: Mapping[int, Job]) -> Iterator[int]:
        return iter(())
