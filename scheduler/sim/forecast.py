"""The scheduler's knowledge of the run times of a trace's jobs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from scheduler.model import Job, Running, View
from scheduler.predict.runtimes import corrected_at
from scheduler.sim.cluster import ClusterSpec
from scheduler.sim.learned import Learned
from scheduler.sim.options import Oracle
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import Layout

# Rates are rounded, so that jobs of equal speed do not differ in the last bits of a division.
_DIGITS = 12


class Forecast:
    """The predicted run times of one simulation.

    Perfect predictions are in seconds on the GPU type of the cluster on which the job is fastest. So a job's prediction
    does not depend on its place; the run's `work_rate` is its speed there.

    Learned run times are those of production's predictors (`scheduler.sim.learned`): predicted at submission, and
    corrected when a running job outlives them, as in production.
    """

    def __init__(self, oracle: Oracle, cluster: ClusterSpec, *, owners: bool = False) -> None:
        self._oracle = oracle
        self._node_gpus: dict[str, int] = {}  # of the largest node of each type
        for group in cluster.groups:
            self._node_gpus[group.gpu_type] = max(group.gpus, self._node_gpus.get(group.gpu_type, 0))
        self._learned = Learned(owners=owners) if oracle is Oracle.LEARNED else None
        # Work done and the prediction for the rest, by job: a job that moves is asked for twice.
        self._last_left: dict[int, tuple[float, float]] = {}
        # (moment, job, attempt) at which a running job outlives what is expected; the attempt may have ended before
        self._outlives: list[tuple[float, int, int]] = []

    def submitted(self, job: TraceJob) -> float | None:
        """The predicted run time of a newly submitted job, s; None: no prediction."""
        if self._learned is None:
            return self._work_left_s(job, 0.0)
        found = self._learned.submitted(job)
        return None if found is None else found.p50_s

    def told(self, job: Job, held_s: float = 0.0) -> Job:
        """The job with what is learned of its run time, after `held_s` with GPUs in its present attempt."""
        run_time = None if self._learned is None else self._learned.of(job)
        if run_time is None:
            return job
        before_s = job.ran_s if job.checkpoints else 0.0
        known = corrected_at(run_time, ran_s=before_s + held_s, limit_s=job.time_limit_s)
        return replace(
            job,
            expected_s=known.p50_s,
            expected_p10_s=known.p10_s,
            expected_p90_s=known.p90_s,
            remaining_s=max(0.0, known.p50_s - before_s),
        )

    def requeued(self, run: Running, job: TraceJob, done: float, now: float) -> Job:
        """The job as it waits again, with the prediction for the rest, or for all of it without checkpoints."""
        waits = replace(
            run.job,
            attained_gpu_s=run.attained_gpu_s(now),
            ran_s=run.ran_s(now),
            requeued_at=now,
            remaining_s=self._work_left_s(job, done),
        )
        if self._learned is not None and self._learned.of(waits) is None:
            self._learned.submitted(job)
        return self.told(waits)

    def started(self, run: Running) -> None:
        """Note the moment at which the running job outlives what is expected."""
        if self._learned is not None and run.job.remaining_s is not None:
            heapq.heappush(self._outlives, (run.placed_at + run.job.remaining_s, run.job.id, run.attempt_id))

    def corrected(self, view: View) -> Iterator[Running]:
        """The running jobs that have outlived what was expected, with what is expected since."""
        while self._outlives and self._outlives[0][0] <= view.now:
            _, job_id, attempt_id = heapq.heappop(self._outlives)
            run = view.running_by_job.get(job_id)
            if run is None or run.attempt_id != attempt_id or run.stopping:
                continue
            longer = self.told(run.job, view.now - run.placed_at)
            if longer.expected_s != run.job.expected_s:
                run = replace(run, job=longer)
                self.started(run)
                yield run

    def ended(self, job: TraceJob, took_s: float, now: float, waiting: Mapping[int, Job]) -> Iterator[int]:
        """Learn from an ended job; yields the ids of `waiting` jobs that are predicted anew."""
        return iter(()) if self._learned is None else self._learned.ended(job, took_s, now, waiting)

    def at_speed(self, run: Running, job: TraceJob, done: float, left_s: float, now: float) -> Running:
        """The run with the work rate at which it needs `left_s` for the rest; the same object if nothing changes."""
        predicted_s = None if job.max_gpus else self._work_left_s(job, done)
        if predicted_s is None:
            return run
        rate = round(predicted_s / left_s, _DIGITS) if left_s > 0 else run.work_rate
        if rate == run.work_rate:
            return run
        # A run's remaining work counts from the start of the attempt, at the present rate.
        remaining_s = predicted_s + rate * (now - run.placed_at)
        return replace(run, progress=rate, job=replace(run.job, remaining_s=remaining_s))

    def _work_left_s(self, job: TraceJob, done: float) -> float | None:
        """The perfect prediction of the remaining time, s; None: unknown.

        Jobs with `max_gpus` are predicted on the GPUs that they ask for, as their `speeds` are relative to these.
        """
        if self._oracle is not Oracle.PERFECT:
            return None
        if job.max_gpus:
            return job.work.remaining_s(done)
        last = self._last_left.get(job.id)
        if last is not None and last[0] == done:
            return last[1]
        types = self._node_gpus if job.gpu_type is None else [job.gpu_type]
        fastest_s = min(
            (job.work.seconds_left(done, kind, self._layout(job, kind), 1.0) for kind in types), default=0.0
        )
        left_s = fastest_s if math.isfinite(fastest_s) else job.work.remaining_s(done)
        self._last_left[job.id] = (done, left_s)
        return left_s

    def _layout(self, job: TraceJob, gpu_type: str) -> Layout:
        """The job's GPUs on the fewest possible nodes of the type."""
        if not job.split:
            return (job.gpus // job.nodes,) * job.nodes
        size = self._node_gpus.get(gpu_type) or job.gpus
        return (size,) * (job.gpus // size) + ((job.gpus % size,) if job.gpus % size else ()) if job.gpus else ()
