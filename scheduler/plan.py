"""What a cycle wants: a plan of places and holds, and a pure model of carrying it out.

A plan is a wish. The applier looks again under lock and may refuse any place of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.codec import from_json, to_json
from scheduler.lifecycle import AttemptState, HoldReason
from scheduler.model import AllocationView, Job, Running, Snapshot

Evidence = Mapping[str, int | float | str]


@dataclass(frozen=True, slots=True)
class Place:
    """Start a job: the whole gang at once, one allocation for each rank."""

    job_id: int
    allocations: tuple[AllocationView, ...]


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a job cannot start now: one dominant reason, a sentence with numbers, the numbers, and what would help."""

    reason: HoldReason
    detail: str
    evidence: Evidence
    helps: tuple[str, ...]


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
    """What one cycle decided: each job that waited is in exactly one of the two."""

    places: tuple[Place, ...]
    holds: tuple[Hold, ...]


def apply(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot after every place of a lawful plan went through; no time passes.

    Real attempt ids are the database's to give. Here the attempt of job 7 is -7, which no other attempt has: a job has
    one live attempt at most.
    """
    placed = {place.job_id for place in plan.places}
    started = tuple(_start(snapshot.now, snapshot.waiting_by_id[place.job_id], place) for place in plan.places)
    return replace(
        snapshot,
        waiting=tuple(job for job in snapshot.waiting if job.id not in placed),
        running=tuple(sorted(snapshot.running + started, key=lambda attempt: attempt.attempt_id)),
    )


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values; equal plans give equal values."""
    return to_json(plan)


def plan_from_dict(data: object) -> Plan:
    """The plan that `plan_to_dict` made `data` from."""
    return from_json(Plan, data)


def _start(now: float, job: Job, place: Place) -> Running:
    return Running(
        attempt_id=-job.id,
        job_id=job.id,
        vc_id=job.vc_id,
        klass=job.klass,
        state=AttemptState.PLACED,
        allocations=place.allocations,
        placed_at=now,
    )
