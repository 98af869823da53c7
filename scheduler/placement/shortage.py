"""Reasons that a feasible demand does not fit the free resources of a pool, in numbers and in words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from scheduler.model import Locality
from scheduler.model.eligibility import OPEN, can_start, forbidden_by, utc_text
from scheduler.model.lifecycle import HoldReason
from scheduler.model.phrases import become_free
from scheduler.model.plan import Denial
from scheduler.placement import named, words
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode


class Shortage:
    """The shortages of a pool after the last place of a cycle. `free` must not change afterwards."""

    def __init__(self, free: Free, capacity: Capacity, now: float) -> None:
        self._free, self._capacity, self._now = free, capacity, now
        self._denials: dict[Demand, Denial] = {}
        self._rooms: dict[tuple[str | None, int], tuple[list[int], list[int]]] = {}

    def of(self, demand: Demand) -> Denial:
        """The reason that a demand which the empty pool could meet does not fit now."""
        if demand not in self._denials:
            self._denials[demand] = self._of(demand)
        return self._denials[demand]

    def _of(self, demand: Demand) -> Denial:
        if not self._capacity.nodes:
            evidence = words.evidence(demand)
            return Denial(HoldReason.NO_FREE_GPUS, "this pool has no nodes yet", evidence, ("a node joins the pool",))
        if demand.closed:
            rooms = [node for node in map(self._free.node, sorted(demand.closed)) if node and _hosts(node, demand)]
            full = [self._free.full_node(node.id) for node in rooms]
            others = {node.name: forbidden_by(demand.request, node) for node in full}
            allowed = [room for room, node in zip(rooms, full, strict=True) if others[node.name] is None]
            if allowed:
                return self._ineligible(demand, allowed)
            if demand.request.nodes_in or demand.request.node_labels or others:
                open_nodes = [
                    node for node in self._free.by_fit(demand.gpu_type, demand.gpus) if node.id not in demand.closed
                ]
                hosts = sum(node.fits(demand) for node in open_nodes)
                if hosts < demand.nodes:
                    return named.no_room(demand, with_gpus=len(open_nodes), hosts=hosts, others=others)
        if demand.gpu_type is None:
            return self._cpu_or_memory(demand)
        if self._free.gpus(demand.gpu_type) < demand.gpus * demand.nodes:
            return self._no_free_gpus(demand, demand.gpu_type)
        if demand.divisible:
            return self._too_far_apart(demand, demand.gpu_type)
        if self._free.nodes_with(demand.gpu_type, demand.gpus) < demand.nodes:
            return self._fragmented(demand, demand.gpu_type)
        if sum(1 for _ in self._free.candidates(demand)) < demand.nodes:
            return self._cpu_or_memory(demand)
        if demand.within is Locality.RACK and demand.nodes > 1:
            return self._too_far_apart(demand, demand.gpu_type)
        return self._withheld(demand, demand.gpu_type)

    def _ineligible(self, demand: Demand, rooms: Sequence[FreeNode]) -> Denial:
        """Only nodes that are ineligible for the job have enough room."""
        candidates = [node for node in rooms if can_start(self._free.full_node(node.id), demand.runtime)]
        evidence = words.evidence(demand, closed_nodes_with_room=len(rooms))
        if not candidates:
            able = words.MEETS_PLURAL[demand.runtime]
            return Denial(
                HoldReason.RUNTIME,
                f"there is room on {words.count(len(rooms), 'node')}, but not on nodes that {able}",
                evidence,
                (),
                wanted=demand.gpus * demand.nodes,
                once_free=f"nodes that {able} become free",
            )
        candidates = [node for node in candidates if self._free.full_node(node.id).maintenance_starts_at is not None]
        if not candidates:
            return self._single_user(demand, rooms)
        # Report the node whose maintenance starts last: the longest jobs fit there.
        last = max(
            (self._free.full_node(node.id) for node in candidates),
            key=lambda node: (node.maintenance_starts_at or 0.0, -node.id),
        )
        left_min = int((last.maintenance_starts_at or 0.0) - self._now) // 60
        helps = [f"the maintenance of {last.name} ends or is called off"]
        if left_min > 0:
            helps.insert(0, f"set a time limit of at most {left_min}m, including the job's grace")
        return Denial(
            HoldReason.MAINTENANCE,
            f"there is room on {words.count(len(candidates), 'node')}, but this job might not end before their "
            f"maintenance; {last.name} has maintenance from {utc_text(last.maintenance_starts_at or 0.0)}: "
            f"{last.maintenance_reason}",
            evidence,
            tuple(helps),
        )

    def _single_user(self, demand: Demand, rooms: Sequence[FreeNode]) -> Denial:
        """Only single-user nodes of other tenants have enough room."""
        nodes = [node for node in map(self._free.full_node, (room.id for room in rooms)) if node.single_user]
        if not nodes:
            return Denial(
                HoldReason.QUOTA,
                f"there is room on {words.count(len(rooms), 'node')}, but none of them is of its virtual cluster",
                words.evidence(demand, closed_nodes_with_room=len(rooms)),
                ("jobs on the nodes of its virtual cluster end",),
            )
        return Denial(
            HoldReason.SINGLE_USER,
            f"there is room on {words.count(len(nodes), 'node')}, but all jobs there run as one account, so jobs of "
            "different tenants are not protected from each other",
            words.evidence(demand, closed_nodes_with_room=len(rooms)),
            (
                f"an operator gives {nodes[0].name} to this tenant or lets tenants share it",
                f"the agent of {nodes[0].name} runs as root or may create user namespaces",
            ),
        )

    def _no_free_gpus(self, demand: Demand, gpu_type: str) -> Denial:
        needed, free, total = demand.gpus * demand.nodes, self._free.gpus(gpu_type), self._capacity.gpus[gpu_type]
        out = total - self._capacity.gpus_in_service[gpu_type]
        out_of_service = f" and {words.are(out)} out of service" if out else ""
        helps = (f"an operator brings {gpu_type} back into service",) if out else ()
        return Denial(
            HoldReason.NO_FREE_GPUS,
            f"of {total} {gpu_type} in this pool, {words.are(free)} free{out_of_service}; this job needs {needed}",
            words.evidence(demand, needed=needed, free=free, total=total, out_of_service=out),
            helps,
            wanted=needed - free,
            once_free=become_free(needed - free, f"more {gpu_type}"),
        )

    def _fragmented(self, demand: Demand, gpu_type: str) -> Denial:
        free, largest = self._free.gpus(gpu_type), self._free.max_on_one_node(gpu_type)
        enough = self._free.nodes_with(gpu_type, demand.gpus)
        if demand.nodes == 1:
            detail = f"{free} {gpu_type} are free, at most {largest} on one node; this job needs {demand.gpus} on one"
            once_free = become_free(demand.gpus, gpu_type) + " on one node"
        else:
            such = f"{words.count(enough, 'node')} {'has' if enough == 1 else 'have'}" if enough else "no node has"
            detail = (
                f"{free} {gpu_type} are free, but {such} {demand.gpus} of them; this job needs {demand.nodes} that do"
            )
            more = demand.nodes - enough
            where = " on one more node" if more == 1 else f" on each of {more} more nodes"
            once_free = become_free(demand.gpus, gpu_type) + where
        if largest < demand.gpus:
            help_now = f"ask for fewer GPUs per node: the largest free node has {largest}"
        else:
            help_now = f"ask for at most {words.count(enough, 'node')}{words.with_gpus(demand)}"
        return Denial(
            HoldReason.FRAGMENTED,
            detail,
            words.evidence(demand, free=free, nodes_with_gpus=enough, largest_free_node=largest),
            (help_now,),
            wanted=demand.gpus,
            once_free=once_free,
        )

    def _too_far_apart(self, demand: Demand, gpu_type: str) -> Denial:
        """Enough GPUs are free, but not within the locality of the job, or not with its CPUs and memory."""
        free, most = self._free.gpus(gpu_type), self._free.max_on_one_node(gpu_type)
        needed = demand.gpus if demand.nodes == 1 else f"{demand.nodes} times {demand.gpus}"
        if demand.within is Locality.ANY:
            if sum(node.room(demand) for node in self._free.by_room(gpu_type)) >= demand.gpus:
                return self._withheld(demand, gpu_type)
            return Denial(
                HoldReason.CPU_OR_MEMORY,
                f"{free} {gpu_type} are free, but not {demand.gpus} of them with {words.count(demand.cpus, 'CPU')} and "
                f"{words.memory(demand.memory_mib)} of memory each",
                words.evidence(demand, free=free),
                ("ask for fewer CPUs or less memory per GPU",),
            )
        asked = demand.within is demand.request.locality
        return Denial(
            HoldReason.FRAGMENTED,
            f"{free} {gpu_type} are free, at most {most} on one node; "
            f"this job needs {needed} within one {demand.within}{'' if asked else ', by the settings of the pool'}",
            words.evidence(demand, free=free, largest_free_node=most),
            ("set a looser locality",) if asked else (),
            wanted=demand.gpus * demand.nodes,
            once_free=f"{needed} {gpu_type} become free within one {demand.within}",
        )

    def _withheld(self, demand: Demand, gpu_type: str) -> Denial:
        """Enough resources are free, but the placement does not let this job share those nodes."""
        free = self._free.gpus(gpu_type)
        return Denial(
            HoldReason.FRAGMENTED,
            f"{free} {gpu_type} are free, but too few on nodes that this job may share with their jobs",
            words.evidence(demand, free=free),
            ("jobs on dedicated nodes end",),
        )

    def _cpu_or_memory(self, demand: Demand) -> Denial:
        """Enough GPUs are free, but too few CPUs or too little memory on the same nodes."""
        cpus, memory_mib = self._room(demand.gpu_type, demand.gpus)
        nodes = len(cpus)
        with_cpus = nodes - bisect_left(cpus, demand.cpus)
        with_memory = nodes - bisect_left(memory_mib, demand.memory_mib)
        beside = f" with {demand.gpus} free {demand.gpu_type}" if demand.gpu_type else " in service"
        helps = []
        if nodes < demand.nodes:
            helps.append(f"{words.count(demand.nodes - nodes, 'more node')} in service")
        else:
            # The job would start now if it asked for the most that enough nodes have free.
            if with_cpus < demand.nodes:
                helps.append(f"ask for at most {words.count(cpus[-demand.nodes], 'CPU')} per node")
            if with_memory < demand.nodes:
                helps.append(f"ask for at most {words.memory(memory_mib[-demand.nodes])} of memory per node")
        return Denial(
            HoldReason.CPU_OR_MEMORY,
            f"of {words.count(nodes, 'node')}{beside}, {words.have(with_cpus)} {words.count(demand.cpus, 'CPU')} free "
            f"and {words.have(with_memory)} {words.memory(demand.memory_mib)} of memory; "
            f"this job needs {words.count(demand.nodes, 'node')} with both",
            words.evidence(demand, nodes_with_gpus=nodes, nodes_with_cpus=with_cpus, nodes_with_memory=with_memory),
            tuple(helps) or ("ask for fewer CPUs or less memory per node",),
        )

    def _room(self, gpu_type: str | None, gpus: int) -> tuple[list[int], list[int]]:
        """The free CPUs and the free MiB of the nodes with enough free GPUs, each ascending."""
        if (gpu_type, gpus) not in self._rooms:
            nodes = list(self._free.by_fit(gpu_type, gpus))
            self._rooms[gpu_type, gpus] = sorted(n.cpus for n in nodes), sorted(n.memory_mib for n in nodes)
        return self._rooms[gpu_type, gpus]


def _hosts(node: FreeNode, demand: Demand) -> bool:
    """True if the node, if it were eligible, could host a rank or a part of a lot."""
    without_eligibility = demand.closed_to(OPEN)
    return node.room(without_eligibility) > 0 if demand.divisible else node.fits(without_eligibility)
