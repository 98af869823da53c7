"""The reasons why jobs wait, as the last cycle found."""

from __future__ import annotations

from collections import defaultdict

from django.db.models import Count

from muster.common.clock import database_now, moment
from muster.dispatch.config.planners import name_of, planner_of
from muster.dispatch.models import Cycle
from muster.jobs.attempt.estimates import current_estimate
from muster.jobs.attempt.runs import ScreeningRun, screening_run_of
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.jobs.queue import positions
from muster_client.answers.forecast import HeldJob, QuotaHolder, WaitForecast, Why
from muster_client.answers.jobs import Failure
from scheduler.model.lifecycle import HoldReason, JobState, Stage

MAX_HOLDERS = 3
"""Users, and jobs of each, that are named to a job that waits for quota."""


def why(job: Job, *, failure: Failure | None = None, wait: WaitForecast | None = None, wait_unknown: str = "") -> Why:
    """The dominant pending reason, its evidence, the helps and the queue position; or why the job is where it is.

    The forecast of its wait is the caller's, and passed on.
    """
    planner = name_of(planner_of(job.pool_id, job.vc_id))
    cycles = Cycle.objects.filter(pool_id=job.pool_id, planner=planner).order_by("-pk")
    cycle = cycles.values("pk", "started_at").first()
    answer: Why = {
        "state": job.state,
        "reason": job.reason or None,
        "detail": job.reason_detail or _SENTENCES[JobState(job.state)],
        "evidence": {},
        "helps": [],
        "failure": failure,
        "position": None,
        "ahead": None,
        "holders": [],
        "estimate": current_estimate(job),
        "wait": wait,
        "wait_unknown": wait_unknown,
        "cycle": cycle["pk"] if cycle else None,
        "at": moment(cycle["started_at"]) if cycle else None,
    }
    run = screening_run_of(job)
    if run is not None and not job.held and not job.blocked_by and job.state in {JobState.QUEUED, JobState.ACTIVE}:
        return _why_screened(job, run, answer)
    if job.state == JobState.QUEUED:
        position = positions([job]).get(job.pk)
        answer["position"] = position
        if job.hold:
            answer["reason"], answer["detail"] = job.hold["reason"], job.hold["detail"]
            answer["evidence"], answer["helps"] = job.hold["evidence"], job.hold["helps"]
        else:
            answer["reason"], answer["detail"] = None, "no cycle has looked at it yet"
        if position is not None:
            answer["ahead"] = position - 1
            if position > 1:
                jobs = "one job is" if position == 2 else f"{position - 1} jobs are"
                answer["detail"] += f"; {jobs} ahead of it in the queue of {job.vc.name}"
        if answer["reason"] == HoldReason.QUOTA:
            answer["holders"] = quota_holders(job.vc_id, answer["evidence"]["gpu_type"])
    return answer


def quota_holders(vc_id: int, gpu_type: str) -> list[QuotaHolder]:
    """The users who hold most GPUs of a type in a virtual cluster, with their largest jobs there; one query."""
    claims = GpuClaim.objects.filter(
        released_at__isnull=True, gpu__type=gpu_type, allocation__attempt__job__vc_id=vc_id
    )
    job = "allocation__attempt__job__"
    rows = claims.values_list(f"{job}owner__username", f"{job}id", f"{job}name").annotate(
        gpus=Count("gpu", distinct=True)
    )
    of_owner: dict[str, list[HeldJob]] = defaultdict(list)
    for owner, job_id, name, gpus in rows.order_by("-gpus", f"{job}id"):
        of_owner[owner].append({"id": job_id, "name": name, "gpus": gpus})
    holders: list[QuotaHolder] = [
        {"owner": owner, "gpus": sum(one["gpus"] for one in jobs), "jobs_total": len(jobs), "jobs": jobs[:MAX_HOLDERS]}
        for owner, jobs in of_owner.items()
    ]
    return sorted(holders, key=lambda holder: (-holder["gpus"], holder["owner"]))[:MAX_HOLDERS]


def _why_screened(job: Job, run: ScreeningRun, answer: Why) -> Why:
    """The answer for a job that waits for its screening run or is in it; its place in its own queue is kept."""
    now, where = database_now().timestamp(), job.pool.name
    gpus = f"{run.gpus_total} GPU{'' if run.gpus_total == 1 else 's'} of pool {where}"
    minutes = f"{run.time_limit_s / 60:.3g} min"
    answer["reason"] = Stage.SCREENING
    evidence = {
        "pool": where,
        "screening_gpus": run.gpus_total,
        "job_gpus": job.gpus_total,
        "screening_minutes": round(run.time_limit_s / 60, 2),
    }
    kept = f"its place in the queue of {job.vc.name} is kept"
    if job.state == JobState.ACTIVE:
        attempt = Attempt.objects.filter(job=job, stage=Stage.SCREENING).order_by("-number").only("running_at").first()
        since = attempt.running_at if attempt is not None else None
        for_now = f", for {now - since.timestamp():.0f} s now" if since is not None else ""
        answer["detail"] = f"it is in its screening run on {gpus}, for at most {minutes}{for_now}; {kept}"
        answer["evidence"] = evidence
        return answer
    hold = job.hold or {}
    waited_s, left_s = max(0.0, now - run.since), max(0.0, run.until - now)
    answer["position"] = positions([job]).get(job.pk)
    answer["evidence"] = {**evidence, "waited_s": round(waited_s), "goes_on_unscreened_in_s": round(left_s)}
    answer["helps"] = [*hold.get("helps", ())]
    because = f" ({hold['detail']})" if hold.get("detail") else ""
    answer["detail"] = (
        f"it waits for its screening run of at most {minutes} on {gpus}{because}; "
        f"without one it goes on in {left_s:.0f} s, and {kept}"
    )
    return answer


_SENTENCES = {
    JobState.QUEUED: "it waits",
    JobState.ACTIVE: "it has its GPUs",
    JobState.SUCCEEDED: "it succeeded",
    JobState.FAILED: "it failed",
    JobState.CANCELLED: "it was cancelled",
}
