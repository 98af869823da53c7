"""The scheduler's knowledge of run times in a forward run: that of the snapshot, doubled where a job outlives it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

from scheduler.model import Job, Running, View
from scheduler.model.plan import requeued
from scheduler.predict.estimate import doubled
from scheduler.sim.cluster import ClusterSpec
from scheduler.sim.forecast import Forecast
from scheduler.sim.options import Oracle
from scheduler.sim.trace import TraceJob


class Known(Forecast):
    """Expected run times that no end of another job changes."""

    def __init__(self) -> None:
        super().__init__(Oracle.NONE, ClusterSpec(()))
        # (moment, job, attempt) at which a running job outlives what is expected; the attempt may have ended before
        self._outlives: list[tuple[float, int, int]] = []

    def started(self, run: Running) -> None:
        if run.job.remaining_s is not None and run.work_rate > 0:
            at = run.placed_at + run.job.remaining_s / run.work_rate
            heapq.heappush(self._outlives, (at, run.job.id, run.attempt_id))

    def corrected(self, view: View) -> Iterator[Running]:
        while self._outlives and self._outlives[0][0] <= view.now:
            _, job_id, attempt_id = heapq.heappop(self._outlives)
            run = view.running_by_job.get(job_id)
            if run is None or run.attempt_id != attempt_id or run.stopping:
                continue
            longer = _estimated(run.job, run.job.expected_s, held_s=view.now - run.placed_at)
            if longer.expected_s != run.job.expected_s:
                run = replace(run, job=longer)
                self.started(run)
                yield run

    def requeued(self, run: Running, job: TraceJob, done: float, now: float) -> Job:
        waits = requeued(run, now)
        return _estimated(waits, waits.expected_s)


def _estimated(job: Job, expected_s: float | None, *, held_s: float = 0.0) -> Job:
    """The job with this estimate, after `held_s` with GPUs in its present attempt."""
    if expected_s is None:
        return job
    before_s = job.ran_s if job.checkpoints else 0.0
    expected_s = doubled(expected_s, ran_s=before_s + held_s, limit_s=job.time_limit_s)
    return replace(job, expected_s=expected_s, remaining_s=max(0.0, expected_s - before_s))
