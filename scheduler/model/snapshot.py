"""The input of one decision: a pool at one moment, with the time and the random seed.

Decisions read a `View`. Production gives them a frozen `Snapshot`; the simulator updates one view of its own instead
of building a snapshot for each of a million decisions.

Builders of snapshots sort each collection by id, so that equal pools give equal snapshots. Decisions do not depend on
the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduler.model.caps import Cap
from scheduler.model.jobs import Group, Job, Reservation, Running
from scheduler.model.nodes import Gpu, Node


@dataclass(frozen=True, slots=True)
class Organisation:
    """A node of the tree of tenants above tenants: their shares, and GPUs of its own that all below may use.

    By GPU type: `quotas` are its nominal share, `borrowing` its borrowing limit, `lending` its lending limit. A type
    without an entry has a nominal share of 0, and no limits.
    """

    id: int
    name: str
    weight: float = 1.0
    parent_id: int | None = None
    quotas: Mapping[str, int] = field(default_factory=dict)
    borrowing: Mapping[str, int] = field(default_factory=dict)
    lending: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer of the cluster. Policies that divide a pool by shares give it `weight` shares.

    `quotas`, `borrowing` and `lending` as those of an `Organisation`.
    """

    id: int
    name: str
    weight: float
    organisation_id: int | None = None
    quotas: Mapping[str, int] = field(default_factory=dict)
    borrowing: Mapping[str, int] = field(default_factory=dict)
    lending: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A tenant's part of the pool: the number of GPUs of each type that it may hold; 0 of a type without an entry.

    `borrowing` and `lending` as those of an `Organisation`. `past_gpu_s` are the GPU-seconds that it used, decayed by
    the half-life of the policy that asks for them; 0 for others.
    `cells` are its numbers of virtual cells by cell type, and `pinned` the addresses of its pinned cells; see
    docs/policies/hived.md.
    """

    id: int
    tenant_id: int
    name: str
    quotas: Mapping[str, int]
    weight: float = 1.0
    borrowing: Mapping[str, int] = field(default_factory=dict)
    lending: Mapping[str, int] = field(default_factory=dict)
    past_gpu_s: float = 0.0
    cells: Mapping[str, int] = field(default_factory=dict)
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolState:
    """A policy's memory of a pool: JSON of its own in the `version` in which it wrote it."""

    policy: str
    version: int
    data: Mapping[str, object]


class View:
    """A pool at one moment, as a decision may read it: read-only.

    The indexes are made on first use; a simulation, whose view changes, keeps its own.
    """

    now: float  # s since 1970, or since the start of a simulation
    seed: int  # of a policy that draws random numbers
    nodes: Iterable[Node]
    tenants: Iterable[Tenant]  # with a virtual cluster in the pool
    organisations: Iterable[Organisation]  # above these tenants
    caps: Iterable[Cap]  # of users with jobs in the pool
    vcs: Iterable[VirtualCluster]
    waiting: Iterable[Job]
    running: Iterable[Running]  # the live attempts
    reservations: Iterable[Reservation]  # of waiting jobs, and the standing offers
    groups: Iterable[Group]  # of the waiting and running jobs
    pool_state: PoolState | None  # what the last policy remembered of the pool

    def speed_beside(self, job_id: int, other_id: int, gpu_type: str) -> float | None:
        """The speed of a job that shares its GPUs with another, relative to alone; None: not told."""
        return None

    @cached_property
    def node_by_id(self) -> Mapping[int, Node]:
        """The nodes by id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def gpu_by_id(self) -> Mapping[int, Gpu]:
        """The GPUs by id."""
        return {gpu.id: gpu for node in self.nodes for gpu in node.gpus}

    @cached_property
    def vc_by_id(self) -> Mapping[int, VirtualCluster]:
        """The virtual clusters by id."""
        return {vc.id: vc for vc in self.vcs}

    @cached_property
    def waiting_by_id(self) -> Mapping[int, Job]:
        """The waiting jobs by id."""
        return {job.id: job for job in self.waiting}

    @cached_property
    def running_by_job(self) -> Mapping[int, Running]:
        """The live attempts by the id of their job."""
        return {attempt.job.id: attempt for attempt in self.running}

    @cached_property
    def group_by_id(self) -> Mapping[int, Group]:
        """The groups by id."""
        return {group.id: group for group in self.groups}

    @cached_property
    def holders_of_gpu(self) -> Mapping[int, tuple[int, ...]]:
        """For each held GPU, the ids of the jobs whose live attempts hold it: one, or those that share it."""
        holders: dict[int, tuple[int, ...]] = {}
        for attempt in self.running:
            alone = (attempt.job.id,)
            for share in attempt.allocations:
                for gpu_id in share.gpu_ids:
                    holders[gpu_id] = (*holders[gpu_id], attempt.job.id) if gpu_id in holders else alone
        return holders

    @cached_property
    def reserved_gpus(self) -> Mapping[int, int]:
        """For each reserved GPU, the id of the job that it is reserved for; an expired reservation reserves nothing."""
        return {
            gpu_id: reservation.job_id
            for reservation in self.reservations
            if reservation.until > self.now
            for share in reservation.allocations
            for gpu_id in share.gpu_ids
        }

    @cached_property
    def used_by_node(self) -> Mapping[int, tuple[int, int]]:
        """For each node with live attempts, the CPUs and the MiB of memory that they hold."""
        used: dict[int, tuple[int, int]] = {}
        for attempt in self.running:
            for share in attempt.allocations:
                cpus, memory_mib = used.get(share.node_id, (0, 0))
                used[share.node_id] = (cpus + share.cpus, memory_mib + share.memory_mib)
        return used

    @cached_property
    def held_by_vc(self) -> Mapping[tuple[int, str], int]:
        """The GPUs that live attempts hold, by virtual cluster and GPU type; a shared GPU counts once.

        GPUs that have left the pool do not count, since a quota is a share of the present pool.
        """
        held: dict[tuple[int, str], int] = {}
        for gpu_id, (holder, *_) in self.holders_of_gpu.items():
            gpu = self.gpu_by_id.get(gpu_id)
            if gpu is not None:
                key = (self.running_by_job[holder].vc_id, gpu.type)
                held[key] = held.get(key, 0) + 1
        return held


# No slots here: the cached indexes live in the instance's __dict__.
@dataclass(frozen=True)
class Snapshot(View):
    """A frozen `View` of a pool."""

    now: float
    seed: int
    pool_id: int
    nodes: tuple[Node, ...]
    tenants: tuple[Tenant, ...]
    vcs: tuple[VirtualCluster, ...]
    waiting: tuple[Job, ...]
    running: tuple[Running, ...]
    reservations: tuple[Reservation, ...] = ()
    pool_state: PoolState | None = None
    groups: tuple[Group, ...] = ()
    organisations: tuple[Organisation, ...] = ()
    cell_versions: Mapping[str, int] = field(default_factory=dict)
    """The number of times that jobs were bound to cells, by GPU type: see `LockScope.CHAINS`."""
    caps: tuple[Cap, ...] = ()
