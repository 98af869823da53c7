"""`gpus: {vram: 40GiB, count: 2}`: the GPU types of a pool whose memory is large enough."""

from __future__ import annotations

from django.db.models import Min

from muster.common.errors import Invalid
from muster.fleet.models import Gpu, Pool
from muster.jobs.spec.gpus import MAX_CHOICES, AnyOf, WithMemory
from muster.jobs.spec.spec import JobSpec
from muster.jobs.spec.units import parse_size_mib


def with_types(spec: JobSpec, pool: Pool) -> JobSpec:
    """The spec with GPU types in the place of a memory size, the smallest sufficient memory first; `Invalid` if no GPU
    of the pool has so much."""
    if not isinstance(spec.gpus, WithMemory):
        return spec
    asked_mib = parse_size_mib(spec.gpus.vram)
    memory = dict(Gpu.objects.filter(node__pool=pool).values_list("type").annotate(least=Min("memory_mib")))
    enough = sorted((mib, kind) for kind, mib in memory.items() if mib >= asked_mib)
    if not enough:
        largest = max(((mib, kind) for kind, mib in memory.items()), default=None)
        has = "no GPUs" if largest is None else f"at most {largest[0] / 1024:.4g}GiB ({largest[1]})"
        raise Invalid.field("gpus.vram", f"pool {pool.name} has {has}, not {spec.gpus.vram}")
    choices = [f"{kind}:{spec.gpus.count}" for _, kind in enough[:MAX_CHOICES]]
    return spec.model_copy(update={"gpus": AnyOf(any_of=choices)})
