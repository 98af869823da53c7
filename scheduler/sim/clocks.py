"""The clocks of a simulation: why who waits for how long, how many jobs there are, and how busy the GPUs are.

A job waits for its *fair share* while its virtual cluster's quota has no room for it, and otherwise because of
*fragmentation*: it is under quota, but the GPUs that it may have are not free, or not free together (Jeon et al.,
Philly, USENIX ATC 2019, §3.1). The quota counts, whether quota admission keeps it or the policy does, as Philly's
does while it lends what is idle. Jobs of one class of equal demands wait for the same reason, so there is a clock for
each class; a job reads it when it comes and when it goes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from scheduler.admission import ADMISSIONS
from scheduler.engine.queue import equivalence_class
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, View
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


class Clocks:
    """All clocks of one simulation; time is that of the view."""

    def __init__(self, view: View, state: SchedulerState) -> None:
        self._view, self._state, self._quota = view, state, ADMISSIONS.make("quota", {})
        self._clocks: dict[Hashable, _ClassClock] = {}
        self._of_vc: dict[int, dict[Hashable, _ClassClock]] = {}
        self._entered: dict[int, tuple[Hashable, float, float]] = {}
        self._active, self._active_since, self._job_seconds = 0, 0.0, 0.0
        self._touched: set[int] = set()
        self._timeline = Timeline()

    def enter(self, job: Job) -> None:
        """A job begins to wait."""
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
        """A job has waited, and its record is told for what."""
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
        """What the virtual cluster uses has changed; the next sample looks at its reasons again."""
        self._touched.add(vc_id)

    def sample(self, busy: int) -> None:
        """A decision is over: reasons are what they are now, and the timeline gets a point."""
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
        """How busy the cluster was, and how many jobs waited, until now."""
        return self._timeline.samples

    def active(self, change: int) -> None:
        """A job has come to the cluster, or left it."""
        self._job_seconds = self.job_seconds()
        self._active += change
        self._active_since = self._view.now

    def job_seconds(self) -> float:
        """The integral of the number of jobs in the cluster over time, until now."""
        return self._job_seconds + self._active * (self._view.now - self._active_since)

    def _over_quota(self, job: Job) -> bool:
        return all(
            self._quota.admit(self._view, self._state.quota_usage, job, kind, job.gpus_total) is not None
            for kind in job.types_among(self._state.capacity.types)
        )
