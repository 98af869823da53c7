"""Tiresias: discretised two-dimensional least attained service; docs/policies/tiresias.md says what differs from it.

What it must remember of a job is its memo: `queue`, `since` when it is in that queue, and what it had had when it was
last promoted, `attained_gpu_s` and `ran_s`. A job without a memo is in queue 0 since it was submitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scheduler.board import Key
from scheduler.model import Job, Running
from scheduler.policies.preemptive import MIN_RUN_S, SOON_S, Preemptive
from scheduler.policies.tiresias.service import Service, service_of
from scheduler.registry import ConfigError


@dataclass(frozen=True, slots=True)
class Tiresias(Preemptive):
    """Serves the queues in strict order, and within a queue by the time at which a job entered it.

    As `gittins`, there is a queue for each `delta_gpu_s` of attained service, and the one in which a job is most likely
    to end, for the service that it takes until then, comes first.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "limits_gpu_s": {
                "type": "array",
                "items": {"type": "number", "minimum": 0},
                "default": [57600],
                "description": "Attained service, in GPU-seconds, at which a job goes down to the next queue.",
            },
            "promote_knob": {
                "type": "number",
                "minimum": 0,
                "default": 0,
                "description": "Wait, in run times of the job, after which it returns to queue 0. 0: never.",
            },
            "tie": {
                "type": "string",
                "enum": ["entered", "submitted"],
                "default": "entered",
                "description": "What orders a queue: when a job entered it, or when it was submitted.",
            },
            "min_run_s": MIN_RUN_S,
            "variant": {
                "type": "string",
                "enum": ["las", "gittins", "gittins_released"],
                "default": "las",
                "description": "Queues by limits, or by the Gittins index, or by that of the authors' program.",
            },
            "service_gpu_s": {
                "type": "array",
                "items": {"type": "number", "minimum": 0},
                "default": [],
                "description": "For the index: GPU-seconds that whole jobs needed, a sample of them.",
            },
            "delta_gpu_s": {
                "type": "number",
                "minimum": 1,
                "default": 3250,
                "description": "For the index: how much service is given before the next look.",
            },
        },
        "additionalProperties": False,
    }

    limits_gpu_s: Sequence[float] = (57600,)
    promote_knob: float = 0
    tie: str = "entered"
    variant: str = "las"
    service_gpu_s: Sequence[float] = ()
    delta_gpu_s: float = 3250
    service: Service = field(init=False)

    def __post_init__(self) -> None:
        """Have lists of numbers as ascending tuples, whatever they came as."""
        service = service_of(self.service_gpu_s)
        object.__setattr__(self, "limits_gpu_s", tuple(sorted(self.limits_gpu_s)))
        object.__setattr__(self, "service_gpu_s", service.samples)
        object.__setattr__(self, "service", service)
        if self.variant != "las" and not service.samples:
            raise ConfigError(f"policy tiresias: the variant {self.variant} needs samples in service_gpu_s")

    def waiting_key(self, job: Job) -> Key:
        """By queue, then by when it entered the queue or was submitted; jobs that went down together by their ids."""
        since = job.memo.get("since", job.submitted_at) if self.tie == "entered" else job.submitted_at
        return (self._rank(int(job.memo.get("queue", 0))), since, job.id)

    def review(self, job: Job, run: Running | None, now: float) -> Mapping[str, float] | None:
        """Another queue, for a job that has attained enough or waited too long."""
        demoted_at = self._demotion(job, run, now)
        if demoted_at is not None and demoted_at <= now + SOON_S:
            queue = int(job.memo.get("queue", 0)) + 1
            attained = self._attained_gpu_s(job, run, now + SOON_S)
            while attained >= self._limit(queue):
                queue += 1
            return {**job.memo, "queue": queue, "since": now}
        promoted_at = self._promotion(job, run)
        if promoted_at is not None and promoted_at <= now + SOON_S:
            return {"queue": 0, "since": now, "attained_gpu_s": job.attained_gpu_s, "ran_s": job.ran_s}
        return None

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """When the job changes its queue, or may be preempted, if nothing happens until then."""
        free_to_go = Preemptive.next_change(self, job, run, now)
        moments = (self._demotion(job, run, now), self._promotion(job, run), free_to_go)
        return min((at for at in moments if at is not None), default=None)

    def _demotion(self, job: Job, run: Running | None, now: float) -> float | None:
        """When the job reaches the limit of its queue, at the earliest now; None when it never does."""
        limit = self._limit(int(job.memo.get("queue", 0)))
        if math.isinf(limit) or (run is not None and run.stopping):
            return None
        missing = limit - self._attained_gpu_s(job, run, now)
        if missing <= 0:
            return now
        return now + missing / run.gpus if run is not None and run.gpus else None

    def _promotion(self, job: Job, run: Running | None) -> float | None:
        """When the job will have waited too long for what it ran; None when it does not wait, or cannot rise."""
        if run is not None or not self.promote_knob or not job.memo.get("queue", 0):
            return None
        return job.waiting_since + self.promote_knob * (job.ran_s - job.memo.get("ran_s", 0.0))

    def _attained_gpu_s(self, job: Job, run: Running | None, now: float) -> float:
        """What the job has had since it was last promoted."""
        attained = job.attained_gpu_s if run is None else run.attained_gpu_s(now)
        return attained - job.memo.get("attained_gpu_s", 0.0)

    def _limit(self, queue: int) -> float:
        """The attained service at which a job leaves the queue for the next one; infinite for the last queue."""
        if self.variant == "las":
            return self.limits_gpu_s[queue] if queue < len(self.limits_gpu_s) else math.inf
        attained = queue * self.delta_gpu_s
        return attained + self.delta_gpu_s if attained < self.service.most else math.inf

    def _rank(self, queue: int) -> float:
        """Where the queue stands among the queues; the smaller goes first."""
        if self.variant == "las":
            return queue
        less_attained = self.variant == "gittins"
        return -self.service.index(queue * self.delta_gpu_s, self.delta_gpu_s, less_attained=less_attained)
