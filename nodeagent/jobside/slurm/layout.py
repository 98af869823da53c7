"""The places of steps: on which nodes of the job their tasks run, and with which of its CPUs, GPUs and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_NO_GRES = "Invalid generic resource (gres) specification"


class Refused(Exception):
    """A step that can never run in this job; its arguments are the lines that say why."""


class Busy(Exception):
    """A step that waits for what other steps hold."""


@dataclass
class Node:
    """A node of the job, and what steps hold of it."""

    name: str
    cpus: int
    memory_mib: int
    gpus: int
    cpus_held: int = 0
    memory_held: int = 0
    gpus_held: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Request:
    """The request of `srun`; None where neither its options nor its environment say anything."""

    nodes: int
    max_nodes: int
    tasks: int
    cpus_per_task: int | None = None
    tasks_per_node: int | None = None
    with_nodes: tuple[str, ...] = ()
    without_nodes: tuple[str, ...] = ()
    first_node: int = 0
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    memory_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    memory_named: bool = False
    """True where the step itself names the memory; that of the job is never more than a node has."""
    distribution: str = ""
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Request:
        """The request as `srun` sent it."""
        names = ("with_nodes", "without_nodes")
        return cls(**{**told, **{name: tuple(told.get(name, ())) for name in names}})


@dataclass(frozen=True)
class Share:
    """A step's part on one node."""

    rank: int
    tasks: tuple[int, ...]
    cpus: int
    memory_mib: int
    gpus: tuple[int, ...]
    """Places in the node's list of GPUs."""
    gpus_per_task: int
    """0 = each task sees all of them."""

    def to_dict(self) -> dict[str, Any]:
        """The share as it is told to `srun`."""
        return dict(vars(self))


class Layout:
    """The nodes of a job, and the steps that hold parts of them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)

    def place(self, request: Request) -> list[Share]:
        """The step's shares, which it holds from now on.

        Raises:
            Refused: the job has less than the step needs.
            Busy: other steps hold it.
        """
        candidates = self._candidates(request)
        self._shares(request, candidates, free=False)
        shares = self._shares(request, candidates, free=not request.overlap)
        if not request.overlap:
            for share in shares:
                self._hold(share, 1)
        return shares

    def release(self, shares: Sequence[Share]) -> None:
        """Free what a step has held."""
        for share in shares:
            self._hold(share, -1)

    def _hold(self, share: Share, sign: int) -> None:
        node = self.nodes[share.rank]
        node.cpus_held += sign * share.cpus
        node.memory_held += sign * share.memory_mib
        if sign > 0:
            node.gpus_held |= set(share.gpus)
        else:
            node.gpus_held -= set(share.gpus)

    def _candidates(self, request: Request) -> list[int]:
        """The ranks that the step may use."""
        names = [node.name for node in self.nodes]
        both = set(request.with_nodes) & set(request.without_nodes)
        if both:
            raise Refused("Requested node {} is also in the excluded list.".format(min(both)), "Job not submitted.")
        if not set(request.with_nodes) <= set(names):
            raise Refused("Unable to create step for job {job}: Requested node configuration is not available")
        ranks = [rank for rank, name in enumerate(names) if name not in request.without_nodes]
        if request.nodes > len(ranks):
            told = "Only allocated {} nodes asked for {}".format(len(ranks), request.nodes)
            raise Refused(told, *(["Are required nodes explicitly excluded?"] if request.without_nodes else []))
        if len(request.with_nodes) > request.max_nodes:
            raise Refused("invalid number of nodes (-N {}-{})".format(len(request.with_nodes), request.max_nodes))
        return [rank for rank in ranks if rank >= request.first_node or names[rank] in request.with_nodes]

    def _shares(self, request: Request, candidates: Sequence[int], *, free: bool) -> list[Share]:
        """The shares on the fewest nodes that suffice; `free`: of what no other step holds."""
        named = [rank for rank in candidates if self.nodes[rank].name in request.with_nodes]
        rest = [rank for rank in candidates if rank not in named]
        if not free and request.overlap:
            rest.sort(key=lambda rank: self.nodes[rank].cpus_held > 0)
        problem: Exception | None = None
        for count in range(max(request.nodes, len(named)), request.max_nodes + 1):
            usable = [rank for rank in rest if not free or self._has_room(request, rank)]
            ranks = sorted([*named, *usable[: count - len(named)]])
            if len(ranks) < count:
                problem = problem or Busy()
                continue
            try:
                return self._on(request, ranks, free=free)
            except (Refused, Busy) as error:
                problem = error
        raise problem or Refused("Unable to create step for job {job}: Requested node configuration is not available")

    def _has_room(self, request: Request, rank: int) -> bool:
        """True if a task of the step could run on this node now."""
        node = self.nodes[rank]
        cpus = 1 if request.overcommit else request.cpus_per_task or 1
        gpus = request.gpus_per_task if request.gpus is None else 1
        gpus = gpus if request.gpus_per_node is None else request.gpus_per_node
        return (
            cpus <= node.cpus - node.cpus_held
            and not (node.cpus_held and self._counts_all(request))
            and self._memory(request, node, cpus) <= node.memory_mib - node.memory_held
            and (node.gpus if gpus is None else gpus) <= node.gpus - len(node.gpus_held)
        )

    def _counts_all(self, request: Request) -> bool:
        """True if the step takes all CPUs of its nodes, as one does that names no number."""
        return not (request.exact or request.cpus_per_task is not None)

    def _on(self, request: Request, ranks: Sequence[int], *, free: bool) -> list[Share]:
        counts = self._counts(request, ranks, free=free)
        gpus = self._gpus(request, ranks, counts)
        per_task = request.gpus_per_task or 0
        shares = []
        for rank, count, tasks, wanted in zip(ranks, counts, _numbers(request, counts), gpus):
            node = self.nodes[rank]
            cpus = min(node.cpus, count * (request.cpus_per_task or 1)) or 1
            if self._counts_all(request):
                cpus = node.cpus
            memory = self._memory(request, node, cpus)
            left = [place for place in range(node.gpus) if not free or place not in node.gpus_held]
            if free and (
                cpus > node.cpus - node.cpus_held or memory > node.memory_mib - node.memory_held or wanted > len(left)
            ):
                raise Busy
            shares.append(Share(rank, tasks, cpus, memory, tuple(left[:wanted]), per_task))
        return shares

    def _counts(self, request: Request, ranks: Sequence[int], *, free: bool) -> list[int]:
        """The number of tasks on each of the nodes: one on each in turn, while it has CPUs for one more."""
        rooms = []
        for rank in ranks:
            node = self.nodes[rank]
            cpus = node.cpus - (node.cpus_held if free and not self._counts_all(request) else 0)
            room = request.tasks if request.overcommit else cpus // (request.cpus_per_task or 1)
            # As with Slurm, the number for each node gives way where it is too small for all tasks.
            rooms.append(min(room, max(request.tasks_per_node or room, -(-request.tasks // len(ranks)))))
        counts = [0] * len(ranks)
        left = request.tasks
        while left:
            placed = 0
            for index, room in enumerate(rooms):
                if left and counts[index] < room:
                    counts[index] += 1
                    placed, left = placed + 1, left - 1
            if not placed:
                if free:
                    raise Busy
                raise Refused("Unable to create step for job {job}: More processors requested than permitted")
        return counts

    def _gpus(self, request: Request, ranks: Sequence[int], counts: Sequence[int]) -> list[int]:
        """The number of GPUs on each of the nodes: all of the job's unless the step names a number."""
        have = [self.nodes[rank].gpus for rank in ranks]
        asked = request.gpus_per_node is not None or request.gpus is not None or request.gpus_per_task is not None
        if not asked:
            return have
        if (request.gpus_per_node or request.gpus or request.gpus_per_task) and not any(n.gpus for n in self.nodes):
            raise Refused("Step requested GRES but job doesn't have GRES", _unable(_NO_GRES))
        if request.gpus_per_node is not None:
            if request.gpus_per_node > min(have):
                told = "Step requested gres_per_node=gpu:{} is more than the job's gres_per_node=gpu:{}"
                raise Refused(told.format(request.gpus_per_node, min(have)), _unable(_NO_GRES))
            return [request.gpus_per_node] * len(ranks)
        if request.gpus_per_task is not None:
            wanted = [request.gpus_per_task * count for count in counts]
        else:
            wanted = _spread(request.gpus or 0, have)
        if any(one > there for one, there in zip(wanted, have)) or (
            request.gpus_per_task is None and sum(wanted) < (request.gpus or 0)
        ):
            raise Refused(_unable(_NO_GRES))
        if request.gpus and request.gpus_per_task is None and 0 in wanted:
            told = "Step requested gres=gpu:{} is less than the requested min nodes={}"
            raise Refused(told.format(request.gpus, len(ranks)), _unable(_NO_GRES))
        return wanted

    def _memory(self, request: Request, node: Node, cpus: int) -> int:
        """The memory on a node in MiB; all of the job's unless the step names a number."""
        memory = request.memory_mib
        if memory is None and request.memory_per_cpu_mib:
            memory = request.memory_per_cpu_mib * cpus
            if self._counts_all(request):
                memory = min(memory, node.memory_mib)
        memory = memory or node.memory_mib
        if not request.memory_named or not node.memory_mib:  # a node without a limit has nothing to count
            return min(memory, node.memory_mib)
        if memory > node.memory_mib:
            raise Refused("Unable to create step for job {job}: Memory required by task is not available")
        return memory


def _unable(why: str) -> str:
    return "Unable to create step for job {job}: " + why


def _spread(total: int, have: Sequence[int]) -> list[int]:
    """A number of GPUs over nodes: one on each, and the others from the first node on."""
    wanted = [min(1, there) if index < total else 0 for index, there in enumerate(have)]
    for index, there in enumerate(have):
        wanted[index] += min(there - wanted[index], max(0, total - sum(wanted)))
    return wanted


def _numbers(request: Request, counts: Sequence[int]) -> list[tuple[int, ...]]:
    """The numbers of the tasks on each node: in blocks, or in turn if the distribution is cyclic."""
    plane = request.distribution.partition("plane=")[2]
    size = int(plane) if plane.isdigit() else 1
    if not request.distribution.startswith(("cyclic", "plane")):
        size = max(counts)
    size = max(1, size)
    numbers: list[list[int]] = [[] for _ in counts]
    task = 0
    while task < request.tasks:
        for own, count in zip(numbers, counts):
            room = min(size, count - len(own))
            own.extend(range(task, task + room))
            task += room
    return [tuple(own) for own in numbers]


def runs(counts: Sequence[int]) -> str:
    """Numbers by node as Slurm writes them: `2(x3),1`."""
    texts: list[str] = []
    begin = 0
    for index in range(1, len(counts) + 1):
        if index == len(counts) or counts[index] != counts[begin]:
            times = index - begin
            texts.append("{}(x{})".format(counts[begin], times) if times > 1 else str(counts[begin]))
            begin = index
    return ",".join(texts)
