"""What a cycle wants: a plan of places, preemptions and holds, and a pure model of carrying it out.

A plan is a wish. The applier looks again under lock and may refuse any place of it.

A job that is moved or resized is preempted and placed in one plan. A place may name GPUs that others still hold, if the
same plan preempts them or they stop already: then it is kept for the job as a `Reservation`, and the next cycles place
the job there once they are free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.model import AllocationView, Job, Reservation, Running, Snapshot, View
from scheduler.model.codec import from_json, to_json
from scheduler.model.lifecycle import AttemptState, HoldReason
from scheduler.model.sharing import may_share

Evidence = Mapping[str, int | float | str]

# These of the evidence are moments, in seconds since 1970.
MOMENTS = frozenset({"again_at", "eligible_at", "starts_by"})

# Waiting does not help against these, so nobody waits behind a job that is held for them.
UNSCHEDULABLE = frozenset({HoldReason.INFEASIBLE, HoldReason.QUOTA_TOO_SMALL})

# How long GPUs are kept for a job while their holders stop; the longest grace that a spec may ask for is shorter.
RESERVATION_S = 3900.0


@dataclass(frozen=True, slots=True)
class Place:
    """Start a job: the whole gang at once, one allocation for each rank."""

    job_id: int
    allocations: tuple[AllocationView, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a job that runs, with its grace, and queue it again; `for_job_id` is whom its GPUs go to.

    A job that is moved or resized is preempted for itself. Of two that share GPUs one can be preempted for the other,
    which has them alone from then on, and is not placed.
    """

    job_id: int
    for_job_id: int
    detail: str


@dataclass(frozen=True, slots=True)
class Note:
    """What the policy wants to be told of a job in the next snapshot: its new `memo`."""

    job_id: int
    memo: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a job cannot start now: one dominant reason, a sentence with numbers, the numbers, and what would help.

    `wanted` GPUs of a type must become free for the job, as the sentence `once_free` says. That helps a job only if no
    job ahead of it takes these GPUs, so it is apart from `helps`, which hold in any case.
    """

    reason: HoldReason
    detail: str
    evidence: Evidence
    helps: tuple[str, ...]
    wanted: int = 0
    once_free: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Let a job wait, and tell its owner why.

    `position` counts from 1 through the jobs of its virtual cluster that still wait once the plan is carried out.
    """

    job_id: int
    reason: HoldReason
    detail: str
    evidence: Evidence
    helps: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one cycle decided: each job that waited is placed or held.

    `drops` are the ids of the jobs for which nothing is kept any longer.
    """

    places: tuple[Place, ...]
    holds: tuple[Hold, ...]
    preempts: tuple[Preempt, ...] = ()
    notes: tuple[Note, ...] = ()
    drops: tuple[int, ...] = ()


def taken_by(view: View, place: Place) -> frozenset[int]:
    """The ids of the other jobs whose live attempts still hold GPUs of the place that they would have to leave."""
    return frozenset(
        holder
        for share in place.allocations
        for gpu_id in share.gpu_ids
        for holder in view.holders_of_gpu.get(gpu_id, ())
        if not _share(view, place.job_id, holder, gpu_id)
    )


def apply(snapshot: Snapshot, plan: Plan, *, awaiting: Collection[int] = ()) -> Snapshot:
    """The snapshot after all of a lawful plan went through; no time passes, so whoever stops has not stopped yet.

    `awaiting` holds the ids that `invariants.awaits_preemption` returned.

    Real attempt ids are the database's to give. Here the attempt of job 7 is -7, which no other attempt has: a job has
    one live attempt at most.
    """
    notes = {note.job_id: note.memo for note in plan.notes}
    preempted = {preempt.job_id for preempt in plan.preempts}
    started: list[Running] = []
    kept = {one.job_id: one for one in snapshot.reservations if one.job_id not in plan.drops}
    for place in plan.places:
        kept.pop(place.job_id, None)
        if place.job_id in preempted or place.job_id in awaiting or taken_by(snapshot, place):
            kept[place.job_id] = Reservation(place.job_id, place.allocations, snapshot.now + RESERVATION_S)
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
        reservations=tuple(sorted(kept.values(), key=lambda reservation: reservation.job_id)),
    )


def release(snapshot: Snapshot, job_ids: Iterable[int]) -> Snapshot:
    """The snapshot once the preempted attempts of these jobs have let go of everything; their jobs wait again."""
    gone = set(job_ids)
    back = [requeued(attempt, snapshot.now) for attempt in snapshot.running if attempt.job.id in gone]
    return replace(
        snapshot,
        waiting=tuple(sorted([*snapshot.waiting, *back], key=lambda job: job.id)),
        running=tuple(attempt for attempt in snapshot.running if attempt.job.id not in gone),
    )


def requeued(attempt: Running, now: float) -> Job:
    """The job of an attempt that ends now and left its work for another one, with what it has had on its account."""
    return replace(
        attempt.job,
        attained_gpu_s=attempt.attained_gpu_s(now),
        ran_s=attempt.ran_s(now),
        remaining_s=attempt.remaining_s(now) if attempt.job.checkpoints else attempt.job.expected_s,
        requeued_at=now,
    )


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values; equal plans give equal values."""
    return to_json(plan)


def plan_from_dict(data: object) -> Plan:
    """The plan that `plan_to_dict` made `data` from."""
    return from_json(Plan, data)


def _share(view: View, job_id: int, holder: int, gpu_id: int) -> bool:
    job, gpu = view.waiting_by_id.get(job_id), view.gpu_by_id.get(gpu_id)
    return job is not None and gpu is not None and may_share(gpu, [job, view.running_by_job[holder].job])


def _noted(job: Job, notes: Mapping[int, Mapping[str, float]]) -> Job:
    return replace(job, memo=notes[job.id]) if job.id in notes else job


def _start(now: float, job: Job, place: Place) -> Running:
    return Running(
        attempt_id=-job.id,
        job=job,
        state=AttemptState.PLACED,
        allocations=place.allocations,
        placed_at=now,
    )
