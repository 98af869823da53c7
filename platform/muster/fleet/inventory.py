"""Taking over what an agent says its node has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F

from muster.common.errors import Conflict, Invalid
from muster.fleet.bars import bars_of
from muster.fleet.links import Scores
from muster.fleet.models import Gpu, GpuReading, Node

_BRANDS = {"nvidia", "tesla", "quadro", "geforce"}
_SERIES = {"rtx", "gtx", "titan"}


@dataclass(frozen=True, slots=True)
class ReportedGpu:
    index: int
    uuid: str
    model: str
    memory_mib: int
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """An agent's report about its node; `links` are scores by GPU index, see `muster.fleet.links`."""

    address: str
    cpus: int
    memory_mib: int
    labels: dict[str, str]
    single_user: bool
    details: dict[str, object]
    gpus: tuple[ReportedGpu, ...]
    links: Scores


def gpu_type_of(model: str) -> str:
    """The short name that jobs ask for: `NVIDIA A100-SXM4-80GB` is an A100, `NVIDIA GeForce RTX 4090` an RTX4090."""
    words = [word for word in re.split(r"[\s_]+", model.strip()) if word.lower() not in _BRANDS]
    if not words:
        return "GPU"
    if words[0].lower() in _SERIES and len(words) > 1:
        return (words[0] + words[1]).split("-")[0]
    return words[0].split("-")[0]


def store_inventory(node: Node, reported: Reported) -> bool:
    """Write what changed and return whether anything did; runs in its caller's transaction, with the node locked."""
    fields = {
        "cpus": reported.cpus,
        "memory_mib": reported.memory_mib,
        "labels": {**node.labels, **reported.labels},
        "single_user": reported.single_user,
        "inventory": reported.details,
        "links": reported.links,
        "barred": bars_of(reported.details, disk_full=node.disk_full_at is not None),
        # An address that an operator wrote is right; the agent's own view may be that of a private network.
        "address": node.address or reported.address,
    }
    changed = {name: value for name, value in fields.items() if getattr(node, name) != value}
    gpus_changed = _store_gpus(node, reported.gpus)
    if not changed and not gpus_changed:
        return False
    Node.objects.filter(pk=node.pk).update(version=F("version") + 1, **changed)
    for name, value in changed.items():
        setattr(node, name, value)
    return True


def _store_gpus(node: Node, gpus: Iterable[ReportedGpu]) -> bool:
    reported = {gpu.uuid: gpu for gpu in gpus}
    if len({gpu.index for gpu in reported.values()}) < len(reported):
        raise Invalid.field("inventory.gpus", "two GPUs have the same index")
    elsewhere = Gpu.objects.filter(uuid__in=reported, present=True).exclude(node=node).select_related("node").first()
    if elsewhere:
        raise Conflict(f"GPU {elsewhere.uuid} belongs to node {elsewhere.node.name}, which still has it")
    known = {gpu.uuid: gpu for gpu in Gpu.objects.filter(uuid__in=reported) | Gpu.objects.filter(node=node)}
    gone = [gpu.pk for uuid, gpu in known.items() if uuid not in reported and gpu.present]
    # First those that went, and those that moved, so that their indexes are free for those that come.
    changed = bool(Gpu.objects.filter(pk__in=gone).update(present=False))
    moved = [gpu.pk for uuid, gpu in known.items() if uuid in reported and gpu.index != reported[uuid].index]
    Gpu.objects.filter(pk__in=moved).update(present=False)
    for uuid, gpu in reported.items():
        fields = {
            "node_id": node.pk,
            "index": gpu.index,
            "type": gpu_type_of(gpu.model),
            "model": gpu.model[:120],
            "memory_mib": gpu.memory_mib,
            "numa_node": gpu.numa_node,
            "present": True,
        }
        old = known.get(uuid)
        if old is None:
            row = Gpu.objects.create(uuid=uuid, **fields)
            GpuReading.objects.create(gpu=row)
            changed = True
        elif any(getattr(old, name) != value for name, value in fields.items()):
            Gpu.objects.filter(pk=old.pk).update(**fields)
            changed = True
    return changed
