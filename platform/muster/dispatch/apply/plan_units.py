"""Splits a plan into units that are applied as a whole, and batches them by transaction. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduler.model import View
from scheduler.model.invariants import PlanValidator, awaits_preemption
from scheduler.model.plan import Place, Plan, Preempt

# Keeps a transaction short, because others wait for its locks.
MAX_UNITS_PER_BATCH, MAX_ALLOCATIONS_PER_BATCH = 16, 64


@dataclass(frozen=True, slots=True)
class Unit:
    """Placements and preemptions that are applied together or not at all."""

    places: tuple[Place, ...]
    preempts: tuple[Preempt, ...] = ()

    @property
    def plan(self) -> Plan:
        """The unit as a plan of its own, for validation."""
        return Plan(self.places, (), preempts=self.preempts)


def units_of(view: View, plan: Plan, admission: PlanValidator) -> list[Unit]:
    """The units of a valid plan, in the order in which they are applied.

    1. A job that can start while all others still run is a unit alone.
    2. Any other job goes together with the victims whose GPUs, node resources or quota it may need. Jobs that need the
       same victim share a unit.
    3. A preempted job that only leaves shared GPUs to the job beside it is a unit alone.
    """
    waits = awaits_preemption(view, plan, admission)
    alone = [Unit((place,)) for place in plan.places if place.job_id not in waits]
    groups: list[tuple[set[int], list[Place]]] = []  # ids of the stopping jobs, and the placements that need them
    for place in plan.places:
        if place.job_id not in waits:
            continue
        needed, places = _needed(view, plan.preempts, place), [place]
        for group in [group for group in groups if group[0] & needed]:
            groups.remove(group)
            needed, places = needed | group[0], [*group[1], *places]
        groups.append((needed, places))
    together = [
        Unit(tuple(places), tuple(one for one in plan.preempts if one.job_id in needed)) for needed, places in groups
    ]
    gone = {preempt.job_id for unit in together for preempt in unit.preempts}
    return [*alone, *together, *(Unit((), (one,)) for one in plan.preempts if one.job_id not in gone)]


def batches_of(view: View, units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """The units in batches; each batch is one transaction.

    1. Units that need only free resources are batched, up to a limit. Units of one virtual cluster follow each other,
       so that each batch reads the usage of few virtual clusters under lock.
    2. A unit with victims has a transaction of its own.
    """
    lone = [unit for unit in units if not unit.preempts]
    by_vc: dict[int | None, list[Unit]] = {}
    for unit in lone:
        job = view.waiting_by_id.get(unit.places[0].job_id)
        by_vc.setdefault(job.vc_id if job else None, []).append(unit)
    batch: list[Unit] = []
    size = 0
    for unit in (unit for those in by_vc.values() for unit in those):
        allocations = sum(len(place.allocations) for place in unit.places)
        if batch and (len(batch) == MAX_UNITS_PER_BATCH or size + allocations > MAX_ALLOCATIONS_PER_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(unit)
        size += allocations
    if batch:
        yield batch
    for unit in units:
        if unit.preempts:
            yield [unit]


def _needed(view: View, preempts: Iterable[Preempt], place: Place) -> set[int]:
    """The ids of the stopping jobs whose resources the placement may need."""
    mover = view.running_by_job.get(place.job_id)
    job = view.waiting_by_id.get(place.job_id) or (mover.job if mover else None)
    gpu_ids = {gpu_id for share in place.allocations for gpu_id in share.gpu_ids}
    node_ids = {share.node_id for share in place.allocations}
    found = set()
    for preempt in preempts:
        run = view.running_by_job[preempt.job_id]
        if (
            preempt.for_job_id == place.job_id
            or (job is not None and run.job.vc_id == job.vc_id)
            or any(share.node_id in node_ids or gpu_ids & set(share.gpu_ids) for share in run.allocations)
        ):
            found.add(preempt.job_id)
    return found
