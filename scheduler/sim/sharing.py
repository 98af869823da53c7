"""How fast two jobs are that share GPUs, by that of each alone.

Where the pair was measured (Gavel's and Shockwave's tables), that is what they get. Else each wants its GPUs for the
part of the time that its utilisation says: as long as both parts fit into one, nobody is slowed down, and beyond that
both are, alike. A job of which nobody knows it uses its GPUs all the time, so that two of them get half of them each,
which is what taking turns would give.
"""

from __future__ import annotations

from scheduler.sim.applications.throughputs import Throughputs
from scheduler.sim.trace import TraceJob


class Sharing:
    """The speeds of pairs of jobs of one trace."""

    def __init__(self, throughputs: Throughputs | None) -> None:
        self._throughputs = throughputs

    def rate(self, job: TraceJob, beside: TraceJob, gpu_type: str) -> float:
        """The speed of a job beside another one, by its speed alone on such GPUs; 0 when it cannot run there."""
        measured = self._measured(job, beside, gpu_type)
        if measured is not None:
            return measured
        wanted = sum(1.0 if one.gpu_utilization is None else one.gpu_utilization for one in (job, beside))
        return min(1.0, 1.0 / wanted) if wanted > 0 else 1.0

    def _measured(self, job: TraceJob, beside: TraceJob, gpu_type: str) -> float | None:
        table = self._throughputs
        if table is None:
            return None
        own, other = (job.model, job.gpus), (beside.model, beside.gpus)
        alone = table.rates(*own).get(gpu_type, 0.0)
        together = table.pairs.get((own, other), {}).get(gpu_type)
        return together[0] / alone if together is not None and alone > 0 else None
