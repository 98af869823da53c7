"""The partitions of a user and their nodes, as `sinfo` shows them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from muster.accounts.models import User
from muster.events.models import Event
from muster.fleet.models import Gpu, Node
from muster.jobs.models import Allocation, GpuClaim, ReservedGpu
from muster.sbatch.services import site_of
from muster.sbatch.site import Partition
from muster.slurm.sinfo.states import NodeState, state_of
from scheduler.model.lifecycle import AllocationState, NodeAdmin

_TAKEN_OUT = ("node.cordoned", "node.draining", "node.down", "node.declared_gone")


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node with what jobs have of it."""

    name: str
    state: NodeState
    cpus: int = 0
    cpus_held: int = 0
    memory_mib: int = 0
    memory_held_mib: int = 0
    disk_mib: int = 0
    gpus: tuple[tuple[str, int], ...] = ()
    """The number of each type."""
    gpus_held: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The indices that jobs have, by type."""
    features: tuple[str, ...] = ()
    address: str = ""
    version: str = ""
    reason: str = ""
    reason_by: str = ""
    reason_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A partition with its nodes."""

    partition: Partition
    default: bool
    nodes: tuple[NodeLine, ...]


def places_of(user: User) -> list[Place]:
    """The partitions in which the user may run jobs, the default one first; the same few queries for any number."""
    partitions = list(site_of(user).partitions.values())
    features = {node.name: _once(node.features) for part in partitions for node in part.nodes}
    lines = _lines(features)
    return [
        Place(part, place == 0, tuple(lines[node.name] for node in part.nodes if node.name in lines))
        for place, part in enumerate(partitions)
    ]


def _once(features: Collection[str]) -> tuple[str, ...]:
    """The features in order; of the spellings of a GPU type only the one in small letters."""
    return tuple(sorted(name for name in features if name == name.lower() or name.lower() not in features))


def _lines(features: Mapping[str, tuple[str, ...]]) -> dict[str, NodeLine]:
    """The nodes by name, each with its features."""
    rows = Node.objects.filter(name__in=features).exclude(admin=NodeAdmin.RETIRED).select_related("disk")
    nodes = list(rows.defer("inventory", "links"))
    held = Allocation.objects.exclude(state=AllocationState.RELEASED).filter(node__in=nodes).values_list("node_id")
    used = {pk: sizes for pk, *sizes in held.annotate(cpus=Sum("cpus"), memory_mib=Sum("memory_mib"))}
    gpus: dict[int, Counter[str]] = defaultdict(Counter)
    for pk, kind in Gpu.objects.filter(node__in=nodes, present=True).values_list("node_id", "type"):
        gpus[pk][kind.lower()] += 1
    claimed = _claimed([node.pk for node in nodes])
    kept = set(ReservedGpu.objects.filter(gpu__node__in=nodes).values_list("gpu__node_id", flat=True))
    taken_out = _taken_out([node.pk for node in nodes])
    found = {}
    for node in nodes:
        cpus_held, memory_held_mib = used.get(node.pk, (0, 0))
        state = state_of(
            admin=node.admin,
            health=node.health,
            barred=bool(node.barred),
            cpus=node.cpus,
            cpus_held=cpus_held,
            holds=node.pk in used,
            planned=node.pk in kept,
        )
        reason = node.gone_why or node.reason or node.barred
        by, at = taken_out.get(node.pk, ("", None)) if state.drain or not state.usable else ("", None)
        found[node.name] = NodeLine(
            name=node.name,
            state=state,
            cpus=node.cpus,
            cpus_held=cpus_held,
            memory_mib=node.memory_mib,
            memory_held_mib=memory_held_mib,
            disk_mib=node.disk.size_mib if hasattr(node, "disk") else 0,
            gpus=tuple(sorted(gpus[node.pk].items())),
            gpus_held=claimed.get(node.pk, ()),
            features=features[node.name],
            address=node.address or node.name,
            version=node.agent_version,
            reason=reason or ("Not responding" if not state.usable else ""),
            reason_by=by,
            reason_at=at,
        )
    return found


def _claimed(nodes: Collection[int]) -> dict[int, tuple[tuple[str, tuple[int, ...]], ...]]:
    """The indices of GPUs that jobs have, by node and type."""
    found: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    claims = GpuClaim.objects.filter(released_at__isnull=True, gpu__node__in=nodes)
    for node_id, kind, index in claims.values_list("gpu__node_id", "gpu__type", "gpu__index"):
        found[node_id][kind.lower()].add(index)
    return {
        node_id: tuple((kind, tuple(sorted(indices))) for kind, indices in sorted(kinds.items()))
        for node_id, kinds in found.items()
    }


def _taken_out(nodes: Collection[int]) -> dict[int, tuple[str, datetime]]:
    """By whom and when each node was last taken out of service, as far as it was."""
    events = Event.objects.filter(node_id__in=nodes, kind__in=_TAKEN_OUT)
    rows = events.order_by("node_id", "-id").distinct("node_id").values_list("node_id", "actor", "at")
    return {node_id: (actor, at) for node_id, actor, at in rows if node_id is not None}
