"""The clocks of a simulation: how long jobs wait and why, the number of jobs, and the use of the GPUs.

A job waits for its *fair share* while its virtual cluster's quota has no room for it, and otherwise because of
*fragmentation*: it is within quota, but the GPUs that it may use are not free, or not free together (Jeon et al.,
Philly, USENIX ATC 2019, §3.1). The quota decides this whether the admission enforces it or the policy does; Philly's
policy enforces it while it lends idle GPUs. The second is told apart further, as production does it
(`scheduler.engine.delays`): too few free GPUs, free GPUs that are not together, and the order of the policy.

Jobs of one class with equal requests wait for the same reason, so each class has one clock, which a job reads when it
enters and when it leaves. Jobs of several classes with equal requests lack the same GPUs, so each request has one, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.engine.delays import over_quota, within_quota
from scheduler.engine.queue import equivalence_class
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, View
from scheduler.model.delays import WITHIN_QUOTA, Delay
from scheduler.model.request import Request
from scheduler.placement import Placement
from scheduler.placement.demand import Demand, demand_of
from scheduler.sim.result import JobRecord
from scheduler.sim.timeline import Sample, Timeline


class _Within(NamedTuple):
    """Seconds by the delays of jobs within their quota."""

    capacity: float = 0.0
    apart: float = 0.0
    order: float = 0.0


_NO_TIME = _Within()
_WITHIN = {delay: place for place, delay in enumerate(WITHIN_QUOTA)}


@dataclass(slots=True)
class _RequestClock:
    """The delays of all jobs with one request, if they are within their quotas."""

    demands: Sequence[Demand]
    since: float
    classes: int = 0
    delay: Delay = Delay.CAPACITY  # until the first sample, which comes at the same moment
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def read(self, now: float) -> _Within:
        self.spent[_WITHIN[self.delay]] += now - self.since
        self.since = now
        return _Within(*self.spent)


@dataclass(slots=True)
class _ClassClock:
    example: Job
    members: int
    since: float
    over_quota: bool
    request: _RequestClock
    seen: _Within
    fair_share_s: float = 0.0
    fragmentation_s: float = 0.0
    within: _Within = _NO_TIME

    def advance(self, now: float) -> None:
        shown = self.request.read(now)
        if self.over_quota:
            self.fair_share_s += now - self.since
        else:
            self.fragmentation_s += now - self.since
            self.within = _Within(*(w + s - b for w, s, b in zip(self.within, shown, self.seen, strict=True)))
        self.since, self.seen = now, shown


class _Entry(NamedTuple):
    kind: Hashable
    fair_share_s: float
    fragmentation_s: float
    within: _Within


@dataclass(slots=True)
class _PresentJobs:
    jobs: int = 0
    since: float = 0.0
    job_seconds: float = 0.0  # until `since`


class Clocks:
    """All clocks of one simulation, in the view's time."""

    def __init__(self, view: View, state: SchedulerState, placement: Placement) -> None:
        self._view, self._state, self._placement = view, state, placement
        self._types = state.capacity.types
        self._requests: dict[Request, _RequestClock] = {}
        self._clocks: dict[Hashable, _ClassClock] = {}
        self._of_vc: dict[int, dict[Hashable, _ClassClock]] = {}
        self._entered: dict[int, _Entry] = {}
        self._present: dict[int | None, _PresentJobs] = {}
        self._touched: set[int] = set()
        self._timeline = Timeline()

    def enter(self, job: Job) -> None:
        """Start the waiting time of a job."""
        kind, now = equivalence_class(job), self._view.now
        clock = self._clocks.get(kind)
        if clock is None:
            request = self._requests.get(job.request)
            if request is None:
                request = self._requests[job.request] = _RequestClock(self._demands(job), now)
            request.classes += 1
            over = over_quota(self._state, job)
            clock = self._clocks[kind] = _ClassClock(job, 0, now, over, request, request.read(now))
            self._of_vc.setdefault(job.vc_id, {})[kind] = clock
        clock.advance(now)
        clock.members += 1
        self._entered[job.id] = _Entry(kind, clock.fair_share_s, clock.fragmentation_s, clock.within)
        self._touched.add(job.vc_id)

    def leave(self, job: Job, record: JobRecord) -> None:
        """End the waiting time of a job, and add it to its record by reason."""
        entry = self._entered.pop(job.id)
        clock = self._clocks[entry.kind]
        clock.advance(self._view.now)
        record.fair_share_delay_s += clock.fair_share_s - entry.fair_share_s
        record.fragmentation_delay_s += clock.fragmentation_s - entry.fragmentation_s
        # Differences of sums of floats: a time of zero may come out below it.
        record.capacity_delay_s += max(0.0, clock.within.capacity - entry.within.capacity)
        record.apart_delay_s += max(0.0, clock.within.apart - entry.within.apart)
        record.order_delay_s += max(0.0, clock.within.order - entry.within.order)
        clock.members -= 1
        if not clock.members:
            del self._clocks[entry.kind]
            del self._of_vc[job.vc_id][entry.kind]
            clock.request.classes -= 1
            if not clock.request.classes:
                del self._requests[job.request]

    def touch(self, vc_id: int) -> None:
        """The use of the virtual cluster has changed; the next sample updates its jobs' reasons."""
        self._touched.add(vc_id)

    def sample(self, busy: int) -> None:
        """After a decision: update the reasons and add a point to the timeline."""
        now = self._view.now
        for vc_id in self._touched:
            for clock in self._of_vc.get(vc_id, {}).values():
                over = over_quota(self._state, clock.example)
                if over != clock.over_quota:
                    clock.advance(now)
                    clock.over_quota = over
        self._touched.clear()
        for request in self._requests.values():
            delay = within_quota(self._state.free, self._placement, request.demands)
            if delay is not request.delay:
                request.read(now)
                request.delay = delay
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

    def _demands(self, job: Job) -> Sequence[Demand]:
        within = self._placement.within(job, self._view.now)
        return [demand_of(job.request, one, within=within) for one in job.request.choices_among(self._types)]
