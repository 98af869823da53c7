"""The speeds of two jobs that share GPUs, relative to each alone.

Measured pairs (Gavel's and Shockwave's tables) run as measured. Otherwise each job needs its GPUs for the share of time
that its utilisation says: while the two shares add up to at most one, neither is slowed down; beyond that both slow
down equally. A job of unknown utilisation needs its GPUs all the time, so two such jobs run at half speed, as time
slicing would give.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.sim.applications.throughputs import Throughputs
from scheduler.sim.trace import TraceJob


class Sharing:
    """The speeds of pairs of jobs of one trace."""

    def __init__(self, throughputs: Throughputs | None) -> None:
        self._throughputs = throughputs

    def rate(self, job: TraceJob, other: TraceJob, gpu_type: str) -> float:
        """The speed of a job beside another one, relative to its speed alone on such GPUs; 0 if it cannot run there."""
        measured = self._measured(job, other, gpu_type)
        if measured is not None:
            return measured
        wanted = sum(1.0 if one.gpu_utilization is None else one.gpu_utilization for one in (job, other))
        return min(1.0, 1.0 / wanted) if wanted > 0 else 1.0

    def told(self, jobs: Mapping[int, TraceJob], job_id: int, other_id: int, gpu_type: str) -> float:
        """The same for the ids of two jobs."""
        return self.rate(jobs[job_id], jobs[other_id], gpu_type)

    def _measured(self, job: TraceJob, other: TraceJob, gpu_type: str) -> float | None:
        table = self._throughputs
        if table is None:
            return None
        own_key, other_key = (job.model, job.gpus), (other.model, other.gpus)
        alone = table.rates(*own_key).get(gpu_type, 0.0)
        together = table.pairs.get((own_key, other_key), {}).get(gpu_type)
        return together[0] / alone if together is not None and alone > 0 else None
