"""The words of a site: its partitions, accounts and qualities of service, as a user may use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent.protocol.volumes import is_below


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
    memory_per_cpu_mib: int | None = None
    """The memory of jobs that name none; None: the platform's default."""

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
    default_account: str | None = None
    """The account of a script that names none, if it has a virtual cluster in the partition."""
    default_qos: str | None = None
    shared_folders: tuple[str, ...] = ()
    """Folders that all nodes and the submitting machines have at the same path."""
    cluster_name: str = "muster"
    max_array: int = 1000
    """The highest index of an array."""

    def in_place(self, folder: str) -> str | None:
        """The folder, plainly written, if nodes have it too; symbolic links are not followed.

        None: it is in no shared folder, or leads to a parent folder.
        """
        parts = [part for part in folder.split("/") if part not in {"", "."}]
        plain = "/" + "/".join(parts)
        reachable = folder.startswith("/") and folder.isprintable() and ".." not in parts
        return plain if reachable and is_below(plain, self.shared_folders) else None
