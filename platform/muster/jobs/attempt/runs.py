"""With what the next attempt of a job runs: its own request and limits, or those of its screening run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from muster.common.errors import Invalid
from muster.jobs.models import Job
from scheduler.diagnosis.screening import MAX_GRACE_S
from scheduler.model.codec import from_json, to_json
from scheduler.model.lifecycle import Stage
from scheduler.model.request import Choice, Request, interned, words_for_choices


@dataclass(frozen=True, slots=True)
class ScreeningRun:
    """The screening run that a job waits for or is in; `Job.screening` stores it.

    It waits from `since` to `until` at most, and may be refitted to `world` GPUs meanwhile.
    """

    request: Request
    time_limit_s: float
    world: int
    since: float
    until: float

    @property
    def gpus_total(self) -> int:
        """GPUs of all its nodes."""
        return self.request.nodes * self.request.first.gpus

    def stored(self) -> dict[str, Any]:
        """The run as plain JSON values."""
        return to_json(self)


def screening_run_of(job: Job) -> ScreeningRun | None:
    """The screening run that the job waits for or is in; None for a job that is not screened, or no longer."""
    return None if job.screening is None else screening_run_from(job.screening)


def screening_run_from(stored: object) -> ScreeningRun:
    """The run that `ScreeningRun.stored` made `stored` from."""
    run = from_json(ScreeningRun, stored)
    return replace(run, request=interned(run.request))


def in_its_own_queue(job: Job) -> dict[str, Any]:
    """The fields of a job that is done with screening. Its times stay, and with them its place in the queue."""
    return {"stage": Stage.FULL, "screening": None, "pool_id": job.vc.pool_id, "memo": {}, "avoid_nodes": []}


def screening_grace_s(job_grace_s: float) -> float:
    """The grace of a screening run, s: it has nothing to save."""
    return min(job_grace_s, MAX_GRACE_S)


@dataclass(frozen=True, slots=True)
class Run:
    """The resources of an attempt before one of the choices is made."""

    request: Request
    time_limit_s: float | None
    grace_s: float


def next_run(job: Job) -> Run:
    """The resources of the job's next attempt."""
    screening = screening_run_of(job) if job.stage == Stage.SCREENING else None
    if screening is None:
        return Run(job.request, job.time_limit_s, job.grace_s)
    return Run(screening.request, screening.time_limit_s, screening_grace_s(job.grace_s))


def request_given(job: Job, choice: Choice, nodes: int) -> Request:
    """The request of an attempt of the job that runs in exactly this size on so many nodes.

    Raises:
        Invalid: the job accepts no such size: it is none of its choices, and not in its elastic range.
    """
    request = next_run(job).request
    if not request.accepts(choice, nodes):
        on = "per node" if nodes == 1 else f"on each of {nodes} nodes"
        raise Invalid.field("gpus", f"job {job.pk} cannot run on {choice} {on}{_why_not(request, choice, nodes)}")
    return request.given(choice, nodes)


def _why_not(request: Request, choice: Choice, nodes: int) -> str:
    asks = f": it asks for {words_for_choices(request.choices)}"
    if request.nodes > 1:
        asks += f" on each of {request.nodes} nodes"
    if request.elastic is not None:
        asks += f" and may be resized from {request.min_gpus} to {request.max_gpus} GPUs in all"
    asked = request.choice_of(choice.gpu_type)
    if asked is None or not request.accepts(request.resized(asked, choice.gpus), nodes):
        return asks
    return f"{asks}, not for {choice.cpus} CPUs and {choice.memory_mib} MiB"
