"""The world as one decision sees it: a frozen snapshot of a pool, with the time and the seed as fields.

Whoever builds a snapshot sorts each collection by id, so that equal worlds are equal snapshots. A decision does not
rely on it: any order gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scheduler.codec import from_json, to_json
from scheduler.lifecycle import AttemptState, JobClass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; one that is not `healthy` is given to nobody."""

    id: int
    node_id: int
    index: int
    uuid: str
    type: str
    memory_mib: int
    healthy: bool


@dataclass(frozen=True, slots=True)
class Node:
    """One server; `why_not` says in a few words why it is not `schedulable`, and is empty when it is."""

    id: int
    name: str
    rack: str
    cpus: int
    memory_mib: int
    version: int
    schedulable: bool
    why_not: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer of the cluster; `weight` is its share where a policy divides by shares."""

    id: int
    name: str
    weight: float


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A tenant's part of the pool: how many GPUs of each type it may hold; a type that is not named is 0."""

    id: int
    tenant_id: int
    name: str
    quotas: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Job:
    """A job that waits: a gang of `nodes` ranks, each on a node of its own; all sizes are for one rank.

    With `gpu_type` None and some `gpus`, any one type will do for the whole gang.
    """

    id: int
    tenant_id: int
    vc_id: int
    owner_id: int
    priority: int
    klass: JobClass
    gpu_type: str | None
    gpus: int
    nodes: int
    cpus: int
    memory_mib: int
    submitted_at: float
    eligible_at: float
    time_limit_s: float | None
    attained_gpu_s: float
    avoid_nodes: tuple[int, ...]
    preemptible: bool
    still_stopping: bool


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What one rank of a gang holds on one node."""

    node_id: int
    rank: int
    gpu_ids: tuple[int, ...]
    cpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Running:
    """One live attempt: whatever its state, its allocations are held."""

    attempt_id: int
    job_id: int
    vc_id: int
    klass: JobClass
    state: AttemptState
    allocations: tuple[AllocationView, ...]
    placed_at: float


# No slots here: the cached indexes live in the instance's __dict__.
@dataclass(frozen=True)
class Snapshot:
    """Everything that one decision about one pool may look at."""

    now: float
    seed: int
    pool_id: int
    nodes: tuple[Node, ...]
    tenants: tuple[Tenant, ...]
    vcs: tuple[VirtualCluster, ...]
    waiting: tuple[Job, ...]
    running: tuple[Running, ...]

    @cached_property
    def node_by_id(self) -> Mapping[int, Node]:
        """The nodes of the pool by id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def gpu_by_id(self) -> Mapping[int, Gpu]:
        """The GPUs of the pool by id."""
        return {gpu.id: gpu for node in self.nodes for gpu in node.gpus}

    @cached_property
    def vc_by_id(self) -> Mapping[int, VirtualCluster]:
        """The virtual clusters of the pool by id."""
        return {vc.id: vc for vc in self.vcs}

    @cached_property
    def waiting_by_id(self) -> Mapping[int, Job]:
        """The jobs that wait by id."""
        return {job.id: job for job in self.waiting}

    @cached_property
    def taken_gpus(self) -> frozenset[int]:
        """The ids of the GPUs that live attempts hold."""
        return frozenset(
            gpu_id for attempt in self.running for share in attempt.allocations for gpu_id in share.gpu_ids
        )

    @cached_property
    def used_by_node(self) -> Mapping[int, tuple[int, int]]:
        """CPUs and MiB of memory that live attempts hold, for each node on which they hold anything."""
        used: dict[int, tuple[int, int]] = {}
        for attempt in self.running:
            for share in attempt.allocations:
                cpus, memory_mib = used.get(share.node_id, (0, 0))
                used[share.node_id] = (cpus + share.cpus, memory_mib + share.memory_mib)
        return used

    @cached_property
    def held_by_vc(self) -> Mapping[tuple[int, str], int]:
        """GPUs of this pool that live attempts hold, by virtual cluster and GPU type.

        A GPU that has left the pool counts for nobody: a quota is a share of the pool as it is.
        """
        held: dict[tuple[int, str], int] = {}
        for attempt in self.running:
            for share in attempt.allocations:
                for gpu_id in share.gpu_ids:
                    gpu = self.gpu_by_id.get(gpu_id)
                    if gpu is not None:
                        key = (attempt.vc_id, gpu.type)
                        held[key] = held.get(key, 0) + 1
        return held


def snapshot_to_dict(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as plain JSON values; equal snapshots give equal values."""
    return to_json(snapshot)


def snapshot_from_dict(data: object) -> Snapshot:
    """The snapshot that `snapshot_to_dict` made `data` from."""
    return from_json(Snapshot, data)
