"""The world as one decision sees it: a frozen snapshot of a pool, with the time and the seed as fields.

Whoever builds a snapshot sorts each collection by id, so that equal worlds are equal snapshots. A decision does not
rely on it: any order gives the same plan. Decisions read a `View`, which a snapshot is; the simulator keeps one of its
own up to date instead of making a snapshot for each of a million decisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from scheduler import lifecycle
from scheduler.codec import from_json, to_json
from scheduler.lifecycle import AttemptState, Form, JobClass

Level = lifecycle.Level  # decisions know it as a part of the model, and specs as a word of the job's

# What a GPU can be divided into. A job that shares its GPUs has half of each, whether or not another one is there yet.
SLOTS = 64
HALF = SLOTS // 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; one that is not `healthy` is given to nobody, and one with a warning after all others of its node."""

    id: int
    node_id: int
    index: int
    uuid: str
    type: str
    memory_mib: int
    healthy: bool
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One server; `why_not` says in a few words why it is not `schedulable`, and is empty when it is.

    `links[a][b]` scores how close GPU index a is to GPU index b, larger is closer: any measure that is the same for the
    whole node, such as the number of NVLinks between them, or below that the level of PCIe at which they meet. Empty
    when nobody knows. `strikes` counts the failures blamed on the node, decayed by age until now. `forms` are those of
    the jobs that it can start, all when nobody has said. It is to be free of jobs from `closes_at` on, for a reason
    that `closing` tells; when it `clears` then, those that can go on elsewhere are moved. See `scheduler.closing`.
    From `opens_at` on it takes jobs again, one that is not schedulable too; None when nobody knows.
    A `single_user` node runs all jobs as one account, so it takes jobs of the tenant `tenant_id` only; None: of none.
    """

    id: int
    name: str
    rack: str
    cpus: int
    memory_mib: int
    version: int
    schedulable: bool
    why_not: str
    gpus: tuple[Gpu, ...]
    links: tuple[tuple[int, ...], ...] = ()
    strikes: float = 0.0
    forms: tuple[Form, ...] = ()
    closes_at: float | None = None
    clears: bool = False
    closing: str = ""
    opens_at: float | None = None
    single_user: bool = False
    tenant_id: int | None = None


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

    With `gpu_type` None and some `gpus`, any one type of `gpu_types` will do for the whole gang, or any type where that
    is empty. With `split`, the gang is one lot of `gpus` that may lie on any number of nodes, and CPUs and memory are
    for each GPU. With `max_gpus` above 0, any size from 1 to `max_gpus` GPUs will do as well as `gpus`, at the speeds
    that `speeds` predicts.

    What is predicted may be wrong and may be missing: None says that nobody knows.
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
    attained_gpu_s: float  # by the attempts that have ended
    avoid_nodes: tuple[int, ...]
    preemptible: bool
    still_stopping: bool
    split: bool = False
    locality: Level = Level.ANY
    max_gpus: int = 0
    speeds: tuple[float, ...] = ()  # on 1, 2, 3 … GPUs relative to one
    checkpoints: bool = False
    ran_s: float = 0.0  # with GPUs, in the attempts that have ended
    requeued_at: float = 0.0  # when it last went back to the queue
    expected_s: float | None = None  # predicted run time from the first start to the end, on the `gpus` it asks for
    remaining_s: float | None = None  # of which is left, when the last attempt ended
    utilization: float | None = None  # of each of its GPUs, 0 to 1
    gpu_memory_mib: int | None = None  # that it needs of each of its GPUs
    packs: bool = False  # whether it may have another job beside it on its GPUs; see `scheduler.sharing`
    memo: Mapping[str, float] = field(default_factory=dict)  # what the policy asked to be told again
    form: Form = Form.ANY
    grace_s: float = 0.0  # from its stop signal to its kill
    gpu_types: tuple[str, ...] = ()  # the GPU types that it may use, where `gpu_type` is None; empty: all

    @property
    def max_run_s(self) -> float:
        """Seconds that a run holds its GPUs at most: its agent signals it at the limit and kills it after the grace."""
        return math.inf if self.time_limit_s is None else self.time_limit_s + self.grace_s

    @property
    def gpus_total(self) -> int:
        """GPUs of the whole gang."""
        return self.gpus * self.nodes

    def types_among(self, gpu_types: Sequence[str]) -> Sequence[str]:
        """The GPU types that the job may use, of those that a pool has; a type that it names, in the pool or not."""
        if self.gpu_type is not None:
            return (self.gpu_type,)
        return [kind for kind in gpu_types if kind in self.gpu_types] if self.gpu_types else gpu_types

    @property
    def slots(self) -> int:
        """How many slots it takes of each of its GPUs."""
        return HALF if self.packs else SLOTS

    @property
    def waiting_since(self) -> float:
        """When its present wait began; a back-off is no waiting."""
        return max(self.submitted_at, self.requeued_at, self.eligible_at)

    def speed_on(self, gpus: int) -> float:
        """The predicted speed on so many GPUs relative to what it asks for; beyond the predictions it grows no more."""
        if not self.speeds:
            return 1.0
        last = len(self.speeds)
        return self.speeds[min(max(gpus, 1), last) - 1] / self.speeds[min(max(self.gpus, 1), last) - 1]


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What one rank of a gang holds on one node: so many `slots` of each of the GPUs, and the rest."""

    node_id: int
    rank: int
    gpu_ids: tuple[int, ...]
    cpus: int
    memory_mib: int
    slots: int = SLOTS


@dataclass(frozen=True, slots=True)
class Running:
    """One live attempt of a job: whatever its state, its allocations are held.

    `speed` is what was measured of it where it is now, beside whoever is there, in a unit of the job's own per second;
    `rate` is that by the speed of the same job on the same GPUs with nobody beside it; None: not measured.
    `progress` is the predicted work, in seconds of the job's `remaining_s`, that it does in each second where it is;
    None: as the job's `speeds` say.
    """

    attempt_id: int
    job: Job
    state: AttemptState
    allocations: tuple[AllocationView, ...]
    placed_at: float
    rate: float | None = None
    speed: float | None = None
    progress: float | None = None

    @property
    def job_id(self) -> int:
        """The id of its job."""
        return self.job.id

    @property
    def vc_id(self) -> int:
        """The virtual cluster of its job."""
        return self.job.vc_id

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return sum(len(share.gpu_ids) for share in self.allocations)

    @property
    def stopping(self) -> bool:
        """Whether it is on its way out already."""
        return self.state is AttemptState.STOPPING

    def attained_gpu_s(self, now: float) -> float:
        """GPU-seconds that the job has had, this attempt included."""
        return self.job.attained_gpu_s + self.gpus * max(0.0, now - self.placed_at)

    def ran_s(self, now: float) -> float:
        """Seconds with GPUs that the job has had, this attempt included."""
        return self.job.ran_s + max(0.0, now - self.placed_at)

    @property
    def work_rate(self) -> float:
        """Seconds of predicted work done in each second: 1 at the speed for which the run time was predicted."""
        if self.progress is not None:
            return self.progress
        return self.job.speed_on(self.gpus) if self.job.speeds else 1.0

    def remaining_s(self, now: float) -> float | None:
        """Predicted work that is left, in seconds on what the job asks for, less what it did since it was placed.

        A prediction that was too short leaves nothing, not less.
        """
        if self.job.remaining_s is None:
            return None
        return max(0.0, self.job.remaining_s - self.work_rate * max(0.0, now - self.placed_at))


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs that wait for one job while those who still hold them stop; nobody else gets them before `until`.

    Those that are offered to a scheduler outside wait for it to answer: then `job_id` is minus the offer's id, which no
    job has; see `scheduler.offers`.
    """

    job_id: int
    allocations: tuple[AllocationView, ...]
    until: float

    @property
    def offered(self) -> bool:
        """Whether they wait for an answer, and not for a job that is known."""
        return self.job_id < 0


class View(Protocol):
    """What a decision may look at: a pool at one moment."""

    @property
    def now(self) -> float:
        """The moment, in seconds since the epoch, or since the start of a simulation."""
        ...

    @property
    def seed(self) -> int:
        """What a policy that draws lots draws them with."""
        ...

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes of the pool."""
        ...

    @property
    def tenants(self) -> Iterable[Tenant]:
        """The tenants with a virtual cluster in the pool."""
        ...

    @property
    def vcs(self) -> Iterable[VirtualCluster]:
        """The virtual clusters of the pool."""
        ...

    @property
    def waiting(self) -> Iterable[Job]:
        """The jobs that wait."""
        ...

    @property
    def running(self) -> Iterable[Running]:
        """The live attempts."""
        ...

    @property
    def reservations(self) -> Iterable[Reservation]:
        """What is kept for jobs that wait."""
        ...

    @property
    def node_by_id(self) -> Mapping[int, Node]:
        """The nodes of the pool by id."""
        ...

    @property
    def gpu_by_id(self) -> Mapping[int, Gpu]:
        """The GPUs of the pool by id."""
        ...

    @property
    def vc_by_id(self) -> Mapping[int, VirtualCluster]:
        """The virtual clusters of the pool by id."""
        ...

    @property
    def waiting_by_id(self) -> Mapping[int, Job]:
        """The jobs that wait by id."""
        ...

    @property
    def running_by_job(self) -> Mapping[int, Running]:
        """The live attempts by the id of their job."""
        ...

    @property
    def holders_of_gpu(self) -> Mapping[int, tuple[int, ...]]:
        """For each GPU that live attempts hold, the ids of their jobs: of one, or of those that share it."""
        ...

    @property
    def reserved_gpus(self) -> Mapping[int, int]:
        """For each GPU that is kept for a job, the id of that job."""
        ...

    @property
    def used_by_node(self) -> Mapping[int, tuple[int, int]]:
        """CPUs and MiB of memory that live attempts hold, for each node on which they hold anything."""
        ...

    @property
    def held_by_vc(self) -> Mapping[tuple[int, str], int]:
        """GPUs of this pool that live attempts hold, by virtual cluster and GPU type; a shared one counts once."""
        ...


# No slots here: the cached indexes live in the instance's __dict__.
@dataclass(frozen=True)
class Snapshot:
    """Everything that one decision about one pool may look at, frozen; a `View`."""

    now: float
    seed: int
    pool_id: int
    nodes: tuple[Node, ...]
    tenants: tuple[Tenant, ...]
    vcs: tuple[VirtualCluster, ...]
    waiting: tuple[Job, ...]
    running: tuple[Running, ...]
    reservations: tuple[Reservation, ...] = ()

    @cached_property
    def node_by_id(self) -> Mapping[int, Node]:
        """See `View`."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def gpu_by_id(self) -> Mapping[int, Gpu]:
        """See `View`."""
        return {gpu.id: gpu for node in self.nodes for gpu in node.gpus}

    @cached_property
    def vc_by_id(self) -> Mapping[int, VirtualCluster]:
        """See `View`."""
        return {vc.id: vc for vc in self.vcs}

    @cached_property
    def waiting_by_id(self) -> Mapping[int, Job]:
        """See `View`."""
        return {job.id: job for job in self.waiting}

    @cached_property
    def running_by_job(self) -> Mapping[int, Running]:
        """See `View`."""
        return {attempt.job.id: attempt for attempt in self.running}

    @cached_property
    def holders_of_gpu(self) -> Mapping[int, tuple[int, ...]]:
        """See `View`."""
        holders: dict[int, tuple[int, ...]] = {}
        for attempt in self.running:
            alone = (attempt.job.id,)
            for share in attempt.allocations:
                for gpu_id in share.gpu_ids:
                    holders[gpu_id] = (*holders[gpu_id], attempt.job.id) if gpu_id in holders else alone
        return holders

    @cached_property
    def reserved_gpus(self) -> Mapping[int, int]:
        """See `View`; what is kept beyond its time is free."""
        return {
            gpu_id: kept.job_id
            for kept in self.reservations
            if kept.until > self.now
            for share in kept.allocations
            for gpu_id in share.gpu_ids
        }

    @cached_property
    def used_by_node(self) -> Mapping[int, tuple[int, int]]:
        """See `View`."""
        used: dict[int, tuple[int, int]] = {}
        for attempt in self.running:
            for share in attempt.allocations:
                cpus, memory_mib = used.get(share.node_id, (0, 0))
                used[share.node_id] = (cpus + share.cpus, memory_mib + share.memory_mib)
        return used

    @cached_property
    def held_by_vc(self) -> Mapping[tuple[int, str], int]:
        """See `View`; a GPU that has left the pool counts for nobody: a quota is a share of the pool as it is."""
        held: dict[tuple[int, str], int] = {}
        for gpu_id, (holder, *_) in self.holders_of_gpu.items():
            gpu = self.gpu_by_id.get(gpu_id)
            if gpu is not None:
                key = (self.running_by_job[holder].vc_id, gpu.type)
                held[key] = held.get(key, 0) + 1
        return held


def snapshot_to_dict(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as plain JSON values; equal snapshots give equal values."""
    return to_json(snapshot)


def snapshot_from_dict(data: object) -> Snapshot:
    """The snapshot that `snapshot_to_dict` made `data` from."""
    return from_json(Snapshot, data)
