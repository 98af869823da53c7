"""The world of a simulation: a view for decisions, changed in place by events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from math import log

from scheduler.model import (
    Gpu,
    Group,
    Job,
    Node,
    Organisation,
    PoolState,
    Reservation,
    Running,
    Snapshot,
    Tenant,
    View,
    VirtualCluster,
)
from scheduler.model.caps import Cap
from scheduler.model.lifecycle import AttemptState
from scheduler.model.plan import Place
from scheduler.sim.cells import cells_of
from scheduler.sim.cluster import ClusterSpec
from scheduler.sim.options import Options
from scheduler.sim.trace import Trace

# Enough that a job without CPU and memory sizes never waits for them.
PLENTY_OF_CPUS, PLENTY_OF_MEMORY_MIB = 1_000_000, 1 << 40


class World(View):
    """A mutable view. Code that changes it must update the scheduler state too."""

    def __init__(
        self,
        *,
        nodes: Iterable[Node],
        tenants: Iterable[Tenant],
        vcs: Iterable[VirtualCluster],
        seed: int,
        now: float = 0.0,
    ) -> None:
        self.now, self.seed = now, seed
        self.nodes, self.tenants, self.vcs = tuple(nodes), tuple(tenants), tuple(vcs)
        self.node_by_id = {node.id: node for node in self.nodes}
        self.gpu_by_id = {gpu.id: gpu for node in self.nodes for gpu in node.gpus}
        self.vc_ids = {vc.name: vc.id for vc in self.vcs}
        self.organisations: tuple[Organisation, ...] = ()
        self.caps: tuple[Cap, ...] = ()
        self.vc_by_id = {vc.id: vc for vc in self.vcs}
        there = Counter(gpu.type for gpu in self.gpu_by_id.values())
        self.quota_gpus = {  # of all types, as far as the cluster has them
            vc.name: sum(min(gpus, there[kind]) for kind, gpus in vc.quotas.items()) for vc in self.vcs
        }
        self.waiting_by_id: dict[int, Job] = {}
        self.running_by_job: dict[int, Running] = {}
        self.group_by_id: dict[int, Group] = {}
        self.waiting, self.running = self.waiting_by_id.values(), self.running_by_job.values()
        self.groups = self.group_by_id.values()
        self.holders_of_gpu: dict[int, tuple[int, ...]] = {}
        self.used_by_node: dict[int, tuple[int, int]] = {}
        self.held_by_vc: dict[tuple[int, str], int] = {}
        self.reservations: tuple[Reservation, ...] = ()
        self.reserved_gpus: dict[int, int] = {}
        self.pool_state: PoolState | None = None
        self.half_life_s: float | None = None  # of the past use of virtual clusters, for policies that ask for it
        self._aged_at = now
        self.told_speed: Callable[[int, int, str], float | None] = lambda *_: None

    def start(self, job: Job, place: Place, attempt_id: int) -> Running:
        """Give the waiting job its place."""
        self.waiting_by_id.pop(job.id, None)
        run = Running(attempt_id, job, AttemptState.RUNNING, place.allocations, self.now, given=place.given)
        self.hold(run)
        return run

    def hold(self, run: Running) -> None:
        """Let the live attempt hold its GPUs."""
        self.running_by_job[run.job.id] = run
        self._count(run, 1)

    def measure(self, run: Running, rate: float | None, speed: float | None) -> Running:
        """Set the measured speed of the job beside its neighbours, and its speed by itself."""
        if (rate, speed) != (run.rate, run.speed):
            run = replace(run, rate=rate, speed=speed)
        self.running_by_job[run.job.id] = run
        return run

    def stop(self, run: Running) -> None:
        """Take all GPUs from a job."""
        del self.running_by_job[run.job.id]
        self._count(run, -1)

    def speed_beside(self, job_id: int, other_id: int, gpu_type: str) -> float | None:
        """As the trace tells."""
        return self.told_speed(job_id, other_id, gpu_type)

    def age(self) -> None:
        """Count what virtual clusters have used until now, if the policy asks for it."""
        if self.half_life_s is None or self.now == self._aged_at:
            return
        left = 2.0 ** (-(self.now - self._aged_at) / self.half_life_s)
        held: Counter[int] = Counter()
        for (vc_id, _), gpus in self.held_by_vc.items():
            held[vc_id] += gpus
        weight_s = self.half_life_s / log(2) * (1.0 - left)
        self.vcs = tuple(replace(vc, past_gpu_s=vc.past_gpu_s * left + held[vc.id] * weight_s) for vc in self.vcs)
        self.vc_by_id, self._aged_at = {vc.id: vc for vc in self.vcs}, self.now

    def note(self, job_id: int, policy_state: Mapping[str, float]) -> None:
        """Set the job's policy state."""
        run = self.running_by_job.get(job_id)
        if run is not None:
            self.running_by_job[job_id] = replace(run, job=replace(run.job, policy_state=policy_state))
        else:
            self.waiting_by_id[job_id] = replace(self.waiting_by_id[job_id], policy_state=policy_state)

    def reserve(self, reservations: Iterable[Reservation]) -> None:
        """Replace the reservations of jobs that wait for others to stop."""
        self.reservations = tuple(sorted(reservations, key=lambda kept: kept.job_id))
        self.reserved_gpus = {
            gpu_id: kept.job_id for kept in self.reservations for share in kept.allocations for gpu_id in share.gpu_ids
        }

    def _count(self, run: Running, times: int) -> None:
        self.age()
        for share in run.allocations:
            cpus, memory_mib = self.used_by_node.get(share.node_id, (0, 0))
            self.used_by_node[share.node_id] = (cpus + times * share.cpus, memory_mib + times * share.memory_mib)
            for gpu_id in share.gpu_ids:
                others = tuple(job_id for job_id in self.holders_of_gpu.get(gpu_id, ()) if job_id != run.job.id)
                holders = (*others, run.job.id) if times > 0 else others
                if holders:
                    self.holders_of_gpu[gpu_id] = holders
                else:
                    del self.holders_of_gpu[gpu_id]
                if (
                    not others and gpu_id in self.gpu_by_id
                ):  # sharers of a GPU are of one virtual cluster, which holds it once
                    key = (run.job.vc_id, self.gpu_by_id[gpu_id].type)
                    self.held_by_vc[key] = self.held_by_vc.get(key, 0) + times


def world_of(cluster: ClusterSpec, quotas: Mapping[str, Mapping[str, int]], seed: int, *, by_cells: bool) -> World:
    """The empty cluster. Each virtual cluster of a trace has a tenant of its own with the same id."""
    nodes = tuple(_nodes(cluster))
    cells = cells_of(nodes, quotas) if by_cells else {}
    return World(
        nodes=nodes,
        tenants=[Tenant(number, name, 1.0) for number, name in enumerate(quotas, start=1)],
        vcs=[
            VirtualCluster(number, number, name, quotas[name], cells=cells.get(name, {}))
            for number, name in enumerate(quotas, start=1)
        ],
        seed=seed,
    )


def world_at(snapshot: Snapshot) -> World:
    """The pool of a snapshot, with all that waits, runs and is reserved there."""
    world = World(
        nodes=snapshot.nodes, tenants=snapshot.tenants, vcs=snapshot.vcs, seed=snapshot.seed, now=snapshot.now
    )
    world.organisations, world.caps, world.pool_state = snapshot.organisations, snapshot.caps, snapshot.pool_state
    world.group_by_id.update(snapshot.group_by_id)
    world.waiting_by_id.update(snapshot.waiting_by_id)
    for run in snapshot.running:
        world.hold(run)
    world.reserve(kept for kept in snapshot.reservations if kept.until > snapshot.now)
    return world


def quotas_of(trace: Trace, cluster: ClusterSpec, options: Options) -> Mapping[str, Mapping[str, int]]:
    """The quotas of all virtual clusters in the trace: from the options, else from the trace, else everything."""
    names = sorted({job.vc for job in trace.jobs})
    return {name: options.quotas.get(name) or trace.quotas.get(name) or cluster.gpus for name in names}


def _nodes(cluster: ClusterSpec) -> Iterable[Node]:
    ids, gpu_ids, in_rack = count(1), count(1), count()
    for group in cluster.groups:
        for number in range(group.nodes):
            node_id, position = next(ids), next(in_rack)
            yield Node(
                id=node_id,
                name=f"{group.gpu_type.lower()}-{node_id:04}",
                rack=f"r{position // group.per_rack + 1:03}" if group.per_rack else "r001",
                cpus=group.cpus or PLENTY_OF_CPUS,
                memory_mib=group.memory_mib or PLENTY_OF_MEMORY_MIB,
                version=1,
                schedulable=number >= group.bad,
                unschedulable_reason="" if number >= group.bad else "bad",
                gpus=tuple(
                    Gpu(
                        id=next(gpu_ids),
                        node_id=node_id,
                        index=index,
                        uuid=f"GPU-{node_id}-{index}",
                        type=group.gpu_type,
                        memory_mib=group.gpu_memory_mib,
                        healthy=True,
                    )
                    for index in range(group.gpus)
                ),
            )
