"""The words of a site: its partitions, accounts and qualities of service, as a user may use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node of a partition: its whole size, and the features that a constraint can name."""

    name: str
    gpus: int
    cpus: int
    memory_mib: int
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Partition:
    """A pool as a script names it, with the virtual clusters of the user in it, the default one first."""

    name: str
    vcs: tuple[str, ...]
    nodes: tuple[NodeFacts, ...]
    gpu_types: tuple[str, ...] = ()
    time_min: int | None = None
    """The limit of jobs that name none, in minutes."""
    max_time_min: int | None = None
    max_nodes: int | None = None

    @property
    def largest(self) -> NodeFacts | None:
        """The node with the most GPUs, and of those with the most CPUs; None if the partition has no node."""
        return max(self.nodes, key=lambda node: (node.gpus, node.cpus), default=None)


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service."""

    priority: str = "normal"
    klass: str = "guaranteed"
    max_time_min: int | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """The meaning of a script's words for a user. The first partition is the default one."""

    partitions: Mapping[str, Partition]
    accounts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Virtual clusters by account."""
    qos: Mapping[str, Qos] = field(default_factory=dict)
    max_array: int = 1000
    """The highest index of an array."""
