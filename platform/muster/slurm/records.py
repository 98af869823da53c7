"""Jobs as Slurm's commands see them: a job, a member of an array, or the members of an array that wait together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT

from muster.accounts.models import User
from muster.common.clock import utc_now
from muster.jobs.models import Allocation, Attempt, Job
from muster.jobs.selectors import visible_jobs
from muster.slurm.states import State, reason_of, state_of
from scheduler.model.lifecycle import GroupKind, JobState

KNOWN_FOR = timedelta(seconds=300)
"""How long an ended job is known to squeue, scancel and scontrol, as by MinJobAge."""


@dataclass(frozen=True, slots=True)
class Record:
    """A line of squeue."""

    job: Job
    state: State
    reason: str
    attempt: Attempt | None
    """The last one."""
    nodes: Sequence[str] = ()
    """The names of its nodes, by rank."""
    indices: Sequence[int] = ()
    """Of members of an array that wait together; `job` is the first of them."""
    words: dict[str, str] = field(default_factory=dict)
    """The words of the script for partition, account and qos."""

    @property
    def array_id(self) -> int | None:
        """The number of its array; None outside of one."""
        return self.job.group_id if self.job.array_index is not None else None

    @property
    def task(self) -> str:
        """The index in the array, or those that wait together, as in `[3-9%2]`; empty outside of an array."""
        if self.indices:
            limit = self.job.group.parallel if self.job.group else 0
            few = f"%{limit}" if self.job.group and limit < self.job.group.size else ""
            return f"[{ranges(self.indices)}{few}]"
        return "" if self.job.array_index is None else str(self.job.array_index)

    @property
    def id(self) -> str:
        """The number of the job, or those of the array and the index."""
        return str(self.job.pk) if self.array_id is None else f"{self.array_id}_{self.task}"

    @property
    def partition(self) -> str:
        """The word for its pool."""
        return self.words.get("PARTITION") or self.job.pool.name

    @property
    def account(self) -> str:
        """The word for its tenant and virtual cluster."""
        return self.words.get("ACCOUNT") or self.job.vc.name

    @property
    def qos(self) -> str:
        """The word for its class and priority."""
        return self.words.get("QOS") or "normal"

    @property
    def started_at(self) -> datetime | None:
        """The start of its last attempt; None before it."""
        return None if self.attempt is None or self.state is State.PENDING else self.attempt.running_at

    @property
    def ended_at(self) -> datetime | None:
        """The end, or by when it ends at the latest; None if neither is known."""
        if self.state.is_over:
            return self.job.ended_at
        if self.started_at is None or self.job.time_limit_s is None:
            return None
        return self.started_at + timedelta(seconds=self.job.time_limit_s)

    @property
    def ran_s(self) -> float:
        """The run time of its last attempt."""
        if self.started_at is None:
            return 0.0
        until = self.job.ended_at if self.state.is_over and self.job.ended_at else utc_now()
        return max(0.0, (until - self.started_at).total_seconds())


def known_jobs(user: User) -> QuerySet[Job]:
    """The user's visible jobs that wait, run, or ended a short time ago."""
    recent = Q(state__in=[JobState.QUEUED, JobState.ACTIVE]) | Q(ended_at__gt=utc_now() - KNOWN_FOR)
    return visible_jobs(user).filter(recent)


def records_of(jobs: QuerySet[Job], *, folded: bool) -> list[Record]:
    """The records of these jobs; `folded`: members of an array that have not started are one record."""
    jobs = jobs.order_by("pk")
    together: dict[tuple[int, bool], list[int]] = defaultdict(list)
    if folded:
        first: dict[tuple[int, bool], int] = {}
        waiting = jobs.filter(state=JobState.QUEUED, attempt_count=0, group__kind=GroupKind.ARRAY)
        rows = waiting.values_list("pk", "group", "held", "array_index")
        for pk, group_id, held, index in rows:
            key = (group_id or 0, held)
            first.setdefault(key, pk)
            together[key].append(index or 0)
        jobs = jobs.exclude(state=JobState.QUEUED, attempt_count=0, group__kind=GroupKind.ARRAY) | jobs.filter(
            pk__in=list(first.values())
        )
    loaded = list(_with_words(jobs))
    attempts = _last_attempts(loaded)
    nodes = _nodes_of(attempts.values())
    return [_record(job, attempts.get(job.pk), nodes, together) for job in loaded]


def ranges(indices: Iterable[int]) -> str:
    """Indices in ascending order as `1,3,5-7`."""
    parts: list[list[int]] = []
    for index in indices:
        if parts and index == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def _record(
    job: Job, attempt: Attempt | None, nodes: dict[int, list[str]], together: dict[tuple[int, bool], list[int]]
) -> Record:
    state = state_of(job, attempt)
    waits = state is State.PENDING and not job.attempt_count and job.array_index is not None
    loaded = job.__dict__
    return Record(
        job=job,
        state=state,
        reason=reason_of(job, state),
        attempt=attempt,
        nodes=nodes.get(attempt.pk, ()) if attempt is not None and state is not State.PENDING else (),
        indices=together.get((job.group_id or 0, job.held), ()) if waits else (),
        words={name: loaded[f"word_{name.lower()}"] for name in _WORDS},
    )


_WORDS = ("PARTITION", "ACCOUNT", "QOS")


def _with_words(jobs: QuerySet[Job]) -> QuerySet[Job]:
    words = {f"word_{name.lower()}": KT(f"spec__env__SLURM_JOB_{name}") for name in _WORDS}
    return jobs.select_related("owner", "vc", "pool", "group").defer("spec", "group__spec").annotate(**words)


def _last_attempts(jobs: Iterable[Job]) -> dict[int, Attempt]:
    started = [job.pk for job in jobs if job.attempt_count]
    rows = Attempt.objects.filter(job__in=started).order_by("job", "-number").distinct("job")
    return {row.job_id: row for row in rows} if started else {}


def _nodes_of(attempts: Iterable[Attempt]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    ids = [attempt.pk for attempt in attempts]
    rows = Allocation.objects.filter(attempt__in=ids).order_by("attempt", "rank") if ids else Allocation.objects.none()
    for attempt_id, name in rows.values_list("attempt", "node__name"):
        found[attempt_id].append(name)
    return found
