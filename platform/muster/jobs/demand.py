"""What an attempt of a job takes: what the job asks for, or for a trial its part of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from muster.jobs.models import Attempt
from scheduler.diagnosis.screening import MAX_GRACE_S


@dataclass(frozen=True, slots=True)
class Demand:
    """Sizes are for each node; without a GPU type any will do."""

    nodes: int
    gpus: int
    cpus: int
    memory_mib: int
    gpu_type: str
    time_limit_s: float | None

    @property
    def gpus_total(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus


_NAMES = tuple(field.name for field in fields(Demand))


def demand_of(attempt: Attempt) -> Demand:
    """What the attempt takes, or took."""
    if attempt.trial is not None:
        return trial_demand(attempt.trial)
    job, choice = attempt.job, attempt.job.request.first
    return Demand(
        job.request.nodes, choice.gpus, choice.cpus, choice.memory_mib, choice.gpu_type or "", job.time_limit_s
    )


def trial_demand(trial: dict[str, Any]) -> Demand:
    """What a trial takes, of the column `trial` of its job."""
    return Demand(**{name: trial[name] for name in _NAMES})


def stored_trial(demand: Demand, **more: Any) -> dict[str, Any]:
    """A trial as its job stores it; see `Job.trial`."""
    return asdict(demand) | more


def trial_grace_s(job_grace_s: float) -> float:
    """How long a trial has to end when it is asked to: it has nothing to save."""
    return min(job_grace_s, MAX_GRACE_S)
