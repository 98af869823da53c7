"""The total capacity of a pool, in service or not, and the demands that it can ever meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from scheduler.model import Locality, Node, View
from scheduler.model.eligibility import can_start, forbidden_by
from scheduler.model.lifecycle import HoldReason, RuntimeNeed
from scheduler.model.plan import Denial
from scheduler.placement import named, words
from scheduler.placement.demand import Demand, demand_of

T = TypeVar("T")


class Capacity:
    """The totals of a pool, and why an infeasible demand can never be met."""

    def __init__(self, view: View, nodes: Sequence[Node] | None = None) -> None:
        self._view = view
        self._nodes = nodes = tuple(view.nodes) if nodes is None else nodes
        self._parts: dict[Hashable, Capacity] = {}
        self.nodes = len(nodes)
        self.gpus: Counter[str] = Counter(gpu.type for node in nodes for gpu in node.gpus)
        self.gpus_in_service: Counter[str] = Counter(
            gpu.type for node in nodes if node.schedulable for gpu in node.gpus if gpu.healthy
        )
        # Even a large pool has few kinds of nodes. By GPU type: (GPUs of the type, CPUs, MiB) -> number of nodes.
        self._kinds: dict[str | None, Counter[tuple[int, int, int]]] = {}
        for node in nodes:
            counts: dict[str | None, int] = {None: len(node.gpus), **Counter(gpu.type for gpu in node.gpus)}
            for gpu_type, gpus in counts.items():
                self._kinds.setdefault(gpu_type, Counter())[gpus, node.cpus, node.memory_mib] += 1
        self._racks: dict[str, list[Node]] = {}
        for node in nodes:
            self._racks.setdefault(node.rack, []).append(node)
        everything = self._kinds.get(None, Counter[tuple[int, int, int]]())
        self.cpus = sum(cpus * nodes for (_, cpus, _), nodes in everything.items())
        self.memory_mib = sum(memory_mib * nodes for (_, _, memory_mib), nodes in everything.items())
        self._verdicts: dict[Demand, Denial | None] = {}
        self.types: Sequence[str] = sorted(self.gpus)
        self._derived: dict[Hashable, Any] = {}

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The cached result of `compute`, which depends on nodes and virtual clusters only; policies choose the key."""
        if key not in self._derived:
            self._derived[key] = compute()
        found: T = self._derived[key]
        return found

    def largest(self, gpu_type: str | None) -> int:
        """The most GPUs of the type on one node; 0 without any."""
        return max((gpus for gpus, _, _ in self._kinds.get(gpu_type, ())), default=0)

    def infeasible(self, demand: Demand) -> Denial | None:
        """The reason that even the empty pool could not meet the demand; None if it could.

        In a pool without nodes every demand is feasible, because nodes may still join.
        """
        if demand not in self._verdicts:
            verdict = self._no_such_resource(demand)
            if verdict is None:
                verdict = self._of_named(demand) if demand.names_nodes else self._of_form(demand)
            self._verdicts[demand] = verdict
        return self._verdicts[demand]

    def _no_such_resource(self, demand: Demand) -> Denial | None:
        """The reason for lack of a generic resource of the request; no node declares any yet."""
        if not demand.request.resources:
            return None
        names = ", ".join(name for name, _ in demand.request.resources)
        return Denial(
            HoldReason.INFEASIBLE,
            f"no node of this pool has the generic resource {names}",
            words.evidence(demand),
            ("ask for no generic resources",),
        )

    def _part(self, key: Hashable, belongs: Callable[[Node], bool]) -> Capacity:
        """The capacity of some of the nodes."""
        if key not in self._parts:
            self._parts[key] = Capacity(self._view, [node for node in self._nodes if belongs(node)])
        return self._parts[key]

    def _of_named(self, demand: Demand) -> Denial | None:
        """The same, of the nodes that the job allows; a job that fits nowhere in the pool is told that."""
        unnamed = demand_of(demand.request.on_any_node, within=demand.within, closed=demand.closed)
        denial = self.infeasible(unnamed)
        if denial is not None or not self.nodes:
            return denial
        part = self._part(demand.request.narrowing, lambda node: forbidden_by(demand.request, node) is None)
        hosts = part._nodes_with(demand.gpu_type, demand.gpus, demand.cpus, demand.memory_mib)
        if (part.nodes if demand.divisible else hosts) < demand.nodes:
            others = {node.name: forbidden_by(demand.request, node) for node in self._nodes if _hosts(node, demand)}
            return named.infeasible(demand, hosts=hosts, others=others)
        denial = part.infeasible(unnamed)
        return denial and replace(denial, detail=f"counting the nodes that this job allows: {denial.detail}")

    def _of_form(self, demand: Demand) -> Denial | None:
        """As `infeasible`, for the nodes that meet the runtime need. Ineligible nodes count: maintenance ends."""
        if demand.runtime is RuntimeNeed.ANY:
            return self._infeasible(demand)
        part = self._part(demand.runtime, lambda node: can_start(node, demand.runtime))
        if self.nodes and not part.nodes:
            return _NOWHERE[demand.runtime](demand)
        denial = part._infeasible(demand)
        if denial is None or part.nodes == self.nodes:
            return denial
        return replace(
            denial, detail=f"counting the {words.nodes_meeting(part.nodes, demand.runtime)}: {denial.detail}"
        )

    def _infeasible(self, demand: Demand) -> Denial | None:
        if demand.divisible:
            return self._split_infeasible(demand)
        fitting = self._nodes_with(demand.gpu_type, demand.gpus, demand.cpus, demand.memory_mib)
        if fitting >= demand.nodes or not self.nodes:
            return self._too_far_apart(demand)
        largest = self.largest(demand.gpu_type)
        if demand.gpu_type is not None and not largest:
            return self._no_such_type(demand)
        if demand.gpus > largest:
            return Denial(
                HoldReason.INFEASIBLE,
                f"this job needs {demand.gpus} {demand.gpu_type} per node; the largest node of this pool has {largest}",
                words.evidence(demand, largest_node=largest),
                (f"ask for at most {largest} GPUs per node and for more nodes",),
            )
        asked, with_gpus = words.with_gpus(demand), self._nodes_with(demand.gpu_type, demand.gpus, 0, 0)
        if with_gpus < demand.nodes:
            return Denial(
                HoldReason.INFEASIBLE,
                f"this job needs {words.count(demand.nodes, 'node')}{asked}; this pool has {with_gpus}",
                words.evidence(demand, nodes_with_gpus=with_gpus),
                (f"ask for at most {words.count(with_gpus, 'node')}{asked}",),
            )
        return Denial(
            HoldReason.INFEASIBLE,
            f"of {words.count(with_gpus, 'node')}{asked}, {words.have(fitting)} {words.count(demand.cpus, 'CPU')} and "
            f"{words.memory(demand.memory_mib)} of memory; this job needs {words.count(demand.nodes, 'node')}",
            words.evidence(demand, nodes_with_gpus=with_gpus, fitting_nodes=fitting),
            ("ask for fewer CPUs or less memory per node",),
        )

    def _too_far_apart(self, demand: Demand) -> Denial | None:
        """The reason that the ranks fit the pool but not one node or rack; None if they do."""
        if demand.within is Locality.ANY or demand.nodes == 1 or not self.nodes:
            return None
        if demand.within is Locality.NODE:
            return Denial(
                HoldReason.INFEASIBLE,
                f"this job needs {demand.nodes} nodes and, by its locality, one node",
                words.evidence(demand),
                ("ask for 1 node", "set its locality to rack or any"),
            )
        most = max(sum(_hosts(node, demand) for node in rack) for rack in self._racks.values())
        if most >= demand.nodes:
            return None
        return Denial(
            HoldReason.INFEASIBLE,
            f"this job needs {demand.nodes} such nodes within one rack; the largest rack of this pool has {most}",
            words.evidence(demand, largest_rack=most),
            (f"ask for at most {words.count(most, 'node')}", "set its locality to any"),
        )

    def _split_infeasible(self, demand: Demand) -> Denial | None:
        """As `infeasible`, for a divisible lot."""
        kinds = self._kinds.get(demand.gpu_type, Counter[tuple[int, int, int]]())
        room = {kind: _room_for_split(kind, demand) for kind in kinds}
        if demand.within is Locality.NODE:
            most = max(room.values(), default=0)
        elif demand.within is Locality.RACK:
            most = max((sum(_room(node, demand) for node in rack) for rack in self._racks.values()), default=0)
        else:
            most = sum(room[kind] * nodes for kind, nodes in kinds.items())
        if most >= demand.gpus or not self.nodes:
            return None
        if demand.gpu_type is not None and not kinds:
            return self._no_such_type(demand)
        where = "in this pool" if demand.within is Locality.ANY else f"within one {demand.within}"
        return Denial(
            HoldReason.INFEASIBLE,
            f"this job needs {demand.gpus} {demand.gpu_type} {where}; at most {most} are possible",
            words.evidence(demand, at_most=most),
            (f"ask for at most {most} GPUs",),
        )

    def _no_such_type(self, demand: Demand) -> Denial:
        if not self.gpus:
            detail, helps = "this pool has no GPUs", "use a virtual cluster of another pool"
        else:
            detail, helps = f"no node of this pool has {demand.gpu_type}", f"ask for {' or '.join(self.types)}"
        return Denial(HoldReason.INFEASIBLE, detail, words.evidence(demand, fitting_nodes=0), (helps,))

    def _nodes_with(self, gpu_type: str | None, gpus: int, cpus: int, memory_mib: int) -> int:
        kinds = self._kinds.get(gpu_type, Counter[tuple[int, int, int]]())
        return sum(n for kind, n in kinds.items() if kind[0] >= gpus and kind[1] >= cpus and kind[2] >= memory_mib)


def _nowhere(detail: str, *helps: str) -> Callable[[Demand], Denial]:
    return lambda demand: Denial(HoldReason.INFEASIBLE, detail, words.evidence(demand, fitting_nodes=0), helps)


_NOWHERE: Mapping[RuntimeNeed, Callable[[Demand], Denial]] = {
    RuntimeNeed.IMAGE: _nowhere(
        "no node of this pool runs containers, and this job names an image",
        "submit it without image",
        "use a virtual cluster of another pool",
    ),
    RuntimeNeed.PLAIN: _nowhere(
        "every node of this pool runs jobs in containers, and this job names no image", "submit it with an image"
    ),
    RuntimeNeed.CONTAINER: _nowhere(
        "no node of this pool has an image for jobs that name none, and this job asks for shm",
        "submit it with an image, or without shm",
    ),
    RuntimeNeed.IMAGE_VOLUMES: _nowhere(
        "no node of this pool mounts volumes, and this job asks for mounts",
        "submit it without mounts",
        "use a virtual cluster of another pool",
    ),
    RuntimeNeed.CONTAINER_VOLUMES: _nowhere(
        "no node of this pool mounts volumes for jobs without an image, and this job asks for mounts",
        "submit it with an image, or without mounts",
    ),
}


def _room_for_split(kind: tuple[int, int, int], demand: Demand) -> int:
    """The GPUs of a divisible lot that an empty node of this kind can host."""
    gpus, cpus, memory_mib = kind
    if demand.cpus:
        gpus = min(gpus, cpus // demand.cpus)
    if demand.memory_mib:
        gpus = min(gpus, memory_mib // demand.memory_mib)
    return gpus


def _room(node: Node, demand: Demand) -> int:
    return _room_for_split((_gpus(node, demand), node.cpus, node.memory_mib), demand)


def _hosts(node: Node, demand: Demand) -> bool:
    fits = node.cpus >= demand.cpus and node.memory_mib >= demand.memory_mib
    return fits and _gpus(node, demand) >= demand.gpus


def _gpus(node: Node, demand: Demand) -> int:
    return sum(demand.gpu_type is None or gpu.type == demand.gpu_type for gpu in node.gpus)
