"""The law: what no plan may do, whoever made it.

The same function judges plans in tests and in the applier, which gives it a small snapshot of the rows it has locked:
the nodes of the plan with every attempt on them, and the attempts of the plan's virtual clusters. Once the snapshot's
indexes exist, the cost is that of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scheduler.model import AllocationView, Job, Snapshot
from scheduler.plan import Place, Plan


class Code(StrEnum):
    """What a plan did wrong; a guard adds codes of its own."""

    JOB_NOT_WAITING = "job_not_waiting"
    JOB_NOT_ELIGIBLE = "job_not_eligible"
    PARTIAL_GANG = "partial_gang"
    TWO_ALLOCATIONS_ONE_NODE = "two_allocations_one_node"
    WRONG_GPU_COUNT = "wrong_gpu_count"
    WRONG_GPU_TYPE = "wrong_gpu_type"
    WRONG_CPUS_OR_MEMORY = "wrong_cpus_or_memory"
    NODE_NOT_SCHEDULABLE = "node_not_schedulable"
    GPU_UNKNOWN = "gpu_unknown"
    GPU_UNHEALTHY = "gpu_unhealthy"
    GPU_TAKEN = "gpu_taken"
    GPU_TWICE = "gpu_twice"
    CPU_OVERCOMMIT = "cpu_overcommit"
    MEMORY_OVERCOMMIT = "memory_overcommit"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that one place of a plan must not do."""

    code: str
    job_id: int
    message: str


class Objector(Protocol):
    """What the law asks of a guard: its own objections to a plan."""

    def violations(self, snapshot: Snapshot, plan: Plan) -> Iterable[Violation]:
        """What the plan does against the rules of this guard."""
        ...


def check(snapshot: Snapshot, plan: Plan, guard: Objector) -> tuple[Violation, ...]:
    """Every violation of the plan, in the order of its places and then the guard's; empty when it is lawful."""
    claims = _Claims()
    found = [violation for place in plan.places for violation in _violations(snapshot, place, claims)]
    return (*found, *guard.violations(snapshot, plan))


@dataclass(slots=True)
class _Claims:
    """What the places looked at so far want: each is judged together with those before it."""

    jobs: set[int] = field(default_factory=set)
    gpus: set[int] = field(default_factory=set)
    cpus: dict[int, int] = field(default_factory=dict)
    memory_mib: dict[int, int] = field(default_factory=dict)


def _violations(snapshot: Snapshot, place: Place, claims: _Claims) -> Iterator[Violation]:
    job = snapshot.waiting_by_id.get(place.job_id)
    if place.job_id in claims.jobs:
        yield Violation(Code.JOB_NOT_WAITING, place.job_id, "the plan places this job twice")
    elif job is None:
        yield Violation(Code.JOB_NOT_WAITING, place.job_id, "this job does not wait")
    else:
        yield from _against_the_job(snapshot, job, place)
    claims.jobs.add(place.job_id)
    for share in place.allocations:
        yield from _against_the_node(snapshot, place.job_id, share, claims)


def _against_the_job(snapshot: Snapshot, job: Job, place: Place) -> Iterator[Violation]:
    """What the place does that this job did not ask for."""
    if job.eligible_at > snapshot.now:
        yield Violation(Code.JOB_NOT_ELIGIBLE, job.id, f"not eligible before {job.eligible_at}, now is {snapshot.now}")
    if job.still_stopping:
        yield Violation(Code.JOB_NOT_ELIGIBLE, job.id, "its last attempt is still stopping")

    ranks = sorted(share.rank for share in place.allocations)
    if ranks != list(range(job.nodes)):
        yield Violation(Code.PARTIAL_GANG, job.id, f"the gang needs ranks 0 to {job.nodes - 1} once each, not {ranks}")
    nodes = [share.node_id for share in place.allocations]
    if len(set(nodes)) < len(nodes):
        yield Violation(Code.TWO_ALLOCATIONS_ONE_NODE, job.id, f"two ranks share a node: {sorted(nodes)}")

    for share in place.allocations:
        if len(share.gpu_ids) != job.gpus:
            message = f"rank {share.rank} gets {len(share.gpu_ids)} GPUs, not {job.gpus}"
            yield Violation(Code.WRONG_GPU_COUNT, job.id, message)
        if (share.cpus, share.memory_mib) != (job.cpus, job.memory_mib):
            message = (
                f"rank {share.rank} gets {share.cpus} CPUs and {share.memory_mib} MiB, "
                f"not {job.cpus} and {job.memory_mib}"
            )
            yield Violation(Code.WRONG_CPUS_OR_MEMORY, job.id, message)

    types = {
        snapshot.gpu_by_id[gpu_id].type
        for share in place.allocations
        for gpu_id in share.gpu_ids
        if gpu_id in snapshot.gpu_by_id
    }
    if len(types) > 1 or (job.gpu_type is not None and types - {job.gpu_type}):
        wanted = job.gpu_type or "one type"
        yield Violation(Code.WRONG_GPU_TYPE, job.id, f"the gang needs {wanted}, not {', '.join(sorted(types))}")


def _against_the_node(snapshot: Snapshot, job_id: int, share: AllocationView, claims: _Claims) -> Iterator[Violation]:
    """What the allocation takes that its node cannot give."""
    node = snapshot.node_by_id.get(share.node_id)
    if node is None:
        yield Violation(Code.NODE_NOT_SCHEDULABLE, job_id, f"node {share.node_id} is not in this pool")
        return
    if not node.schedulable:
        yield Violation(Code.NODE_NOT_SCHEDULABLE, job_id, f"{node.name} takes no jobs: {node.why_not}")

    for gpu_id in share.gpu_ids:
        gpu = snapshot.gpu_by_id.get(gpu_id)
        if gpu is None or gpu.node_id != node.id:
            yield Violation(Code.GPU_UNKNOWN, job_id, f"{node.name} has no GPU {gpu_id}")
            continue
        if not gpu.healthy:
            yield Violation(Code.GPU_UNHEALTHY, job_id, f"GPU {gpu.index} of {node.name} is not healthy")
        if gpu_id in snapshot.taken_gpus:
            yield Violation(Code.GPU_TAKEN, job_id, f"GPU {gpu.index} of {node.name} is held by a live attempt")
        if gpu_id in claims.gpus:
            yield Violation(Code.GPU_TWICE, job_id, f"the plan gives GPU {gpu.index} of {node.name} twice")
        claims.gpus.add(gpu_id)

    used_cpus, used_memory_mib = snapshot.used_by_node.get(node.id, (0, 0))
    cpus = claims.cpus[node.id] = claims.cpus.get(node.id, 0) + share.cpus
    memory_mib = claims.memory_mib[node.id] = claims.memory_mib.get(node.id, 0) + share.memory_mib
    # A rank that takes none is no worse for a node that is overcommitted already, say after its inventory shrank.
    if share.cpus and used_cpus + cpus > node.cpus:
        message = f"{node.name} has {node.cpus} CPUs; {used_cpus} are used and the plan takes {cpus}"
        yield Violation(Code.CPU_OVERCOMMIT, job_id, message)
    if share.memory_mib and used_memory_mib + memory_mib > node.memory_mib:
        message = f"{node.name} has {node.memory_mib} MiB; {used_memory_mib} are used and the plan takes {memory_mib}"
        yield Violation(Code.MEMORY_OVERCOMMIT, job_id, message)
