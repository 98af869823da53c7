"""What the scheduler is told of the run times of a trace's jobs."""

from __future__ import annotations

import math
from dataclasses import replace

from scheduler.model import Running
from scheduler.sim.cluster import ClusterSpec
from scheduler.sim.options import Oracle
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import Layout

# Rates are rounded to so many digits: jobs that run at one speed must not differ in the last bits of a division.
_DIGITS = 12


class Forecast:
    """Predicted run times, in seconds on the GPUs of the cluster on which the job is fastest.

    So the prediction of a job is the same wherever it runs, and how fast it runs there is the run's `work_rate`.
    """

    def __init__(self, oracle: Oracle, cluster: ClusterSpec) -> None:
        self._oracle = oracle
        self._node_gpus: dict[str, int] = {}  # of the largest node of each type
        for group in cluster.groups:
            self._node_gpus[group.gpu_type] = max(group.gpus, self._node_gpus.get(group.gpu_type, 0))

    def remaining_s(self, job: TraceJob, done: float) -> float | None:
        """The predicted run time of what the job has still to do, s; None: nothing is predicted.

        Jobs of any size (`max_gpus`) are predicted on the GPUs that they ask for, as their `speeds` are relative to
        these.
        """
        if self._oracle is Oracle.NONE:
            return None
        if job.max_gpus:
            return job.work.remaining_s(done)
        types = self._node_gpus if job.gpu_type is None else [job.gpu_type]
        fastest_s = min((job.work.seconds_left(done, kind, self._layout(job, kind), 1.0) for kind in types), default=0.0)
        return fastest_s if math.isfinite(fastest_s) else job.work.remaining_s(done)

    def at_speed(self, run: Running, job: TraceJob, done: float, left_s: float, now: float) -> Running:
        """The run with its work rate where the job needs `left_s` for the rest; the same object if that is no news."""
        predicted_s = None if job.max_gpus else self.remaining_s(job, done)
        if predicted_s is None:
            return run
        rate = round(predicted_s / left_s, _DIGITS) if left_s > 0 else run.work_rate
        if rate == run.work_rate:
            return run
        # A run's remaining work is counted from the start of the attempt, at the present rate.
        remaining_s = predicted_s + rate * (now - run.placed_at)
        return replace(run, progress=rate, job=replace(run.job, remaining_s=remaining_s))

    def _layout(self, job: TraceJob, gpu_type: str) -> Layout:
        """The GPUs of the job on as few nodes of the type as can be."""
        if not job.split:
            return (job.gpus // job.nodes,) * job.nodes
        size = self._node_gpus.get(gpu_type) or job.gpus
        return (size,) * (job.gpus // size) + ((job.gpus % size,) if job.gpus % size else ()) if job.gpus else ()
