"""A target: a plan that was solved outside the pool's lock, and what is left of it when a cycle carries it out.

The pool went on during the solve. So each part of the target is examined anew: a part that is not possible any more is
dropped with a reason, and the rest is carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import AllocationView, Job, Running, Snapshot, View
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import UNSCHEDULABLE, Denial, Hold, Place, Plan, Preempt
from scheduler.model.request import Config

# A hold for one of these reasons is newer than the target's.
_OF_THE_MOMENT = UNSCHEDULABLE | {HoldReason.BACK_OFF, HoldReason.BEGIN, HoldReason.STILL_STOPPING, HoldReason.RESERVED}


@dataclass(frozen=True, slots=True)
class Target:
    """A plan, and the live attempt of each running job when it was made."""

    plan: Plan
    attempts: Mapping[int, int]  # job id -> attempt id


def target_of(snapshot: Snapshot, plan: Plan) -> Target:
    """The plan for the snapshot as a target."""
    return Target(plan, {run.job.id: run.attempt_id for run in snapshot.running})


def follow(context: CycleContext, target: Target) -> Mapping[int, str]:
    """Take over what is still possible of the target; returns the reasons for what is dropped, by job.

    1. Release the running jobs that the target stops, if they still run in the same attempt.
    2. Place its jobs on exactly its GPUs, in its order.
    3. A released job whose GPUs no job needs any more keeps them; the others stop.
    """
    view, dropped = context.view, dict[int, str]()
    released: list[tuple[Running, Preempt]] = []
    for preempt in target.plan.preempts:
        run = view.running_by_job.get(preempt.job_id)
        if run is None or run.attempt_id != target.attempts.get(preempt.job_id):
            dropped[preempt.job_id] = "the attempt that it stops has ended"
        elif not run.job.preemptible or not context.stays(run):
            dropped[preempt.job_id] = "the attempt that it stops may not be preempted, or stops already"
        else:
            context.release(run)
            released.append((run, preempt))
    movers = {run.job.id: run.job for run, _ in released}
    for place in target.plan.places:
        job = view.waiting_by_id.get(place.job_id) or movers.get(place.job_id)
        obstacle = "the job does not wait any more" if job is None else _obstacle(context, job, place)
        if obstacle or job is None:
            dropped[place.job_id] = obstacle
        else:
            context.given[place.job_id] = place.given
            context.take(job, place.allocations)
    for run, preempt in reversed(released):
        if not _settle(context, run, preempt):
            dropped.setdefault(run.job.id, "no job needs its GPUs any more")
    for note in target.plan.notes:
        noted = view.running_by_job.get(note.job_id)
        job = noted.job if noted is not None else view.waiting_by_id.get(note.job_id)
        if job is not None:
            context.note(job, noted, note.policy_state)
    return dropped


def with_holds_of(target: Target, holds: Sequence[Hold]) -> tuple[Hold, ...]:
    """The holds of a cycle; for jobs that the target holds too, its reasons, unless the cycle's are newer."""
    known = {hold.job_id: hold for hold in target.plan.holds}
    return tuple(
        replace(known[hold.job_id], position=hold.position, delay=hold.delay)
        if hold.job_id in known and hold.reason not in _OF_THE_MOMENT
        else hold
        for hold in holds
    )


def agreement(view: View, plan: Plan) -> Mapping[str, int]:
    """The numbers of the plan's jobs that are in the `same` place by now, `elsewhere`, still `waiting` or `gone`."""
    found: Counter[str] = Counter(same=0, elsewhere=0, waiting=0, gone=0)
    for place in plan.places:
        run = view.running_by_job.get(place.job_id)
        if run is not None:
            found["same" if _gpus(run.allocations) == _gpus(place.allocations) else "elsewhere"] += 1
        else:
            found["waiting" if place.job_id in view.waiting_by_id else "gone"] += 1
    return dict(found)


def _obstacle(context: CycleContext, job: Job, place: Place) -> str:
    """The reason that the job cannot have the place now; empty if it can."""
    view, closed = context.view, context.closed_to(job)
    too_early = backoff_reason(job, context.now)
    if job.id in context.places or job.id in context.reserved:
        return "the job has a place already"
    if too_early is not None:
        return too_early.detail
    for share in place.allocations:
        node = view.node_by_id.get(share.node_id)
        if node is None or not node.schedulable or node.id in closed:
            return f"{node.name if node is not None else 'its node'} takes no jobs like it now"
    if not context.state.free.can_take(place.allocations):
        return "its GPUs, CPUs or memory are not free any more"
    by_type = Counter(view.gpu_by_id[gpu_id].type for gpu_id in _gpus(place.allocations))
    for gpu_type, gpus in by_type.items():
        found = context.ledger.offer(job, Config(gpu_type, gpus))
        if isinstance(found, Denial):
            return found.detail
    return ""


def _settle(context: CycleContext, run: Running, preempt: Preempt) -> bool:
    """Decide about a released job; returns whether it stops."""
    if run.job.id in context.places:
        context.preempt(run, run.job.id, preempt.detail)
    elif preempt.for_job_id is None or not context.can_stay(run):
        gains = preempt.for_job_id if preempt.for_job_id in context.places else None
        context.preempt(run, gains, preempt.detail)
    else:
        context.undo_release(run)
        return False
    return True


def _gpus(allocations: Sequence[AllocationView]) -> frozenset[int]:
    return frozenset(gpu_id for share in allocations for gpu_id in share.gpu_ids)
