"""The records of jobs: one of each job, one of each earlier attempt where these are asked for, and those of steps."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Count, Prefetch, QuerySet
from django.db.models.fields.json import KT

from muster.common.clock import utc_now
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job, JobGroup
from muster.slurm.records import ranges
from muster.slurm.states import State, reason_of, state_of, state_of_attempt, status_of
from scheduler.model.request import Request

_UNREAD = ("spec", "screening", "memo", "avoid_nodes", "failure", "failed_resize")
# The values of a spec that a record shows, without the spec.
_WORDS = {
    "batch": "spec__batch",
    "folder": "spec__batch__folder",
    "partition": "spec__env__SLURM_JOB_PARTITION",
    "account": "spec__env__SLURM_JOB_ACCOUNT",
    "qos": "spec__env__SLURM_JOB_QOS",
    "cluster": "spec__env__SLURM_CLUSTER_NAME",
    "submit_folder": "spec__env__SLURM_SUBMIT_DIR",
    "priority": "spec__priority",
}


@dataclass(frozen=True, slots=True)
class Resources:
    """Nodes, CPUs, memory and GPUs together."""

    nodes: int = 0
    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """The share of an attempt on one of its nodes."""

    node: str
    cpus: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Record:
    """A job, an attempt of one that was tried again, or the step that is its script."""

    job: Job
    state: State
    status: tuple[int, int]
    """Exit status and signal."""
    submit: datetime
    eligible: datetime | None
    start: datetime | None
    end: datetime | None
    restarts: int
    asked: Resources
    words: Mapping[str, str]
    """Values of its spec by the names in `_WORDS`, without those that it lacks."""
    ranks: tuple[Rank, ...] = ()
    step: str = ""
    """Its name; empty for the job itself."""
    attempt: int = 0
    """The number of the attempt, one more than the last for a job that waits."""
    indices: tuple[int, ...] = ()
    """Of members of an array that have never started and that it stands for."""

    @property
    def number(self) -> str:
        """The number of the job, of a member of an array with its index."""
        job = self.job
        if self.indices and job.group is not None:
            limit = f"%{job.group.parallel}" if job.group.parallel < job.group.size else ""
            return f"{job.group_id}_[{ranges(self.indices)}{limit}]"
        return str(job.pk) if job.array_index is None else f"{job.group_id}_{job.array_index}"

    @property
    def given(self) -> Resources:
        """Its nodes and its share of them, also after its end."""
        ranks = self.ranks
        return Resources(
            len(ranks),
            sum(rank.cpus for rank in ranks),
            sum(rank.memory_mib for rank in ranks),
            sum(rank.gpus for rank in ranks),
        )

    @property
    def reason(self) -> str:
        return reason_of(self.job, self.state)

    def ran_s(self, now: datetime) -> int:
        """Seconds since it started, up to its end."""
        return int(((self.end or now) - self.start).total_seconds()) if self.start else 0


def records_of(jobs: QuerySet[Job], *, steps: bool) -> list[Record]:
    """The records of all attempts of the jobs, by number, and of steps; the same queries for any number of jobs."""
    groups = Prefetch("group", JobGroup.objects.defer("spec", "env"))
    rows = list(
        # Jobs share few of these, so they are read once each, and not with each job.
        jobs.prefetch_related("owner", "vc", "pool", groups)
        .defer(*_UNREAD)
        .annotate(**{f"word_{name}": KT(path) for name, path in _WORDS.items()})
        .order_by("pk")
    )
    attempts = _attempts(rows)
    held = _held([attempt.pk for listed in attempts.values() for attempt in listed])
    records = []
    for job in rows:
        tried = attempts.get(job.pk, [])
        for record in _of_job(job, tried, held):
            records.append(record)
            if steps and record.start is not None and "batch" in record.words:
                records.append(_script_of(record))
    return records


def _gpus(attempts: Sequence[int]) -> Mapping[tuple[int, int], int]:
    """The GPUs of each rank of the attempts, by attempt and rank; without those that have none."""
    claims = GpuClaim.objects.filter(allocation__attempt__in=attempts)
    rows = claims.values_list("allocation__attempt", "allocation__rank").annotate(gpus=Count("gpu", distinct=True))
    return {(attempt_id, rank): gpus for attempt_id, rank, gpus in rows}


def _attempts(jobs: Sequence[Job]) -> Mapping[int, list[Attempt]]:
    """The attempts of each job in order."""
    found: dict[int, list[Attempt]] = defaultdict(list)
    rows = Attempt.objects.filter(job__in=[job.pk for job in jobs if job.attempt_count])
    for attempt in rows.defer("given", "failure").order_by("job", "number"):
        found[attempt.job_id].append(attempt)
    return found


def _held(attempts: Sequence[int]) -> Mapping[int, Sequence[Rank]]:
    """The ranks of each attempt in order."""
    rows = Allocation.objects.filter(attempt__in=attempts).order_by("attempt", "rank")
    found: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for attempt_id, name, cpus, memory_mib in rows.values_list("attempt_id", "node__name", "cpus", "memory_mib"):
        found[attempt_id].append((name, cpus, memory_mib))
    gpus = _gpus(attempts)
    return {
        pk: [Rank(*part, gpus.get((pk, rank), 0)) for rank, part in enumerate(ranks)] for pk, ranks in found.items()
    }


def _of_job(job: Job, tried: Sequence[Attempt], held: Mapping[int, Sequence[Rank]]) -> Iterator[Record]:
    """The records of its earlier attempts, as far as they were read, and its own."""
    last = tried[-1] if tried and tried[-1].number == job.attempt_count else None
    state = state_of(job, last)
    submit = job.submitted_at
    for attempt in tried:
        if attempt is last and state is not State.PENDING:
            break
        was = state_of_attempt(attempt)
        yield _record(job, attempt, was, submit, held.get(attempt.pk, ()))
        submit = attempt.ended_at or submit
    if state is State.PENDING or last is None:
        last = None
    yield _record(job, last, state, job.requeued_at or submit, held.get(last.pk, ()) if last else ())


def _record(job: Job, attempt: Attempt | None, state: State, submit: datetime, ranks: Sequence[Rank]) -> Record:
    request: Request = job.request
    choice, nodes = request.first, request.nodes
    start = (attempt.running_at or attempt.placed_at) if attempt else None
    eligible = max(job.eligible_at, submit)
    if start is not None:
        eligible = min(eligible, start)
    shown = start is not None or (eligible <= utc_now() and (job.startable or state.is_over))
    return Record(
        job=job,
        state=state,
        status=status_of(state, attempt or job),
        submit=submit,
        eligible=eligible if shown else None,
        start=start,
        end=attempt.ended_at if attempt else job.ended_at,
        restarts=attempt.number - 1 if attempt else job.attempt_count,
        attempt=attempt.number if attempt else job.attempt_count + 1,
        words={name: word for name in _WORDS if (word := job.__dict__[f"word_{name}"])},
        asked=Resources(nodes, nodes * choice.cpus, nodes * choice.memory_mib, nodes * choice.gpus),
        ranks=tuple(ranks),
    )


def _script_of(record: Record) -> Record:
    """The step that is the script of a batch job: on its first node, without the cause that the job ended for."""
    state, status = record.state, record.status
    if state in {State.TIMEOUT, State.CANCELLED, State.PREEMPTED, State.REQUEUED, State.NODE_FAIL}:
        state, status = State.CANCELLED, (0, signal.SIGTERM)
    elif state is State.FAILED and status[1]:
        state = State.CANCELLED
    return replace(record, step="batch", state=state, status=status, ranks=record.ranks[:1])
