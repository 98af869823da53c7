"""Why a demand does not fit: not into this pool at all, or not into what is free of it, in numbers and in words.

The answers hold for every placement that uses a node when it fits; they say what is missing, not where to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.lifecycle import HoldReason
from scheduler.model import Snapshot
from scheduler.placement.free import Demand, Free
from scheduler.plan import Denial


class Capacity:
    """What the nodes of a pool have in all, in service or not: the measure of what can ever run there."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.nodes = len(snapshot.nodes)
        self.total: Counter[str] = Counter(gpu.type for gpu in snapshot.gpu_by_id.values())
        self.in_service: Counter[str] = Counter(
            gpu.type for node in snapshot.nodes if node.schedulable for gpu in node.gpus if gpu.healthy
        )
        # A large pool has few kinds of nodes: (GPUs of the type, CPUs, MiB) -> how many nodes.
        self._kinds: dict[str | None, Counter[tuple[int, int, int]]] = {}
        for node in snapshot.nodes:
            counts: dict[str | None, int] = {None: len(node.gpus), **Counter(gpu.type for gpu in node.gpus)}
            for gpu_type, gpus in counts.items():
                self._kinds.setdefault(gpu_type, Counter())[gpus, node.cpus, node.memory_mib] += 1

    @property
    def types(self) -> Sequence[str]:
        """The GPU types of the pool, sorted."""
        return sorted(self.total)

    def nodes_with(self, gpu_type: str | None, gpus: int, cpus: int = 0, memory_mib: int = 0) -> int:
        """How many nodes have at least this."""
        kinds = self._kinds.get(gpu_type, Counter[tuple[int, int, int]]())
        return sum(n for kind, n in kinds.items() if kind[0] >= gpus and kind[1] >= cpus and kind[2] >= memory_mib)

    def most_gpus(self, gpu_type: str | None) -> int:
        """How many GPUs of the type the node with the most of them has."""
        return max((kind[0] for kind in self._kinds.get(gpu_type, ())), default=0)


def infeasible(capacity: Capacity, demand: Demand) -> Denial | None:
    """Why the pool could not meet the demand even if it were empty, or None when it could.

    A pool without any node is no reason: its nodes have yet to join.
    """
    fitting = capacity.nodes_with(demand.gpu_type, demand.gpus, demand.cpus, demand.memory_mib)
    if fitting >= demand.nodes or not capacity.nodes:
        return None
    evidence = {**_asked(demand), "fitting_nodes": fitting}
    largest = capacity.most_gpus(demand.gpu_type)
    if demand.gpu_type is not None and not largest:
        others = " or ".join(capacity.types)
        return Denial(
            HoldReason.INFEASIBLE,
            f"no node of this pool has {demand.gpu_type} GPUs",
            evidence,
            (f"ask for {others}",) if others else ("use a virtual cluster of another pool",),
        )
    if demand.gpus > largest:
        return Denial(
            HoldReason.INFEASIBLE,
            f"this job needs {demand.gpus} {demand.gpu_type} on each node; the largest node of this pool has {largest}",
            {**evidence, "largest_node": largest},
            (f"ask for at most {largest} GPUs per node, and for more nodes",),
        )
    with_gpus = capacity.nodes_with(demand.gpu_type, demand.gpus)
    if with_gpus < demand.nodes:
        return Denial(
            HoldReason.INFEASIBLE,
            f"this job needs {_nodes(demand.nodes)}{_gpus_each(demand)}; this pool has {with_gpus}",
            {**evidence, "nodes_with_gpus": with_gpus},
            (f"ask for at most {_nodes(with_gpus)}{_gpus_each(demand)}",),
        )
    return Denial(
        HoldReason.INFEASIBLE,
        f"this job needs {_nodes(demand.nodes)}{_gpus_each(demand)} and {_cpus_and_memory(demand)}; "
        f"this pool has {fitting or 'none'}",
        {**evidence, "nodes_with_gpus": with_gpus},
        ("ask for fewer CPUs or less memory per node",),
    )


def shortage(free: Free, capacity: Capacity, demand: Demand) -> Denial:
    """What is missing of the free part of the pool for a demand that does not fit into it now."""
    if not capacity.nodes:
        return Denial(HoldReason.NO_FREE_GPUS, "this pool has no nodes yet", _asked(demand), ("a node joins the pool",))
    if demand.gpu_type is None:
        return _cpu_or_memory(free, demand)
    if free.gpus(demand.gpu_type) < demand.gpus * demand.nodes:
        return _no_free_gpus(free, capacity, demand, demand.gpu_type)
    if free.nodes_with(demand.gpu_type, demand.gpus) < demand.nodes:
        return _fragmented(free, demand, demand.gpu_type)
    return _cpu_or_memory(free, demand)


def _no_free_gpus(free: Free, capacity: Capacity, demand: Demand, gpu_type: str) -> Denial:
    needed, left, total = demand.gpus * demand.nodes, free.gpus(gpu_type), capacity.total[gpu_type]
    out = total - capacity.in_service[gpu_type]
    resting = f" and {out} {'is' if out == 1 else 'are'} out of service" if out else ""
    helps = [f"{needed - left} more {gpu_type} come free"]
    if out:
        helps.append(f"an operator brings {gpu_type} back into service")
    return Denial(
        HoldReason.NO_FREE_GPUS,
        f"{left or 'none'} of the {total} {gpu_type} of this pool {'is' if left < 2 else 'are'} free{resting}; "
        f"this job needs {needed}",
        {**_asked(demand), "free": left, "total": total, "out_of_service": out},
        tuple(helps),
    )


def _fragmented(free: Free, demand: Demand, gpu_type: str) -> Denial:
    left, largest = free.gpus(gpu_type), free.most_on_one_node(gpu_type)
    enough = free.nodes_with(gpu_type, demand.gpus)
    helps = [f"{_nodes(demand.nodes - enough)} more with {demand.gpus} free {gpu_type}"]
    if largest < demand.gpus:
        helps.append(f"ask for fewer GPUs per node: the largest free node has {largest}")
    else:
        helps.append(f"ask for at most {_nodes(enough)}{_gpus_each(demand)}")
    return Denial(
        HoldReason.FRAGMENTED,
        f"{left} {gpu_type} are free, but {_nodes(enough) if enough else 'no node'} "
        f"{'have' if enough > 1 else 'has'} {demand.gpus} of them; this job needs {_nodes(demand.nodes)} that "
        f"{'do' if demand.nodes > 1 else 'does'}",
        {**_asked(demand), "free": left, "nodes_with_enough": enough, "largest_free_node": largest},
        tuple(helps),
    )


def _cpu_or_memory(free: Free, demand: Demand) -> Denial:
    """The demand would find its GPUs, but not enough CPUs or memory beside them."""
    nodes = list(free.by_fit(demand.gpu_type, demand.gpus))
    fitting = sum(node.cpus >= demand.cpus and node.memory_mib >= demand.memory_mib for node in nodes)
    helps = []
    if len(nodes) >= demand.nodes:
        # As many nodes as the job needs have this much: the most that it could ask for now.
        cpus = sorted((node.cpus for node in nodes), reverse=True)[demand.nodes - 1]
        memory_mib = sorted((node.memory_mib for node in nodes), reverse=True)[demand.nodes - 1]
        if cpus < demand.cpus:
            helps.append(f"ask for at most {_count(cpus, 'CPU')} per node")
        if memory_mib < demand.memory_mib:
            helps.append(f"ask for at most {_memory(memory_mib)} of memory per node")
    return Denial(
        HoldReason.CPU_OR_MEMORY,
        f"{_nodes(fitting) if fitting else 'no node'}{_gpus_each(demand)} free {'have' if fitting > 1 else 'has'} "
        f"{_cpus_and_memory(demand)} free; this job needs {_nodes(demand.nodes)}",
        {**_asked(demand), "nodes_with_gpus": len(nodes), "fitting_nodes": fitting},
        tuple(helps) or ("ask for fewer CPUs or less memory per node",),
    )


def _asked(demand: Demand) -> dict[str, int | float | str]:
    """The demand as evidence."""
    return {
        "gpu_type": demand.gpu_type or "",
        "gpus_per_node": demand.gpus,
        "nodes": demand.nodes,
        "cpus_per_node": demand.cpus,
        "memory_mib_per_node": demand.memory_mib,
    }


def _gpus_each(demand: Demand) -> str:
    return f" with {demand.gpus} {demand.gpu_type}" if demand.gpu_type else ""


def _cpus_and_memory(demand: Demand) -> str:
    return f"{_count(demand.cpus, 'CPU')} and {_memory(demand.memory_mib)}"


def _memory(memory_mib: int) -> str:
    return f"{memory_mib} MiB" if memory_mib % 1024 else f"{memory_mib // 1024} GiB"


def _nodes(count: int) -> str:
    return _count(count, "node")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
