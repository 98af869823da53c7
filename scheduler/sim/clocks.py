"""The clocks of a simulation: how long jobs wait and why, the number of jobs, and the use of the GPUs.

A job waits for its *fair share* while its virtual cluster's quota has no room for it, and otherwise because of
*fragmentation*: it is within quota, but the GPUs that it may use are not free, or not free together (Jeon et al.,
Philly, USENIX ATC 2019, §3.1). The quota decides this whether the admission enforces it or the policy does; Philly's
policy enforces it while it lends idle GPUs. Jobs of one class with equal requests wait for the same reason, so each
class has one clock, which a job reads when it enters and when it leaves.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from scheduler.engine.queue import equivalence_class
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, View
from scheduler.model.lifecycle import JobClass
from scheduler.sim.result import JobRecord
from scheduler.sim.timeline import Sample, Timeline


@dataclass(slots=True)
class _ClassClock:
    example: Job
    members: int
    since: float
    over_quota: bool
    fair_share_s: float = 0.0
    fragmentation_s: float = 0.0

    def advance(self, now: float) -> None:
        if self.over_quota:
            self.fair_share_s += now - self.since
        else:
            self.fragmentation_s += now - self.since
        self.since = now


@dataclass(slots=True)
class _PresentJobs:
    jobs: int = 0
    since: float = 0.0
    job_seconds: float = 0.0  # until `since`


class Clocks:
    """All clocks of one simulation, in the view's time."""

    def __init__(self, view: View, state: SchedulerState) -> None:
        self._view, self._state = view, state
        self._clocks: dict[Hashable, _ClassClock] = {}
        self._of_vc: dict[int, dict[Hashable, _ClassClock]] = {}
        self._entered: dict[int, tuple[Hashable, float, float]] = {}
        self._present: dict[int | None, _PresentJobs] = {}
        self._touched: set[int] = set()
        self._timeline = Timeline()

    def enter(self, job: Job) -> None:
        """Start the waiting time of a job."""
        kind, now = equivalence_class(job), self._view.now
        clock = self._clocks.get(kind)
        if clock is None:
            clock = self._clocks[kind] = _ClassClock(job, 0, now, self._over_quota(job))
            self._of_vc.setdefault(job.vc_id, {})[kind] = clock
        clock.advance(now)
        clock.members += 1
        self._entered[job.id] = (kind, clock.fair_share_s, clock.fragmentation_s)
        self._touched.add(job.vc_id)

    def leave(self, job: Job, record: JobRecord) -> None:
        """End the waiting time of a job, and add it to its record by reason."""
        kind, fair_share_s, fragmentation_s = self._entered.pop(job.id)
        clock = self._clocks[kind]
        clock.advance(self._view.now)
        record.fair_share_delay_s += clock.fair_share_s - fair_share_s
        record.fragmentation_delay_s += clock.fragmentation_s - fragmentation_s
        clock.members -= 1
        if not clock.members:
            del self._clocks[kind]
            del self._of_vc[job.vc_id][kind]

    def touch(self, vc_id: int) -> None:
        """The use of the virtual cluster has changed; the next sample updates its jobs' reasons."""
        self._touched.add(vc_id)

    def sample(self, busy: int) -> None:
        """After a decision: update the reasons and add a point to the timeline."""
        now = self._view.now
        for vc_id in self._touched:
            for clock in self._of_vc.get(vc_id, {}).values():
                over_quota = self._over_quota(clock.example)
                if over_quota != clock.over_quota:
                    clock.advance(now)
                    clock.over_quota = over_quota
        self._touched.clear()
        self._timeline.add((now, busy, len(self._entered)))

    @property
    def timeline(self) -> list[Sample]:
        """Busy GPUs and waiting jobs over time, until now."""
        return self._timeline.samples

    def active(self, vc_id: int, change: int) -> None:
        """Add `change` to the number of jobs in the cluster, and in a virtual cluster."""
        for key in (None, vc_id):
            present = self._present.setdefault(key, _PresentJobs())
            present.job_seconds = self.job_seconds(key)
            present.jobs += change
            present.since = self._view.now

    def job_seconds(self, vc_id: int | None = None) -> float:
        """The integral of the number of jobs in the cluster, or in a virtual cluster, over time, until now."""
        present = self._present.get(vc_id, _PresentJobs())
        return present.job_seconds + present.jobs * (self._view.now - present.since)

    def _over_quota(self, job: Job) -> bool:
        """True if the quota has no room for the job on any type. Opportunistic jobs have none, and do not use any."""
        if job.job_class is JobClass.OPPORTUNISTIC:
            return True
        usage, vc = self._state.ledger.usage, self._view.vc_by_id[job.vc_id]
        return all(
            usage[vc.id, kind] - usage[-vc.id, kind] + job.request.gpus_on(kind) > vc.quotas.get(kind, 0)
            for kind in job.request.types_among(self._state.capacity.types)
        )
