"""Jobs, attempts and events as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, QuerySet

from muster.api.jobs.marks import NO_MARKS, Marks, marks_of
from muster.api.moments import moment
from muster.common.clock import utc_now
from muster.dispatch.explain.finish import FinishByType
from muster.events.models import Event
from muster.fleet.networks import host_network_reason
from muster.fleet.runtimes import in_container
from muster.jobs.attempt.estimates import current_estimate
from muster.jobs.attempt.outcome import blamed_for
from muster.jobs.attempt.resizes import failed_resize_from
from muster.jobs.groups.progress import GroupProgress, Membership, memberships_of
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job, JobGroup
from muster.jobs.queue import positions
from muster.jobs.selectors import RunTime, run_times
from muster.jobs.spec.spec import PRIORITIES
from muster.jobs.spec.spec_order import in_order
from muster.logs.models import LogFile
from muster.samples.rates import KnownRate, rates_of
from muster.screening.models import ScreeningResult
from muster.screening.selectors import results_of
from muster.usage.efficiency import efficiency_of
from muster.usage.models import Efficiency
from scheduler.diagnosis.failures import title_of
from scheduler.diagnosis.failures.rules import NO_SIGNATURE
from scheduler.model.lifecycle import JOB_TERMINAL, JobState, Reason

Json = dict[str, Any]

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


def job_list(jobs: Iterable[Job], *, collapsed: bool = False) -> list[Json]:
    """The jobs as lists show them; one more query each for all places in the queue, run times, marks and groups.

    With `collapsed`, a member of a group stands for it, and one more query tells how far the groups are.
    """
    jobs = list(jobs)
    places, marks, ran = positions(jobs), marks_of(jobs), run_times(jobs)
    memberships = memberships_of(jobs, collapsed=collapsed)
    return [
        _job(job, places.get(job.pk), ran.get(job.pk, RunTime()), marks.get(job.pk, NO_MARKS))
        | _of_group(job, memberships.get(job.pk))
        for job in jobs
    ]


def _of_group(job: Job, found: Membership | None) -> Json:
    return {"group": found and _group(job, found.group, found.progress), "params": job.params}


def _group(job: Job, group: JobGroup, progress: GroupProgress | None) -> Json:
    return {
        "id": group.pk,
        "kind": group.kind,
        "name": group.name,
        "state": group.state,
        "member": job.member,
        "members": group.size,
        "progress": progress
        and {
            **progress.members,
            "started_at": moment(progress.started_at),
            "changed_at": moment(progress.changed_at),
            "ended_at": moment(group.ended_at),
        },
    }


def submitted_list(jobs: Iterable[Job]) -> list[Json]:
    """The same of jobs that have just been stored, without a query: nothing is known of them but what they are.

    Their places in the queue are left out, for they would take a look at all jobs that wait.
    """
    return [_job(job, None, RunTime(), NO_MARKS) | _of_group(job, None) for job in jobs]


def submitted_document(job: Job) -> Json:
    """The document of a job that has just been stored; a gang may have been decided to need no screening run."""
    (document,) = submitted_list([job])
    return document | {
        "screening_runs": _screening_runs(job),
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


def _screening_runs(job: Job) -> list[Json]:
    return [_screening_run(row) for row in results_of(job)] if job.gpus_total > 1 else []


def job_document(job: Job) -> Json:
    """The job with its spec and its screening runs; jobs of one GPU have none."""
    (document,) = job_list([job])
    document["screening_runs"] = _screening_runs(job)
    document["spec"] = in_order(job.spec)
    document["sizes"] = sizes(job)
    document["cloned_from"] = job.cloned_from_id
    document["estimate"] = current_estimate(job)
    document["rates"] = [_rate(rate) for rate in rates_of(job)] if job.gpus else []
    document["finish"] = None
    document["failed_resize"] = _failed_resize(job)
    found = efficiency_of(job)
    document["efficiency"] = None if found is None else efficiency(found)
    document["shells"] = job.vc.pool.shells
    return document


def _rate(rate: KnownRate) -> Json:
    names = ("gpu_type", "gpus", "per_s", "deviation", "source")
    return {name: getattr(rate, name) for name in names}


def gpu_choices(job: Job) -> list[Json]:
    """The GPU types that the job accepts, each with a size, in order of preference."""
    return [{"gpu_type": choice.gpu_type, "gpus": choice.gpus} for choice in job.request.choices]


def sizes(job: Job) -> list[Json]:
    """What the job gets on each node in each of its choices, in order of preference."""
    names = ("gpu_type", "gpus", "cpus", "memory_mib")
    return [{name: getattr(choice, name) for name in names} for choice in job.request.choices]


def finish(found: FinishByType | None) -> Json | None:
    """When a waiting job would finish on each GPU type; one of several types only."""
    if found is None:
        return None
    types = [asdict(one) | {"finishes_in_s": one.finishes_in_s} for one in found.types]
    return {"summary": found.summary, "detail": found.detail, "types": types}


def efficiency(row: Efficiency) -> Json:
    """What a job used of what it had."""
    use = row.use
    return {
        "attempt": row.attempt,
        "grade": row.grade or None,
        "silence": row.silence or None,
        "utilization": None if row.utilization is None else round(row.utilization, 2),
        "idle_gpus": row.idle_gpus,
        "gpu_hours": round(row.gpu_s / 3600, 6),
        "idle_gpu_hours": round(row.idle_gpu_s / 3600, 6),
        "gpus": use["gpus"],
        **{name: use[name] for name in ("cpus", "cpu_cores", "memory_mib", "memory_used_mib")},
        "advice": row.advice,
    }


def _job(job: Job, position: int | None, ran: RunTime, marks: Marks) -> Json:
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
    }


def _screening_run(row: ScreeningResult) -> Json:
    names = ("verdict", "detail", "failure", "line", "hint", "gpus_asked", "gpus")
    seconds = ("waited_s", "ran_s", "spent_gpu_s", "saved_gpu_s")
    told = {name: getattr(row, name) for name in names} | {name: round(getattr(row, name), 1) for name in seconds}
    return told | {"attempt": row.attempt.number if row.attempt else None, "at": moment(row.at)}


def _failed_resize(job: Job) -> Json | None:
    """The failed resize whose pause is not over."""
    if job.failed_resize is None or job.state in JOB_TERMINAL:
        return None
    found = failed_resize_from(job.failed_resize)
    if found.until <= utc_now().timestamp():
        return None
    return {
        "before": found.before * job.nodes,
        "wanted": found.wanted * job.nodes,
        "at": moment(datetime.fromtimestamp(found.at, UTC)),
        "because": found.because,
        "until": moment(datetime.fromtimestamp(found.until, UTC)),
    }


def _hold(job: Job) -> Json | None:
    if not job.hold_reason:
        return None
    hold = job.hold or {}
    return {"reason": job.hold_reason, "detail": hold.get("detail", ""), "helps": list(hold.get("helps", ()))}


def failure(job: Job) -> Json | None:
    """Why the job failed; None for one that has not."""
    if job.state != JobState.FAILED:
        return None
    reason = Reason(job.reason or Reason.UNKNOWN)
    if job.failure is not None and job.failure["class"] != NO_SIGNATURE:
        return {name: job.failure[name] or None for name in ("class", "category", "line", "hint")} | {
            "title": title_of(job.failure["class"], line=job.failure["line"]),
            "retry": job.failure["retry"],
            "retried": job.retried_because or None,
            "last_words": None,
        }
    return {
        "class": reason.value,
        "title": title_of(reason, exit_code=job.exit_code),
        "category": blamed_for(reason),
        "line": None,
        "hint": None if job.reason_detail == f"exit status {job.exit_code}" else job.reason_detail or None,
        "retry": None,
        "retried": job.retried_because or None,
        "last_words": (job.failure or {}).get("line") or None,
    }


def attempt_list(attempts: Iterable[Attempt]) -> list[Json]:
    """The attempts with their ranks; three further queries for all of them."""
    attempts = list(attempts)
    ranks = Allocation.objects.filter(attempt__in=attempts).select_related("node__pool", "attempt__job")
    ranks = ranks.order_by("attempt_id", "rank")
    ranks = ranks.only(
        *("id", "attempt_id", "rank", "observed", "exit_code", "attempt__job__request"),
        *("node__name", "node__labels", "node__pool__name", "node__pool__gang_network"),
    )
    of_attempt: dict[int, list[Allocation]] = defaultdict(list)
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


def _attempt_failure(attempt: Attempt) -> Json | None:
    found = attempt.failure
    return found and {**found, "title": title_of(found["class"], line=found["line"])}


def _allocation(rank: Allocation, uuids: list[str], log: LogFile | None, *, is_gang: bool) -> Json:
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


def submitted_with_sweep(job: Job) -> Json:
    """The submission of a member of a sweep, which has no event of its own."""
    data = {"sweep": job.group_id, "member": job.member}
    return {"id": 0, "at": moment(job.submitted_at), "kind": "job.submitted", "actor": job.owner.username, "data": data}


def event(row: Event) -> Json:
    """An event of a job."""
    return {"id": row.pk, "at": moment(row.at), "kind": row.kind, "actor": row.actor, "data": row.data}
