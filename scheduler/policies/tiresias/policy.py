"""Tiresias: discretised two-dimensional least attained service; docs/policies/tiresias.md says what differs from it.

What it must remember of a job is its memo: `queue`, `since` when it is in that queue, and what it had had when it was
last promoted, `attained_gpu_s` and `ran_s`. A job without a memo is in queue 0 since it was submitted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.board import Key
from scheduler.model import Job, Running
from scheduler.policies.ordered import Ordered
from scheduler.policies.predicted import stayed

# Times are floats: who is within a microsecond of a limit has reached it.
_SOON_S = 1e-6


@dataclass(frozen=True, slots=True)
class Tiresias(Ordered):
    """Serves the queues in strict order, and within a queue by the time at which a job entered it."""

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
            "min_run_s": {
                "type": "number",
                "minimum": 0,
                "default": 0,
                "description": "How long a job that starts keeps its GPUs.",
            },
        },
        "additionalProperties": False,
    }
    preemptive: ClassVar[bool] = True

    limits_gpu_s: Sequence[float] = (57600,)
    promote_knob: float = 0
    tie: str = "entered"
    min_run_s: float = 0

    def __post_init__(self) -> None:
        """Have the limits in ascending order, whatever they came as."""
        object.__setattr__(self, "limits_gpu_s", tuple(sorted(self.limits_gpu_s)))

    def waiting_key(self, job: Job) -> Key:
        """By queue, then by when it entered the queue or was submitted."""
        since = job.memo.get("since", job.submitted_at) if self.tie == "entered" else job.submitted_at
        return (job.memo.get("queue", 0), since)

    def may_go(self, run: Running, now: float) -> bool:
        """Whether it has had its GPUs for long enough."""
        return stayed(run, now, self.min_run_s)

    def review(self, job: Job, run: Running | None, now: float) -> Mapping[str, float] | None:
        """Another queue, for a job that has attained enough or waited too long."""
        queue = job.memo.get("queue", 0)
        at = self._demotion(job, run, now)
        if at is not None and at <= now + _SOON_S:
            below = bisect_right(self.limits_gpu_s, self._attained_gpu_s(job, run, now + _SOON_S))
            return {**job.memo, "queue": max(below, queue + 1), "since": now}
        at = self._promotion(job, run)
        if at is not None and at <= now + _SOON_S:
            return {"queue": 0, "since": now, "attained_gpu_s": job.attained_gpu_s, "ran_s": job.ran_s}
        return None

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """When the job changes its queue, or may be preempted, if nothing happens until then."""
        moments = [self._demotion(job, run, now), self._promotion(job, run)]
        if run is not None and not self.may_go(run, now):
            moments.append(run.placed_at + self.min_run_s)
        return min((at for at in moments if at is not None), default=None)

    def _demotion(self, job: Job, run: Running | None, now: float) -> float | None:
        """When the job reaches the limit of its queue, at the latest now; None when it never does."""
        queue = int(job.memo.get("queue", 0))
        if queue >= len(self.limits_gpu_s) or (run is not None and run.stopping):
            return None
        missing = self.limits_gpu_s[queue] - self._attained_gpu_s(job, run, now)
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
