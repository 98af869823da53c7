"""The cluster of a simulation: nodes by GPU type, as `V100:2x4,P100:4x4` or as a YAML file says."""

from __future__ import annotations

from dataclasses import dataclass


class ClusterError(ValueError):
    """A cluster that cannot be understood; the message quotes the part."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """`nodes` servers of one kind; racks are numbered through the cluster, `per_rack` servers in each."""

    gpu_type: str
    nodes: int
    gpus: int  # on each
    cpus: int = 0  # on each; 0 = so many that they never matter
    memory_mib: int = 0  # likewise
    gpu_memory_mib: int = 16_384
    per_rack: int = 0  # 0 = all in one rack


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """All groups of nodes; the order gives the nodes their ids."""

    groups: tuple[NodeGroup, ...]

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs by type."""
        totals: dict[str, int] = {}
        for group in self.groups:
            totals[group.gpu_type] = totals.get(group.gpu_type, 0) + group.nodes * group.gpus
        return totals


def parse_cluster(text: str) -> ClusterSpec:
    """The cluster that `TYPE:NODESxGPUS[,…]` describes."""
    groups = []
    for part in text.split(","):
        gpu_type, colon, size = part.strip().partition(":")
        nodes, times, gpus = size.partition("x")
        if not (gpu_type and colon and times and nodes.isdigit() and gpus.isdigit() and int(nodes) and int(gpus)):
            raise ClusterError(f"cluster: {part!r} is not TYPE:NODESxGPUS, such as V100:2x4")
        groups.append(NodeGroup(gpu_type=gpu_type, nodes=int(nodes), gpus=int(gpus)))
    return ClusterSpec(tuple(groups))
