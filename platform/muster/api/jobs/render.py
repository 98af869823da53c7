"""Jobs, attempts and events as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypedDict

from django.db.models import F, Q, QuerySet

from muster.common.clock import hours, moment, rounded, utc_now
from muster.dispatch.explain.finish import FinishByType
from muster.events.models import Event
from muster.fleet.networks import host_network_reason
from muster.fleet.runtimes import in_container
from muster.jobs.attempt.estimates import current_estimate
from muster.jobs.attempt.resizes import failed_resize_from
from muster.jobs.graph import Graph
from muster.jobs.groups.progress import GroupProgress as Progress
from muster.jobs.groups.progress import Membership, memberships_of
from muster.jobs.models import Allocation as AllocationRow
from muster.jobs.models import Attempt as AttemptRow
from muster.jobs.models import GpuClaim, Job, JobGroup
from muster.jobs.queue import positions
from muster.jobs.selectors import RunTime, run_times
from muster.jobs.spec.spec import PRIORITIES
from muster.jobs.spec.spec_order import in_order
from muster.logs.models import LogFile
from muster.samples.rates import KnownRate, rates_of
from muster.screening.models import ScreeningResult
from muster.screening.selectors import results_of
from muster.usage.efficiency import efficiency_of
from muster.usage.models import Efficiency as EfficiencyRow
from muster_client.answers.jobs import (
    Allocation,
    Attempt,
    AttemptFailure,
    DependencyGraph,
    Efficiency,
    FailedResize,
    Failure,
    FinishOnType,
    GpuChoice,
    GroupOfJob,
    GroupProgress,
    Hold,
    Idle,
    JobEvent,
    JobFinish,
    JobInList,
    JobRate,
    JobSize,
    Kept,
    ScreeningRun,
)
from muster_client.answers.jobs import Job as JobDocument
from scheduler.diagnosis.failures import title_of
from scheduler.diagnosis.failures.rules import NO_SIGNATURE
from scheduler.engine.finish import Finish
from scheduler.model.lifecycle import JOB_TERMINAL, AttemptState, JobState
from scheduler.model.reasons import Reason

_PRIORITY_NAMES = {number: name for name, number in PRIORITIES.items()}


def for_list(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """The jobs with all that a list shows in one query, and without what it does not."""
    # Least of all the specs: scripts of many kilobytes each, read and parsed for nothing.
    return (
        jobs.select_related("vc", "tenant", "owner")
        .annotate(stored_params=F("spec__params"))
        .defer(
            "spec",
            "avoid_nodes",
            "failed_resize",
            *(f"vc__{name}" for name in ("tenant", "pool", "created_at")),
            *(f"tenant__{name}" for name in ("weight", "created_at")),
            *(f"owner__{name}" for name in ("password", "email", "gids", "last_login", "date_joined")),
        )
    )


def job_list(jobs: Iterable[Job], *, collapsed: bool = False) -> list[JobInList]:
    """The jobs as lists show them; one more query each for all places in the queue, run times, marks and groups.

    With `collapsed`, a member of a group stands for it, and one more query tells how far the groups are.
    """
    jobs = list(jobs)
    places, marks, ran = positions(jobs), marks_of(jobs), run_times(jobs)
    memberships = memberships_of(jobs, collapsed=collapsed)
    return [
        _job(job, places.get(job.pk), ran.get(job.pk, RunTime()), marks.get(job.pk, NO_MARKS), memberships.get(job.pk))
        for job in jobs
    ]


def _group(job: Job, found: Membership) -> GroupOfJob:
    group, progress = found.group, found.progress
    return {
        "id": group.pk,
        "kind": group.kind,
        "name": group.name,
        "state": group.state,
        "member": job.member or 0,
        "index": job.array_index,
        "members": group.size,
        "progress": None if progress is None else _progress(group, progress),
    }


def _progress(group: JobGroup, progress: Progress) -> GroupProgress:
    return {
        "waiting": progress.members["waiting"],
        "running": progress.members["running"],
        "paused": progress.members["paused"],
        "succeeded": progress.members["succeeded"],
        "failed": progress.members["failed"],
        "stopped": progress.members["stopped"],
        "cancelled": progress.members["cancelled"],
        "started_at": moment(progress.started_at),
        "changed_at": moment(progress.changed_at or group.submitted_at),
        "ended_at": moment(group.ended_at),
    }


def submitted_list(jobs: Iterable[Job]) -> list[JobInList]:
    """The same of jobs that have just been stored, without a query, and so without their places in the queue."""
    return [_job(job, None, RunTime(), NO_MARKS, None) for job in jobs]


def submitted_document(job: Job) -> JobDocument:
    """The document of a job that has just been stored; a gang may have been decided to need no screening run."""
    (row,) = submitted_list([job])
    return {
        **row,
        "screening_runs": [_screening_run(run) for run in results_of(job)] if job.gpus_total > 1 else [],
        "spec": in_order(job.spec),
        "sizes": sizes(job),
        "cloned_from": job.cloned_from_id,
        "estimate": current_estimate(job),
        "rates": [],
        "finish": None,
        "failed_resize": None,
        "efficiency": None,
        "shells": job.vc.pool.shells,
    }


def job_document(job: Job, *, finish: JobFinish | None = None) -> JobDocument:
    """The job with its spec and its screening runs; jobs of one GPU have none."""
    (row,) = job_list([job])
    found = efficiency_of(job)
    return {
        **submitted_document(job),
        **row,
        "rates": [job_rate(rate) for rate in rates_of(job)] if job.gpus else [],
        "finish": finish,
        "failed_resize": _failed_resize(job),
        "efficiency": None if found is None else efficiency(found),
    }


def job_rate(rate: KnownRate) -> JobRate:
    """The job's rate on GPUs of one type."""
    return {
        "gpu_type": rate.gpu_type,
        "gpus": rate.gpus,
        "per_s": rate.per_s,
        "deviation": rate.deviation,
        "source": rate.source,
    }


def gpu_choices(job: Job) -> list[GpuChoice]:
    """The GPU types that the job accepts, each with a size, in order of preference."""
    return [{"gpu_type": choice.gpu_type, "gpus": choice.gpus} for choice in job.request.choices]


def sizes(job: Job) -> list[JobSize]:
    """GPUs, CPUs and memory on each node for each of the job's choices, in order of preference."""
    return [
        {"gpu_type": choice.gpu_type, "gpus": choice.gpus, "cpus": choice.cpus, "memory_mib": choice.memory_mib}
        for choice in job.request.choices
    ]


def finish(found: FinishByType | None) -> JobFinish | None:
    """The finish of a waiting job on each GPU type; None for a job with one type."""
    if found is None:
        return None
    return {"summary": found.summary, "detail": found.detail, "types": [_finish_on_type(one) for one in found.types]}


def _finish_on_type(one: Finish) -> FinishOnType:
    return {
        "gpu_type": one.gpu_type,
        "gpus": one.gpus,
        "starts_in_s": one.starts_in_s,
        "runs_s": one.runs_s,
        "deviation_s": one.deviation_s,
        "finishes_in_s": one.finishes_in_s,
    }


def efficiency(row: EfficiencyRow) -> Efficiency:
    """The document of a job's efficiency."""
    use = row.use
    return {
        "attempt": row.attempt,
        "grade": row.grade or None,
        "silence": row.silence or None,
        "utilization": rounded(row.utilization, 2),
        "idle_gpus": row.idle_gpus,
        "gpu_hours": hours(row.gpu_s),
        "idle_gpu_hours": hours(row.idle_gpu_s),
        "gpus": use["gpus"],
        "cpus": use["cpus"],
        "cpu_cores": use["cpu_cores"],
        "memory_mib": use["memory_mib"],
        "memory_used_mib": use["memory_used_mib"],
        "advice": row.advice,
    }


def _job(job: Job, position: int | None, ran: RunTime, marks: Marks, membership: Membership | None) -> JobInList:
    path = f"/api/v1/jobs/{job.pk}"
    return {
        "id": job.pk,
        "name": job.name,
        "vc": job.vc.name,
        "tenant": job.tenant.name,
        "owner": job.owner.username,
        "state": job.state,
        "stage": job.stage,
        "desired": job.desired,
        "hold": _hold(job),
        "held": job.held,
        "bumped": job.bumped > 0,
        "priority": _PRIORITY_NAMES.get(job.priority, "normal"),
        "tags": job.tags,
        "gpu_choices": gpu_choices(job),
        "gpu_type": job.gpu_type or None,
        "gpus": job.gpus,
        "nodes": job.nodes,
        "gpus_total": job.gpus_total,
        "submitted_at": moment(job.submitted_at),
        "started_at": moment(job.started_at),
        "ended_at": moment(job.ended_at),
        "run_time_s": round(ran.ended_s, 1),
        "running_since": moment(ran.since),
        "exit_code": job.exit_code,
        "failure": failure(job),
        "reason": job.reason or None,
        "reason_detail": job.reason_detail or None,
        "attempts": job.attempt_count,
        "position": position,
        **marks,
        "links": {
            "self": path,
            "logs": f"{path}/logs",
            "events": f"{path}/events",
            "attempts": f"{path}/attempts",
            "why": f"{path}/why",
            "page": f"/jobs/{job.pk}",
        },
        "group": None if membership is None else _group(job, membership),
        "params": job.params,
    }


def _screening_run(row: ScreeningResult) -> ScreeningRun:
    return {
        "verdict": row.verdict,
        "detail": row.detail,
        "attempt": row.attempt.number if row.attempt else None,
        "failure": row.failure,
        "line": row.line,
        "hint": row.hint,
        "gpus_asked": row.gpus_asked,
        "gpus": row.gpus,
        "waited_s": round(row.waited_s, 1),
        "ran_s": round(row.ran_s, 1),
        "spent_gpu_s": round(row.spent_gpu_s, 1),
        "saved_gpu_s": round(row.saved_gpu_s, 1),
        "at": moment(row.at),
    }


def _failed_resize(job: Job) -> FailedResize | None:
    """The failed resize whose pause is not over."""
    if job.failed_resize is None or job.state in JOB_TERMINAL:
        return None
    found = failed_resize_from(job.failed_resize)
    if found.until <= utc_now().timestamp():
        return None
    return {
        "before": found.before,
        "wanted": found.wanted,
        "at": moment(datetime.fromtimestamp(found.at, UTC)),
        "because": found.because,
        "until": moment(datetime.fromtimestamp(found.until, UTC)),
    }


def _hold(job: Job) -> Hold | None:
    if not job.hold_reason:
        return None
    hold = job.hold or {}
    return {"reason": job.hold_reason, "detail": hold.get("detail", ""), "helps": list(hold.get("helps", ()))}


def failure(job: Job) -> Failure | None:
    """The diagnosis of a failed job; None for another one."""
    if job.state != JobState.FAILED:
        return None
    reason = Reason(job.reason or Reason.UNKNOWN)
    if job.failure is not None and job.failure["class"] != NO_SIGNATURE:
        return {
            "class": job.failure["class"],
            "title": title_of(job.failure["class"], line=job.failure["line"]),
            "category": job.failure["category"],
            "line": job.failure["line"] or None,
            "hint": job.failure["hint"] or None,
            "retry": job.failure["retry"],
            "retried": job.retried_because or None,
            "last_words": None,
        }
    return {
        "class": reason.value,
        "title": title_of(reason, exit_code=job.exit_code),
        "category": reason.meaning.blames,
        "line": None,
        "hint": None if job.reason_detail == f"exit status {job.exit_code}" else job.reason_detail or None,
        "retry": None,
        "retried": job.retried_because or None,
        "last_words": (job.failure or {}).get("line") or None,
    }


def attempt_list(attempts: Iterable[AttemptRow]) -> list[Attempt]:
    """The attempts with their ranks; three further queries for all of them."""
    attempts = list(attempts)
    ranks = AllocationRow.objects.filter(attempt__in=attempts).select_related("node__pool", "attempt__job")
    ranks = ranks.order_by("attempt_id", "rank")
    ranks = ranks.only(
        *("id", "attempt_id", "rank", "observed", "exit_code", "attempt__job__request"),
        *("node__name", "node__labels", "node__pool__name", "node__pool__gang_network"),
    )
    of_attempt: dict[int, list[AllocationRow]] = defaultdict(list)
    for rank in ranks:
        of_attempt[rank.attempt_id].append(rank)
    uuids: dict[int, list[str]] = defaultdict(list)
    claims = GpuClaim.objects.filter(allocation__attempt__in=attempts).order_by("gpu__index")
    for allocation_id, uuid in claims.values_list("allocation_id", "gpu__uuid"):
        uuids[allocation_id].append(uuid)
    logs = {log.pk: log for log in LogFile.objects.filter(allocation__attempt__in=attempts)}
    return [
        {
            "number": attempt.number,
            "state": attempt.state,
            "stage": attempt.stage,
            "allocations": [
                _allocation(rank, uuids.get(rank.pk, []), logs.get(rank.pk), is_gang=len(of_attempt[attempt.pk]) > 1)
                for rank in of_attempt[attempt.pk]
            ],
            "placed_at": moment(attempt.placed_at),
            "started_at": moment(attempt.running_at),
            "ended_at": moment(attempt.ended_at),
            "exit_code": attempt.exit_code,
            "reason": attempt.reason or None,
            "reason_detail": attempt.reason_detail or None,
            "failure": _attempt_failure(attempt),
        }
        for attempt in attempts
    ]


def _attempt_failure(attempt: AttemptRow) -> AttemptFailure | None:
    found = attempt.failure
    if found is None:
        return None
    return {
        "class": found["class"],
        "title": title_of(found["class"], line=found["line"]),
        "category": found["category"],
        "retry": found["retry"],
        "confidence": found["confidence"],
        "line": found["line"],
        "hint": found["hint"],
        "rank": found["rank"],
    }


def _allocation(rank: AllocationRow, uuids: list[str], log: LogFile | None, *, is_gang: bool) -> Allocation:
    contained = in_container(rank.attempt.job.request.runtime, rank.node.labels)
    return {
        "id": rank.pk,
        "node": rank.node.name,
        "rank": rank.rank,
        "gpus": uuids,
        "memory_limited": contained or rank.node.labels.get("limits") == "enforced",
        "host_network": (host_network_reason(rank.node) if is_gang and contained else "") or None,
        "observed": rank.observed,
        "exit_code": rank.exit_code,
        "log_size": log.size if log else 0,
        "log_complete": bool(log and log.complete),
    }


def submitted_with_group(job: Job) -> JobEvent:
    """The submission of a member of a group, which has no event of its own."""
    if job.array_index is None:
        data = {"sweep": job.group_id, "member": job.member}
    else:
        data = {"array": job.group_id, "index": job.array_index}
    return {"id": 0, "at": moment(job.submitted_at), "kind": "job.submitted", "actor": job.owner.username, "data": data}


def event(row: Event) -> JobEvent:
    """An event of a job."""
    return {"id": row.pk, "at": moment(row.at), "kind": row.kind, "actor": row.actor, "data": row.data}


class Marks(TypedDict):
    """The fields of a job that its running attempt has."""

    idle: Idle | None
    kept: Kept | None


NO_MARKS = Marks(idle=None, kept=None)


def marks_of(jobs: Iterable[Job]) -> dict[int, Marks]:
    """The marks of those of the jobs that have any, by job; one query, none where no job is active."""
    active = [job.pk for job in jobs if job.state == JobState.ACTIVE]
    if not active:
        return {}
    marked = AttemptRow.objects.filter(job__in=active, state=AttemptState.RUNNING).filter(
        Q(kept_until__isnull=False) | Q(idle_watch__warned_at__isnull=False)
    )
    columns = ("kept_until", "reason", "exit_code", "idle_watch__since", "idle_watch__stop_at")
    return {
        job_id: Marks(
            idle={"since": moment(since), "stop_at": moment(stop_at)} if since else None,
            kept={"until": moment(until), "reason": reason, "exit_code": exit_code} if until else None,
        )
        for job_id, until, reason, exit_code, since, stop_at in marked.values_list("job_id", *columns)
    }


def dependency_graph(graph: Graph) -> DependencyGraph:
    """The document of a graph of dependencies."""
    return {
        "middle": graph.middle,
        "nodes": [
            {"id": node.id, "kind": node.kind, "name": node.name, "state": node.state, "waits": node.waits}
            for node in graph.nodes
        ],
        "edges": [
            {"source": edge.source, "target": edge.target, "kind": edge.kind, "state": edge.state}
            for edge in graph.edges
        ],
        "whole": graph.whole,
    }
