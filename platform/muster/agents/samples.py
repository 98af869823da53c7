"""Taking over what an agent measured: the newest reading of each GPU, samples of GPUs, jobs and the host, and how far
jobs are.

An agent speaks of its own node only: a GPU that is not the node's, and an allocation that is not held there under this
fence, are passed over.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict

from muster.common.models import DatabaseNow
from muster.fleet.models import Gpu, GpuReading, Node
from muster.jobs.models import Allocation, GpuClaim
from muster.samples.families import GPU, HOST, RANK
from muster.samples.speeds import keep_speeds
from muster.samples.store import Values, add, sound
from nodeagent.protocol import GpuSample, HostSample, SyncRequest, UsageSample
from scheduler.lifecycle import AllocationState

_READING = ("utilization", "memory_used_mib", "power_w", "temperature_c")
_MOST_PROCESSES = (1 << 31) - 1


def store_samples(node: Node, request: SyncRequest) -> None:
    """Store what a message brought; a message without samples costs nothing."""
    if request.gpus:
        _store_gpus(node, request.gpus)
    if request.usage:
        _store_usage(node, request.usage)
    if request.host is not None:
        _store_host(node, request.host)


def _store_gpus(node: Node, samples: tuple[GpuSample, ...]) -> None:
    ids = dict(Gpu.objects.filter(node=node, present=True).values_list("uuid", "pk"))
    # Of a GPU that is named twice the last counts: one statement cannot write a row twice.
    found: dict[int, Values] = {
        ids[sample.uuid]: sound(GPU, asdict(sample), where=f"{node.name}.gpus[{position}]")
        for position, sample in enumerate(samples)
        if sample.uuid in ids
    }
    _keep_newest(found)
    holders = _holders(node) if found else {}
    add(GPU, {(gpu_id, holder): values for gpu_id, values in found.items() for holder in holders.get(gpu_id, [0])})


def _keep_newest(found: dict[int, Values]) -> None:
    readings = [
        GpuReading(
            gpu_id=gpu_id,
            at=DatabaseNow(),
            processes=min(int(values["processes"] or 0), _MOST_PROCESSES),
            **{name: values[name] for name in _READING},
        )
        for gpu_id, values in sorted(found.items())
    ]
    GpuReading.objects.bulk_create(
        readings, update_conflicts=True, unique_fields=["gpu"], update_fields=["at", "processes", *_READING]
    )


def _holders(node: Node) -> dict[int, list[int]]:
    """The allocations that hold each GPU of the node; several where jobs share it."""
    claims = GpuClaim.objects.filter(allocation__node=node, released_at__isnull=True)
    claims = claims.exclude(allocation__state=AllocationState.RELEASED)  # the index of what a node holds knows no other
    found: dict[int, list[int]] = defaultdict(list)
    for gpu_id, allocation_id in claims.values_list("gpu_id", "allocation_id").distinct():
        found[gpu_id].append(allocation_id)
    return found


def _store_usage(node: Node, samples: tuple[UsageSample, ...]) -> None:
    held = Allocation.objects.filter(node=node).exclude(state=AllocationState.RELEASED)
    fences = dict(held.values_list("pk", "attempt_id"))
    own = [(position, sample) for position, sample in enumerate(samples) if fences.get(sample.id) == sample.fence]
    add(
        RANK,
        {(sample.id,): sound(RANK, asdict(sample), where=f"{node.name}.usage[{position}]") for position, sample in own},
    )
    keep_speeds({sample.id: sample.progress for _, sample in own if sample.progress is not None})


def _store_host(node: Node, sample: HostSample) -> None:
    add(HOST, {(node.pk,): sound(HOST, asdict(sample), where=f"{node.name}.host")})
