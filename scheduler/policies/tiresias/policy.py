"""Tiresias: discretised two-dimensional least attained service; docs/policies/tiresias.md lists the differences.

A job's policy state holds `queue`, `since` when it is in that queue, and its service at its last promotion,
`attained_gpu_s` and `ran_s`. A job without a state is in queue 0 since its submission. With the tie `running_first`,
the state also has `place`: the job's position among those that started, or lost their GPUs, in the same decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.authoring import ConfigError, Job, Key, Need, Running, param
from scheduler.policies.preemptive import SOON_S, Preemptive
from scheduler.policies.tiresias.service import Service, service_of
from scheduler.workshop import CycleContext

# Within a queue with the tie `running_first`: running jobs, and waiting jobs.
_RUNS, _WAITS = range(2)


@dataclass(frozen=True, slots=True)
class Tiresias(Preemptive):
    """Serves the queues in strict order, and jobs within a queue by the time at which they entered it.

    As `gittins`, there is a queue for each `delta_gpu_s` of attained service, and the queue with the largest Gittins
    index comes first.
    """

    limits_gpu_s: Sequence[float] = param(
        (57600,),
        "The attained service, GPU-seconds, that moves a job to the next queue.",
        items={"type": "number", "minimum": 0},
    )
    promote_knob: float = param(
        0, "The wait, in run times of the job, after which it returns to queue 0. 0: never.", minimum=0
    )
    tie: str = param(
        "entered",
        "The order of a queue: by entry, by submission, or running jobs first.",
        enum=["entered", "submitted", "running_first"],
    )
    variant: str = param(
        "las",
        "Queues by limits, by the Gittins index, or by the index of the authors' program.",
        enum=["las", "gittins", "gittins_released"],
    )
    service_gpu_s: Sequence[float] = param(
        (), "For the index: a sample of jobs' total GPU-seconds.", items={"type": "number", "minimum": 0}
    )
    delta_gpu_s: float = param(3250, "For the index: the service given before the next comparison.", minimum=1)
    slowdown: float = param(
        0, "A job that several nodes slow down by a larger factor waits for one node. 0: none waits.", minimum=0
    )
    service: Service = field(init=False)

    def __post_init__(self) -> None:
        """Convert lists of numbers to ascending tuples."""
        service = service_of(self.service_gpu_s)
        object.__setattr__(self, "limits_gpu_s", tuple(sorted(self.limits_gpu_s)))
        object.__setattr__(self, "service_gpu_s", service.samples)
        object.__setattr__(self, "service", service)
        if self.variant != "las" and not service.samples:
            raise ConfigError(f"policy tiresias: the variant {self.variant} needs samples in service_gpu_s")

    @property
    def needs(self) -> frozenset[Need]:
        """See `InformedPolicy`; rates, if it compares those on one node and on several."""
        return frozenset({Need.RATES} if self.slowdown else ())

    def kept_together(self, job: Job) -> frozenset[str]:
        """The GPU types on which the job waits for the closest locality that the pool has."""
        if not self.slowdown:
            return frozenset()
        return frozenset(
            known.gpu_type
            for known in job.rates
            if known.slowdown is not None and known.slowdown > self.slowdown
            if known.gpus == job.request.gpus_on(known.gpu_type)
        )

    def waiting_key(self, job: Job) -> Key:
        """By queue, then by entry into the queue or submission; jobs demoted together by their ids.

        With `running_first`, jobs that lost their GPUs in this queue come before those that never had any in it, the
        last to lose them first.
        """
        rank = self._rank(int(job.policy_state.get("queue", 0)))
        if self.tie != "running_first":
            return (rank, self._since(job) if self.tie == "entered" else job.submitted_at, job.id)
        if job.requeued_at > self._since(job):
            return (rank, _WAITS, -job.requeued_at, job.policy_state.get("place", math.inf), job.id)
        return (rank, _WAITS, math.inf, self._since(job), job.id)

    def running_key(self, run: Running, now: float) -> Key:
        """See `waiting_key`; with `running_first`, running jobs by their start in this queue.

        A job demoted while it runs goes to the end of the queue, and precedes waiting jobs from the next decision on.
        """
        if self.tie != "running_first":
            return Preemptive.running_key(self, run, now)
        rank, *rest = self.preemption_key(run, now)
        since = self._since(run.job)
        if run.placed_at < since and now - since <= SOON_S:
            return (rank, _WAITS, math.inf, since, run.job.id)
        return (rank, _RUNS, *rest)

    def preemption_key(self, run: Running, now: float) -> Key:
        if self.tie != "running_first":
            return Preemptive.preemption_key(self, run, now)
        started = max(run.placed_at, self._since(run.job))
        rank = self._rank(int(run.job.policy_state.get("queue", 0)))
        return (rank, started, run.job.policy_state.get("place", math.inf), run.job.id)

    def serve(self, context: CycleContext) -> None:
        """See `Policy`; with `running_first`, notes the order in which jobs started or lost their GPUs."""
        Preemptive.serve(self, context)
        if self.tie != "running_first":
            return
        waiting = context.view.waiting_by_id
        started = [waiting[job_id] for job_id in context.places if job_id in waiting]
        gone = [context.view.running_by_job[job_id] for job_id in context.preempts]
        for place, job in enumerate(sorted(started, key=self.waiting_key)):
            context.note(job, None, {**_memo(context, job), "place": place})
        for place, run in enumerate(sorted(gone, key=lambda run: self.running_key(run, context.now))):
            context.note(run.job, run, {**_memo(context, run.job), "place": place})

    def review(self, job: Job, run: Running | None, now: float) -> Mapping[str, float] | None:
        """The new queue of a job that has attained enough or waited too long."""
        demoted_at = self._demotion(job, run, now)
        if demoted_at is not None and demoted_at <= now + SOON_S:
            queue = int(job.policy_state.get("queue", 0)) + 1
            attained = self._attained_gpu_s(job, run, now + SOON_S)
            while attained >= self._limit(queue):
                queue += 1
            kept = {name: value for name, value in job.policy_state.items() if name != "place"}
            return {**kept, "queue": queue, "since": now}
        promoted_at = self._promotion(job, run)
        if promoted_at is not None and promoted_at <= now + SOON_S:
            return {"queue": 0, "since": now, "attained_gpu_s": job.attained_gpu_s, "ran_s": job.ran_s}
        return None

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The time at which the job changes its queue, or becomes preemptible, if nothing else happens."""
        free_to_go = Preemptive.next_change(self, job, run, now)
        moments = (self._demotion(job, run, now), self._promotion(job, run), free_to_go)
        return min((at for at in moments if at is not None), default=None)

    def _since(self, job: Job) -> float:
        """The time at which the job entered its queue."""
        return job.policy_state.get("since", job.submitted_at)

    def _demotion(self, job: Job, run: Running | None, now: float) -> float | None:
        """The time at which the job reaches the limit of its queue, at the earliest now; None if never."""
        limit = self._limit(int(job.policy_state.get("queue", 0)))
        if math.isinf(limit) or (run is not None and run.stopping):
            return None
        missing = limit - self._attained_gpu_s(job, run, now)
        if missing <= 0:
            return now
        return now + missing / run.gpus if run is not None and run.gpus else None

    def _promotion(self, job: Job, run: Running | None) -> float | None:
        """The time at which the job's wait is too long for its run time; None if it does not wait or cannot rise."""
        if run is not None or not self.promote_knob or not job.policy_state.get("queue", 0):
            return None
        return job.waiting_since + self.promote_knob * (job.ran_s - job.policy_state.get("ran_s", 0.0))

    def _attained_gpu_s(self, job: Job, run: Running | None, now: float) -> float:
        """The service attained since the last promotion."""
        attained = job.attained_gpu_s if run is None else run.attained_gpu_s(now)
        return attained - job.policy_state.get("attained_gpu_s", 0.0)

    def _limit(self, queue: int) -> float:
        """The attained service that moves a job to the next queue; infinite for the last queue."""
        if self.variant == "las":
            return self.limits_gpu_s[queue] if queue < len(self.limits_gpu_s) else math.inf
        attained = queue * self.delta_gpu_s
        return attained + self.delta_gpu_s if attained < self.service.largest else math.inf

    def _rank(self, queue: int) -> float:
        """The position of the queue among the queues, smaller first."""
        if self.variant == "las":
            return queue
        attained = queue * self.delta_gpu_s
        if self.variant == "gittins":
            return -self.service.index(attained)
        return -self.service.released_index(attained, self.delta_gpu_s)


def _memo(context: CycleContext, job: Job) -> Mapping[str, float]:
    """The policy state of the job with the notes of this decision."""
    return context.notes[job.id].policy_state if job.id in context.notes else job.policy_state
