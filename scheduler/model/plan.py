"""The plan of a cycle: places, preemptions and holds; and a pure model of carrying it out.

The applier checks each place again under lock and may refuse it.

To move or resize a job, a plan preempts and places it. A place may name GPUs that other jobs still hold, if the plan
preempts those jobs or they are stopping. The applier then makes the place a `Reservation`, and a later cycle starts the
job there once the GPUs are free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler.model import AllocationView, Job, PoolState, Reservation, Running, Snapshot, View
from scheduler.model.delays import Delay
from scheduler.model.given import Given
from scheduler.model.lifecycle import AttemptState, HoldReason
from scheduler.model.sharing import may_share

Evidence = Mapping[str, int | float | str]

# The keys of evidence whose values are times, in seconds since 1970.
MOMENTS = frozenset({"again_at", "eligible_at", "starts_by"})

# Reasons that no GPU that becomes free removes. No job waits behind a job that is held for one of them.
UNSCHEDULABLE = frozenset({HoldReason.INFEASIBLE, HoldReason.QUOTA_TOO_SMALL, HoldReason.CAP})

# How long a reservation lasts, s. It is longer than the longest grace that a job spec accepts.
RESERVATION_S = 3900.0


@dataclass(frozen=True, slots=True)
class Place:
    """Start the whole gang of a job at once, with one allocation per rank; each is `given` the same values."""

    job_id: int
    allocations: tuple[AllocationView, ...]
    given: Given = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a running job within its grace and queue it again; its GPUs go to the job `for_job_id`.

    A job that moves or changes its size is preempted for itself. Of two jobs that share GPUs, one can be preempted for
    the other, which then has the GPUs alone and needs no place. Without `for_job_id`, the job's lease has ended.
    """

    job_id: int
    for_job_id: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Note:
    """The `policy_state` that the policy stores with a job, for its next decision."""

    job_id: int
    policy_state: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Denial:
    """Denial of a start: a reason, a sentence with numbers, those numbers, and the remedies in `helps`.

    A job that lacks GPUs starts once `wanted` of them become free; `once_free` says so in words. Jobs ahead of it may
    take these GPUs, so `once_free` is no part of `helps`, which do not depend on other jobs.
    """

    reason: HoldReason
    detail: str
    evidence: Evidence
    helps: tuple[str, ...]
    wanted: int = 0
    once_free: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave a job waiting and give its owner the reason.

    `position` is its place, from 1, among the jobs of its virtual cluster that wait after this plan. `delay` is the
    cause of its wait, which the reason alone does not always tell; None where no decision has found it.
    """

    job_id: int
    reason: HoldReason
    detail: str
    evidence: Evidence
    helps: tuple[str, ...]
    position: int
    delay: Delay | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of one cycle. It places or holds each waiting job.

    `drops` are the ids of the jobs whose reservations end. `pool_state` replaces what the policy remembers of the pool;
    None leaves it as it is. `wake_at` is the moment at which the policy wants to decide again, without an event.
    """

    places: tuple[Place, ...]
    holds: tuple[Hold, ...]
    preempts: tuple[Preempt, ...] = ()
    notes: tuple[Note, ...] = ()
    drops: tuple[int, ...] = ()
    pool_state: PoolState | None = None
    wake_at: float | None = None


def blocking_jobs(view: View, place: Place) -> frozenset[int]:
    """The ids of the jobs that hold GPUs of the place and may not share them with its job."""
    return frozenset(
        holder
        for share in place.allocations
        for gpu_id in share.gpu_ids
        for holder in view.holders_of_gpu.get(gpu_id, ())
        if not _share(view, place.job_id, holder, gpu_id)
    )


def apply(snapshot: Snapshot, plan: Plan, *, awaiting: Collection[int] = ()) -> Snapshot:
    """The snapshot after a valid plan is carried out. No time passes, so preempted attempts are still stopping.

    `awaiting` holds the ids that `invariants.awaits_preemption` returned.

    The new attempt of job 7 has the id -7. The database assigns positive ids, and a job has at most one live attempt.
    """
    notes = {note.job_id: note.policy_state for note in plan.notes}
    preempted = {preempt.job_id for preempt in plan.preempts}
    started: list[Running] = []
    kept = {one.job_id: one for one in snapshot.reservations if one.job_id not in plan.drops}
    for place in plan.places:
        kept.pop(place.job_id, None)
        if place.job_id in preempted or place.job_id in awaiting or blocking_jobs(snapshot, place):
            until = snapshot.now + RESERVATION_S
            kept[place.job_id] = Reservation(place.job_id, place.allocations, until, given=place.given)
        else:
            started.append(_start(snapshot.now, _noted(snapshot.waiting_by_id[place.job_id], notes), place))
    gone = {attempt.job.id for attempt in started}
    running = [
        replace(
            attempt,
            job=_noted(attempt.job, notes),
            state=AttemptState.STOPPING if attempt.job.id in preempted else attempt.state,
        )
        for attempt in snapshot.running
    ]
    return replace(
        snapshot,
        waiting=tuple(_noted(job, notes) for job in snapshot.waiting if job.id not in gone),
        running=tuple(sorted([*running, *started], key=lambda attempt: attempt.attempt_id)),
        pool_state=plan.pool_state or snapshot.pool_state,
        reservations=tuple(sorted(kept.values(), key=lambda reservation: reservation.job_id)),
    )


def release(snapshot: Snapshot, job_ids: Iterable[int]) -> Snapshot:
    """The snapshot after the attempts of these jobs have ended; the jobs wait again."""
    gone = set(job_ids)
    back = [requeued(attempt, snapshot.now) for attempt in snapshot.running if attempt.job.id in gone]
    return replace(
        snapshot,
        waiting=tuple(sorted([*snapshot.waiting, *back], key=lambda job: job.id)),
        running=tuple(attempt for attempt in snapshot.running if attempt.job.id not in gone),
    )


def requeued(attempt: Running, now: float) -> Job:
    """The job of a preempted attempt that ends now, back in the queue with its service and progress."""
    return replace(
        attempt.job,
        attained_gpu_s=attempt.attained_gpu_s(now),
        ran_s=attempt.ran_s(now),
        remaining_s=attempt.remaining_s(now) if attempt.job.checkpoints else attempt.job.expected_s,
        requeued_at=now,
    )


def _share(view: View, job_id: int, holder: int, gpu_id: int) -> bool:
    job, gpu = view.waiting_by_id.get(job_id), view.gpu_by_id.get(gpu_id)
    return job is not None and gpu is not None and may_share(gpu, [job, view.running_by_job[holder].job])


def _noted(job: Job, notes: Mapping[int, Mapping[str, float]]) -> Job:
    return replace(job, policy_state=notes[job.id]) if job.id in notes else job


def _start(now: float, job: Job, place: Place) -> Running:
    return Running(
        attempt_id=-job.id,
        job=job,
        state=AttemptState.PLACED,
        allocations=place.allocations,
        placed_at=now,
        given=place.given,
    )
