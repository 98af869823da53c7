"""Members of an array that start where others of it end, in the transaction of the end and without a cycle.

A cycle names an array if there is nothing else to decide on: only its members wait, and for free GPUs alone. Until
anything else changes in the pool, a member that ends well leaves its GPUs to the next one. At no time are they free for
others, and all sums of quotas, caps, budgets and nodes stay what they were, so no limit can be passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from muster.common.clock import utc_now
from muster.common.statements import Statement
from muster.dispatch.apply.launch import launch
from muster.fleet.models import Node
from muster.jobs.attempt.gangs import Held
from muster.jobs.models import Allocation, Job
from scheduler.model import SLOTS, AllocationView, Snapshot
from scheduler.model.lifecycle import HoldReason, JobState, NodeAdmin, NodeHealth
from scheduler.model.plan import Place, Plan

_FOR_GPUS = frozenset({HoldReason.NO_FREE_GPUS, HoldReason.QUOTA, HoldReason.BEHIND_HEAD, HoldReason.GROUP})
_GPUS = Statement(
    "SELECT claim.allocation_id, claim.gpu_id FROM jobs_gpuclaim claim JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id"
    " WHERE claim.allocation_id = ANY(%s) AND upper(claim.span) - lower(claim.span) = %s"
    " AND gpu.healthy AND gpu.present ORDER BY claim.gpu_id"
)


def sole_array(snapshot: Snapshot, plan: Plan) -> int | None:
    """The group whose members alone wait after this plan, each for GPUs alone; None if anything else may follow."""
    placed = {place.job_id for place in plan.places}
    waiting = [job for job in snapshot.waiting if job.id not in placed]
    groups = {job.group_id for job in waiting}
    if len(groups) != 1 or {hold.reason for hold in plan.holds} - _FOR_GPUS:
        return None
    if plan.preempts or plan.notes or plan.drops or plan.pool_state is not None or plan.wake_at is not None:
        return None
    if snapshot.reservations or snapshot.caps or snapshot.organisations or snapshot.cell_versions:
        return None
    jobs = (*waiting, *(run.job for run in snapshot.running))
    if any(job.request.elastic is not None for job in jobs):
        return None
    return None if any(node.maintenance_starts_at is not None for node in snapshot.nodes) else groups.pop()


def follow(node: Node, group_id: int, ended: Sequence[Held]) -> dict[int, Allocation]:
    """Place the next members of the array where these members of it have ended, in the caller's transaction.

    Returns the new allocations, each with its attempt and job, by the allocation that it follows. It waits for no lock:
    what another transaction has is left to a cycle.
    """
    ends = {rank.pk: (gang, rank) for gang, rank in ended if _passes_on(gang.job, rank, group_id, gang.attempt.given)}
    here = Node.objects.select_for_update(no_key=True, skip_locked=True).filter(
        pk=node.pk, admin=NodeAdmin.ACTIVE, health=NodeHealth.READY, barred="", must_report=False
    )
    if not ends or not here.values_list("pk", flat=True):
        return {}
    gpus: defaultdict[int, list[int]] = defaultdict(list)
    for pk, gpu_id in _GPUS.rows(list(ends), SLOTS):
        gpus[pk].append(gpu_id)
    members = Job.objects.select_for_update(no_key=True, skip_locked=True).filter(
        group=group_id, array_index__isnull=False, state=JobState.QUEUED, startable=True, attempt_count=0,
        eligible_at__lte=utc_now(),
    )  # fmt: skip
    starts: dict[int, tuple[Job, Place]] = {}
    for job, (pk, (gang, rank)) in zip(members.order_by("pk")[: len(ends)], ends.items(), strict=False):
        if job.request == gang.job.request and len(gpus[pk]) == gang.attempt.request.first.gpus:
            view = AllocationView(node.pk, 0, tuple(gpus[pk]), rank.cpus, rank.memory_mib)
            starts[pk] = job, Place(job.pk, (view,))
    requests = {pk: ends[pk][0].attempt.request for pk in starts}
    launch(node.pool, [(job, place, requests[pk]) for pk, (job, place) in starts.items()], {node.pk: node})
    new = Allocation.objects.filter(attempt__job__in=[job for job, _ in starts.values()])
    by_job = {one.attempt.job_id: one for one in new.select_related("attempt")} if starts else {}
    for job, _ in starts.values():
        by_job[job.pk].attempt.job = job
    return {pk: by_job[job.pk] for pk, (job, _) in starts.items()}


def _passes_on(job: Job, rank: Allocation, group_id: int, given: object) -> bool:
    return (
        job.group_id == group_id and job.state == JobState.SUCCEEDED and rank.rank == 0 and job.nodes == 1 and not given
    )
