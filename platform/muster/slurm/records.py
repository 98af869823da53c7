"""Jobs as Slurm's commands see them: a job, a member of an array, or the members of an array that wait together."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Prefetch, Q, QuerySet
from django.db.models.fields.json import KT

from muster.accounts.models import User
from muster.common.clock import utc_now
from muster.jobs.dependents import rows_of
from muster.jobs.models import Allocation, Attempt, Dependency, Job, JobGroup
from muster.jobs.selectors import visible_jobs
from muster.slurm.states import State, reason_of, state_of
from muster.tenants.selectors import tenants_of
from scheduler.model.dependencies import DependencyKind, DependencyState
from scheduler.model.lifecycle import JobState

KNOWN_FOR = timedelta(seconds=300)
"""The time for which squeue, scancel and scontrol know an ended job: the default of MinJobAge."""


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
    told_limit: bool = True
    """True if the id of members that wait together tells how many of them run at once."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The words of the script for partition, account, qos and cluster."""
    batch: Mapping[str, Any] = field(default_factory=dict)
    """The key `batch` of its spec."""
    requeues: bool = True
    """False for a batch script that was submitted with `--no-requeue`."""
    waits_for: str = ""
    """Its dependencies that are not met, as Slurm writes them."""

    @property
    def array_id(self) -> int | None:
        """The number of its array; None outside of one."""
        return self.job.group_id if self.job.array_index is not None else None

    @property
    def task(self) -> str:
        """The index in the array, or those that wait together, as in `[3-9%2]`; empty outside of an array."""
        if len(self.indices) > 1:
            return f"[{ranges(self.indices)}{self.limit}]"
        return "" if self.job.array_index is None else str(self.job.array_index)

    @property
    def limit(self) -> str:
        """The number of members that run at once, behind a per cent sign; empty if there is no limit."""
        group = self.job.group
        return f"%{group.parallel}" if self.told_limit and group and group.parallel < group.size else ""

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
    def count(self) -> int:
        """The number of its nodes."""
        return len(self.nodes) or self.job.nodes

    @property
    def tasks(self) -> int:
        """The number of its tasks."""
        return int(self.batch.get("tasks") or self.job.nodes)

    @property
    def folder(self) -> str:
        """The folder in which its script runs; empty for the job's own, which only its node knows."""
        return str(self.batch.get("folder") or "")

    def file(self, key: str) -> str:
        """The path of the file of its `output`, `error` or `input`."""
        if key == "error" and not self.batch.get("error"):
            key = "output"
        pattern = self.batch.get(key)
        return "/dev/null" if pattern is None else posixpath.join(self.folder, self._filled(str(pattern)))

    def _filled(self, pattern: str) -> str:
        job = self.job
        values = {"j": job.pk, "A": self.array_id or job.pk, "a": job.array_index, "x": job.name, "s": "batch"}
        values |= {"u": job.owner.username, "J": job.pk, "t": 0, "n": 0, "N": self.nodes[0] if self.nodes else "%N"}

        def fill(found: re.Match[str]) -> str:
            value = values.get(found[2])
            return "%" if found[2] == "%" else found[0] if value is None else str(value).zfill(int(found[1] or 0))

        return re.sub(r"%(\d?)([a-zA-Z%])", fill, pattern)

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


def known_users(user: User, names: Collection[str]) -> set[str]:
    """Those of the names that are the user's own or belong to a member of a tenant of theirs."""
    members = User.objects.filter(username__in=names, memberships__tenant__in=tenants_of(user))
    return {*members.values_list("username", flat=True), user.username}


def records_of(jobs: QuerySet[Job], *, folded: bool, limits: bool = True) -> list[Record]:
    """The records of these jobs; `folded`: members of an array that have not started are one record, which tells with
    `limits` how many of them run at once."""
    jobs = jobs.order_by("pk")
    together: dict[tuple[int, bool], list[int]] = defaultdict(list)
    if folded:
        first: dict[tuple[int, bool], int] = {}
        rows = jobs.filter(_TOGETHER).values_list("pk", "group", "held", "array_index")
        for pk, group_id, held, index in rows:
            key = (group_id or 0, held)
            first.setdefault(key, pk)
            together[key].append(index or 0)
        if first:
            jobs = jobs.filter(~_TOGETHER | Q(pk__in=list(first.values())))
    loaded = list(_with_words(jobs))
    attempts = _last_attempts(loaded)
    nodes = _nodes_of(attempts.values())
    waits = _dependencies_of(loaded)
    records = [_record(job, attempts.get(job.pk), nodes, together, waits.get(job.pk, "")) for job in loaded]
    return records if limits else [replace(record, told_limit=False) for record in records]


# Columns that are long, or many to read for a long list.
_UNREAD = ("spec", "memo", "screening", "failure", "failed_resize", "avoid_nodes")
_TOGETHER = Q(state=JobState.QUEUED, attempt_count=0, array_index__isnull=False)


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
    job: Job,
    attempt: Attempt | None,
    nodes: Mapping[int, list[str]],
    together: Mapping[tuple[int, bool], list[int]],
    waits_for: str,
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
        words={name: loaded[f"word_{name.lower()}"] or "" for name in _WORDS},
        batch=loaded["batch"] or {},
        requeues=not (loaded["batch"] and loaded["retries"] == 0),
        waits_for=waits_for,
    )


_WORDS = {"PARTITION": "JOB_PARTITION", "ACCOUNT": "JOB_ACCOUNT", "QOS": "JOB_QOS", "CLUSTER": "CLUSTER_NAME"}
_KINDS: Mapping[str, str] = {
    DependencyKind.OK: "afterok",
    DependencyKind.ANY: "afterany",
    DependencyKind.FAILED: "afternotok",
    DependencyKind.CORR: "aftercorr",
    DependencyKind.STARTED: "after",
}


def _with_words(jobs: QuerySet[Job]) -> QuerySet[Job]:
    words = {f"word_{name.lower()}": KT(f"spec__env__SLURM_{variable}") for name, variable in _WORDS.items()}
    # Jobs share these rows, so each is read once.
    groups = Prefetch("group", JobGroup.objects.defer("spec"))
    loaded = jobs.prefetch_related("owner", "vc", "pool", groups).defer(*_UNREAD)
    return loaded.annotate(batch=F("spec__batch"), retries=F("spec__retry__max"), **words)


def _dependencies_of(jobs: Iterable[Job]) -> dict[int, str]:
    """The dependencies of the jobs that wait for others, as Slurm writes them."""
    blocked = [job for job in jobs if job.blocked_by]
    if not blocked:
        return {}
    rows = rows_of(blocked)
    awaited = {row.on_job_id or 0 for each in rows.values() for row in each if row.on_group_id is None}
    members = Job.objects.filter(pk__in=awaited, array_index__isnull=False).values_list("pk", "group", "array_index")
    names = {pk: f"{group_id}_{index}" for pk, group_id, index in members}
    return {pk: _told(each, names) for pk, each in rows.items()}


def _told(rows: Sequence[Dependency], names: Mapping[int, str]) -> str:
    """The open dependencies of a job, those with one clause as alternatives; one on each member of a group once.

    `names`: of members of arrays, by the numbers of their jobs.
    """
    clauses: dict[int, dict[str, None]] = defaultdict(dict)
    for row in rows:
        if row.state == DependencyState.MET:
            continue
        stands = "failed" if row.state == DependencyState.NEVER else "unfulfilled"
        target = names.get(row.on_job_id or 0, str(row.on_job_id))
        if row.on_group_id is not None:
            target = f"{row.on_group_id}_*"
        target += f"+{row.later_s // 60}" if row.later_s else ""
        kind = _KINDS.get(row.kind)
        clauses[row.clause][f"{kind}:{target}({stands})" if kind else f"singleton({stands})"] = None
    return ",".join("?".join(alternatives) for alternatives in clauses.values())


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
