"""Nodes, tasks, CPUs, GPUs and memory: from Slurm's many ways to ask for them to the size of each node of a gang."""

from __future__ import annotations

from dataclasses import dataclass

from muster.sbatch import values
from muster.sbatch.directives import Refused
from muster.sbatch.site import NodeFacts
from muster.sbatch.values import Gpus

_MEMORIES = "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")


@dataclass(slots=True)
class Asked:
    """The request of the options; None where they name nothing."""

    nodes: tuple[int, int] | None = None
    named_nodes: int = 0
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_gpu: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    mincpus: int = 1
    gpus: Gpus | None = None
    gpus_per_node: Gpus | None = None
    gpus_per_task: Gpus | None = None
    mem: int | None = None
    mem_per_cpu: int | None = None
    mem_per_gpu: int | None = None
    exclusive: bool = False
    overcommit: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The size of a job: of each node its CPUs, its GPUs with their type, and its memory (None: the default)."""

    nodes: int
    ntasks: int
    cpus: int
    gpus: int
    gpu_type: str | None
    memory_mib: int | None
    tasks_per_node: tuple[int, ...]
    """Tasks that each node has room for, by rank."""


def layout_of(asked: Asked, node: NodeFacts | None) -> Layout:
    """The size of the job, where `node` is the largest of the partition.

    Raises:
        Refused: options contradict each other, or nodes of a gang would differ.
    """
    if sum(one is not None for one in (asked.mem, asked.mem_per_cpu, asked.mem_per_gpu)) > 1:
        raise Refused("--mem, --mem-per-cpu and --mem-per-gpu exclude each other", slurm=_MEMORIES)
    if asked.cpus_per_gpu is not None and asked.cpus_per_task is not None:
        raise Refused("--cpus-per-gpu and --cpus-per-task exclude each other")
    named = _ntasks(asked)
    nodes = _nodes(asked, named, node)
    ntasks = nodes * (asked.ntasks_per_node or 1) if named is None else named
    nodes = min(nodes, ntasks) if asked.ntasks is not None else nodes
    most = -(-ntasks // nodes)
    gpus = _gpus_per_node(asked, nodes, ntasks, most)
    number = gpus.number if gpus else 0
    if asked.ntasks_per_node is not None and most > asked.ntasks_per_node:
        raise Refused(f"{ntasks} tasks do not fit on {nodes} nodes with {asked.ntasks_per_node} on each")
    at_once = 1 if asked.overcommit else max(most, asked.ntasks_per_node or 0)
    cpus = max(at_once * (asked.cpus_per_task or 1), asked.mincpus)
    if asked.cpus_per_gpu is not None:
        cpus = max(cpus, asked.cpus_per_gpu * number)
    if asked.exclusive and node is not None:
        cpus, number = node.cpus, max(number, node.gpus)
    memory_mib = _memory(asked, cpus, number, node)
    spread = _spread(asked, named, nodes, cpus)
    return Layout(nodes, ntasks, cpus, number, gpus.type if gpus else None, memory_mib, spread)


def _spread(asked: Asked, ntasks: int | None, nodes: int, cpus: int) -> tuple[int, ...]:
    """The tasks on each node: evenly where their number is named, else as many as its CPUs are for."""
    if asked.ntasks_per_node is not None:
        return (asked.ntasks_per_node,) * nodes
    if ntasks is None:
        return (max(1, cpus // (asked.cpus_per_task or 1)),) * nodes
    each, more = divmod(ntasks, nodes)
    return tuple(each + (rank < more) for rank in range(nodes))


def _ntasks(asked: Asked) -> int | None:
    """The number of tasks, where options name it or imply it."""
    total = asked.gpus.number if asked.gpus else 0
    if asked.gpus_per_task is not None:
        each = asked.gpus_per_task.number
        if not total and asked.ntasks is None and asked.ntasks_per_node is None and asked.nodes is None:
            raise Refused("--gpus-per-task needs --ntasks or --gpus")
        if total and each:
            wanted = asked.ntasks
            if wanted is None and asked.nodes is not None:
                wanted = asked.nodes[0] * (asked.ntasks_per_node or 1)
            if total % each or (wanted is not None and wanted * each != total):
                raise Refused("--gpus, --gpus-per-task and the number of tasks do not fit together")
            return total // each
    if asked.ntasks is not None:
        return asked.ntasks
    if asked.ntasks_per_gpu is not None and total:
        return asked.ntasks_per_gpu * total
    return None


def _nodes(asked: Asked, ntasks: int | None, node: NodeFacts | None) -> int:
    """The number of nodes: as named, else the fewest on which the tasks and GPUs fit."""
    if asked.nodes is not None:
        least, most = asked.nodes
        if asked.named_nodes > most:
            raise Refused(
                f"--nodelist names {asked.named_nodes} nodes, more than the {most} of --nodes",
                slurm=f"invalid number of nodes (-N {asked.named_nodes}-{most})",
            )
        return max(least, asked.named_nodes, 1)
    if asked.gpus is not None and asked.gpus_per_node is not None and asked.gpus_per_node.number:
        per_node = asked.gpus_per_node.number
        if asked.gpus.number < per_node:
            raise Refused("--gpus is less than the GPUs of each node")
        return max(-(-asked.gpus.number // per_node), asked.named_nodes)
    fewest = max(1, asked.named_nodes)
    if ntasks is not None and asked.ntasks_per_node is not None:
        fewest = max(fewest, -(-ntasks // asked.ntasks_per_node))
    if node is None:
        return fewest
    if ntasks is not None and node.cpus:
        on_one = max(1, node.cpus // (asked.cpus_per_task or 1))
        fewest = max(fewest, -(-ntasks // on_one))
    if node.gpus:
        total = _total_gpus(asked, ntasks)
        fewest = max(fewest, -(-total // node.gpus))
        while total % fewest and fewest < total:
            fewest += 1  # each node of a gang has equally many GPUs
    return fewest


def _total_gpus(asked: Asked, ntasks: int | None) -> int:
    if asked.gpus is not None:
        return asked.gpus.number
    if asked.gpus_per_task is not None and ntasks is not None:
        return asked.gpus_per_task.number * ntasks
    return 0


def _gpus_per_node(asked: Asked, nodes: int, ntasks: int, tasks_per_node: int) -> Gpus | None:
    """The GPUs of each node, with the type that any of the options names."""
    kind = next(
        (one.type for one in (asked.gpus_per_node, asked.gpus, asked.gpus_per_task) if one and one.type is not None),
        None,
    )
    if asked.gpus_per_node is not None:
        per_node = asked.gpus_per_node.number
        if asked.gpus is not None and asked.gpus.number != per_node * nodes:
            raise Refused(f"--gpus={asked.gpus.number} is not {per_node} on each of {nodes} nodes")
        return Gpus(per_node, kind)
    if asked.gpus is not None:
        if asked.gpus.number % nodes:
            raise Refused(
                f"--gpus={asked.gpus.number} cannot be spread over {nodes} nodes: each node of a job has equally many"
            )
        return Gpus(asked.gpus.number // nodes, kind)
    if asked.gpus_per_task is not None:
        return Gpus(asked.gpus_per_task.number * tasks_per_node, kind)
    if asked.ntasks_per_gpu is not None and asked.ntasks is not None:
        return Gpus(-(-ntasks // asked.ntasks_per_gpu // nodes), kind)
    return None


def _memory(asked: Asked, cpus: int, gpus: int, node: NodeFacts | None) -> int | None:
    """The memory of each node in MiB."""
    if asked.mem_per_cpu is not None:
        return asked.mem_per_cpu * cpus or _whole(node)
    if asked.mem_per_gpu is not None:
        if not gpus:
            raise Refused("--mem-per-gpu needs GPUs")
        return asked.mem_per_gpu * gpus or _whole(node)
    if asked.mem is not None:
        return asked.mem or _whole(node)
    return None


def _whole(node: NodeFacts | None) -> int | None:
    return node.memory_mib if node else None


def take(asked: Asked, name: str, value: str) -> bool:
    """Store an option of size; whether it was one. `ValueError` says what is wrong with the value."""
    field = name.replace("-", "_")
    match name:
        case "nodes":
            asked.nodes = values.node_count(value)
        case "ntasks" | "ntasks-per-node" | "ntasks-per-gpu" | "cpus-per-task" | "cpus-per-gpu" | "mincpus":
            setattr(asked, field, values.count(value))
        case "tasks-per-node":
            asked.ntasks_per_node = values.count(value)
        case "gpus" | "gpus-per-node" | "gpus-per-task":
            setattr(asked, field, values.gpus(value))
        case "gres":
            asked.gpus_per_node = values.gres(value)
        case "overcommit":
            asked.overcommit = True
        case "mem" | "mem-per-cpu" | "mem-per-gpu":
            setattr(asked, field, values.mebibytes(value))
        case "oversubscribe":
            asked.exclusive = False
        case "exclusive":
            if value not in {"", "user", "mcs"}:
                raise ValueError("write it without a value")
            asked.exclusive = value == ""
        case _:
            return False
    return True
