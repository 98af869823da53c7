"""The present room of a screening pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, Value, When

from muster.fleet.models import Gpu, Pool
from muster.jobs.attempt.runs import ScreeningRun, screening_run_of
from muster.jobs.models import GpuClaim, Job, ReservedGpu
from scheduler.diagnosis.screening import Shape, part_of, shape_for
from scheduler.model.lifecycle import NodeAdmin, NodeHealth
from scheduler.model.request import Choice, Request

Counts = dict[int, int]


@dataclass(slots=True)
class Room:
    """For each type of GPU, how many each node has that could be used, and how many of these are free."""

    usable: dict[str, Counts] = field(default_factory=dict)
    free: dict[str, Counts] = field(default_factory=dict)

    def type_for(self, request: Request) -> str | None:
        """The first named type that is there, else that of which most are free; None: there is no GPU."""
        named = next((kind for kind in request.gpu_types if kind in self.usable), None)
        if named is not None:
            return named
        kinds = sorted(self.usable, key=lambda kind: (-sum(self.free[kind].values()), kind))
        return kinds[0] if kinds else None

    def shape_for(self, job: Job, *, kind: str, world: int) -> tuple[Shape | None, bool]:
        """On which GPUs of that type the job is screened, and whether these are free; those that are, are taken."""
        asked = {"nodes": job.request.nodes, "gpus": choice_for(job, kind).gpus, "world": world}
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


def screening_run_for(
    job: Job,
    shape: Shape,
    *,
    kind: str | None,
    whole: Choice,
    window_s: float,
    world: int,
    since: float,
    until: float,
) -> ScreeningRun:
    """The screening run of the job in that shape, with its part of the CPUs and the memory of `whole`."""
    part = Choice(
        gpu_type=kind if kind in job.request.gpu_types else None,
        gpus=shape.gpus,
        cpus=part_of(whole.cpus, gpus=shape.gpus, of=whole.gpus),
        memory_mib=part_of(whole.memory_mib, gpus=shape.gpus, of=whole.gpus),
    )
    return ScreeningRun(
        # What names nodes of the job's own pool, or asks for more than one place for a gang, is not asked here.
        request=Request(choices=(part,), nodes=shape.nodes, runtime=job.request.runtime),
        time_limit_s=min(limit for limit in (window_s, job.time_limit_s) if limit is not None),
        world=world,
        since=since,
        until=until,
    )


def fitted(jobs: Iterable[Job], room: Room) -> dict[int, ScreeningRun]:
    """The screening runs of those waiting jobs that fit better in another shape, by what is free in their turn."""
    changed = {}
    for job in jobs:
        run, kind = screening_run_of(job), room.type_for(job.request)
        if run is None or kind is None:
            continue
        shape, free = room.shape_for(job, kind=kind, world=run.world)
        if shape is None or not free:
            continue
        after = reshaped(job, run, shape, kind=kind)
        if after != run:
            changed[job.pk] = after
    return changed


def reshaped(job: Job, run: ScreeningRun, shape: Shape, *, kind: str | None) -> ScreeningRun:
    """The screening run in another shape; its CPUs and memory for each GPU, and how long it may wait and run, stay."""
    whole = run.request.resized(run.request.first, choice_for(job, kind).gpus)
    run_s, since, until = run.time_limit_s, run.since, run.until
    return screening_run_for(
        job, shape, kind=kind, whole=whole, window_s=run_s, world=run.world, since=since, until=until
    )


def choice_for(job: Job, kind: str | None) -> Choice:
    """The choice that the screening run belongs to: the job's choice for this GPU type, else its preferred one."""
    request: Request = job.request
    return request.choice_of(kind) or request.first


def _take(free: Counts, shape: Shape) -> None:
    """Take the GPUs of the shape from the nodes that have most."""
    for node_id in sorted(free, key=lambda node_id: (-free[node_id], node_id))[: shape.nodes]:
        free[node_id] -= shape.gpus
