"""What a screening pool has for trials just now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, Value, When

from muster.fleet.models import Gpu, Pool
from muster.jobs.demand import Demand, stored_trial, trial_demand
from muster.jobs.models import GpuClaim, Job, ReservedGpu
from muster.jobs.requests import gpu_type_of
from scheduler.diagnosis.screening import Shape, part_of, shape_for
from scheduler.model.lifecycle import NodeAdmin, NodeHealth

Counts = dict[int, int]


@dataclass(slots=True)
class Room:
    """For each type of GPU, how many each node has that could be used, and how many of these are free."""

    usable: dict[str, Counts] = field(default_factory=dict)
    free: dict[str, Counts] = field(default_factory=dict)

    def type_for(self, wanted: str) -> str | None:
        """The wanted type, or where there is none of it that of which most are free; None: there is no GPU."""
        if wanted in self.usable:
            return wanted
        kinds = sorted(self.usable, key=lambda kind: (-sum(self.free[kind].values()), kind))
        return kinds[0] if kinds else None

    def shape_for(self, job: Job, *, kind: str, world: int) -> tuple[Shape | None, bool]:
        """How the job is tried on GPUs of that type, and whether these are free; those that are, are taken."""
        asked = {"nodes": job.request.nodes, "gpus": job.request.first.gpus, "world": world}
        free = self.free[kind]
        shape = shape_for(**asked, free=list(free.values()))
        if shape is None:
            return shape_for(**asked, free=list(self.usable[kind].values())), False
        _take(free, shape)
        return shape, True


def room_of(pool: Pool) -> Room:
    """The room in the pool; GPUs that are kept for others are not free."""
    claimed = Exists(GpuClaim.objects.filter(gpu=OuterRef("pk"), released_at__isnull=True))
    kept = Exists(ReservedGpu.objects.filter(gpu=OuterRef("pk")))
    usable = Q(node__admin=NodeAdmin.ACTIVE, node__health=NodeHealth.READY, node__barred="", healthy=True, present=True)
    taken = Case(When(claimed | kept, then=Value(True)), default=Value(False), output_field=BooleanField())
    rows = Gpu.objects.filter(usable, node__pool=pool).values_list("type", "node_id", taken)
    room, everything, free = Room(), Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for kind, node_id, is_taken in rows:
        everything[kind, node_id] += 1
        free[kind, node_id] += not is_taken
    for (kind, node_id), count in sorted(everything.items()):
        room.usable.setdefault(kind, {})[node_id] = count
        room.free.setdefault(kind, {})[node_id] = free[kind, node_id]
    return room


def trial_of(job: Job, shape: Shape, *, kind: str, limit_s: float, waits: Mapping[str, float]) -> dict[str, object]:
    """The trial of the job in that shape, as the job stores it; `waits` says since when and until when it may wait."""
    limits = [one for one in (limit_s, job.time_limit_s) if one is not None]
    choice = job.request.first
    demand = Demand(
        nodes=shape.nodes,
        gpus=shape.gpus,
        cpus=part_of(choice.cpus, gpus=shape.gpus, of=choice.gpus),
        memory_mib=part_of(choice.memory_mib, gpus=shape.gpus, of=choice.gpus),
        gpu_type=kind if kind == gpu_type_of(job.request) else "",
        time_limit_s=min(limits),
    )
    return stored_trial(demand, **waits)


def fitted(jobs: Iterable[Job], room: Room) -> dict[int, dict[str, object]]:
    """The trials of those waiting jobs that had better have another shape, by what is free when their turn comes.

    Where nothing is free, and for what the type of GPU that it waits for is gone, all stays as it is.
    """
    changed = {}
    for job in jobs:
        trial = job.trial or {}
        kind = room.type_for(gpu_type_of(job.request))
        if kind is None:
            continue
        shape, free = room.shape_for(job, kind=kind, world=trial["world"])
        if shape is None or not free:
            continue
        before = trial_demand(trial)
        waits = {name: trial[name] for name in ("world", "since", "until")}
        after = trial_of(job, shape, kind=kind, limit_s=before.time_limit_s or 0.0, waits=waits)
        if trial_demand(after) != before:
            changed[job.pk] = after
    return changed


def _take(free: Counts, shape: Shape) -> None:
    """Take the GPUs of the shape from the nodes that have most."""
    for node_id in sorted(free, key=lambda node_id: (-free[node_id], node_id))[: shape.nodes]:
        free[node_id] -= shape.gpus
