"""Small worlds for the scheduler's tests: every default makes a valid object, a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from scheduler.model import SLOTS, AllocationView, Gpu, Job, Node, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.lifecycle import AttemptState, JobClass
from scheduler.model.request import REQUEST_FIELDS, Over, Request, request_of

NOW = 1_000_000.0


def make_node(
    node_id: int = 1, *, gpus: int = 8, gpu_type: str = "A100", unhealthy: Iterable[int] = (), **fields: Any
) -> Node:
    """A schedulable node; the GPUs of node 3 are 300, 301, 302 and so on, and `unhealthy` names their indexes."""
    node = Node(
        id=node_id,
        name=f"node{node_id}",
        rack="r1",
        cpus=64,
        memory_mib=512 * 1024,
        version=1,
        schedulable=True,
        unschedulable_reason="",
        gpus=tuple(
            Gpu(
                id=node_id * 100 + index,
                node_id=node_id,
                index=index,
                uuid=f"GPU-{node_id}-{index}",
                type=gpu_type,
                memory_mib=80 * 1024,
                healthy=index not in set(unhealthy),
            )
            for index in range(gpus)
        ),
    )
    return replace(node, **fields)


def make_vc(vc_id: int = 1, name: str = "vision", quotas: Mapping[str, int] | None = None) -> VirtualCluster:
    """A virtual cluster that may hold a thousand GPUs of each type, unless told."""
    return VirtualCluster(vc_id, 1, name, {"A100": 1000, "V100": 1000} if quotas is None else quotas)


def make_job(job_id: int = 1, *, gpus: int = 1, nodes: int = 1, **fields: Any) -> Job:
    """A job that wants A100 and waits since `NOW` minus ten minutes plus its id in seconds."""
    job = Job.of(
        id=job_id,
        tenant_id=1,
        vc_id=1,
        owner_id=1,
        priority=0,
        job_class=JobClass.GUARANTEED,
        gpu_type="A100",
        gpus=gpus,
        nodes=nodes,
        cpus=1,
        memory_mib=1024,
        submitted_at=NOW - 600 + job_id,
        eligible_at=0.0,
        time_limit_s=None,
        attained_gpu_s=0.0,
        avoid_nodes=(),
        preemptible=True,
        still_stopping=False,
    )
    return asking(job, **fields)


def spelled(request: Request) -> dict[str, Any]:
    """The request as `request_of` takes it."""
    first = request.first
    return {
        "gpu_type": request.only_type,
        "gpu_types": request.gpu_types if len(request.choices) > 1 else (),
        "gpus": first.gpus,
        "cpus": first.cpus,
        "memory_mib": first.memory_mib,
        "nodes": request.nodes,
        "locality": request.locality,
        "split": request.divisible,
        "min_gpus": request.elastic.min_gpus if request.elastic else 1,
        "max_gpus": request.elastic.max_gpus if request.elastic else 0,
        "over": request.elastic.over if request.elastic else Over.NODE,
        "packs": request.shares_gpu,
        "gpu_memory_mib": request.gpu_memory_mib,
        "form": request.runtime,
    }


def asking(job: Job, **fields: Any) -> Job:
    """The job with other values in these fields: its own, or those by which `request_of` takes its request."""
    flat = {name: fields.pop(name) for name in REQUEST_FIELDS & fields.keys()}
    if flat:
        fields["request"] = request_of(**spelled(job.request) | flat)
    return replace(job, **fields)


def make_packing(job_id: int = 1, *, gpus: int = 1, nodes: int = 1, **fields: Any) -> Job:
    """A job of `make_job` with checkpoints that shares its GPUs, and needs half of their memory."""
    return make_job(
        job_id, gpus=gpus, nodes=nodes, **{"packs": True, "gpu_memory_mib": 40 * 1024, "checkpoints": True, **fields}
    )


def make_share(
    node_id: int,
    gpu_indexes: Iterable[int] = (0,),
    rank: int = 0,
    cpus: int = 1,
    memory_mib: int = 1024,
    *,
    slots: int = SLOTS,
) -> AllocationView:
    """The share of a rank on a node of `make_node`."""
    gpu_ids = tuple(node_id * 100 + index for index in gpu_indexes)
    return AllocationView(node_id, rank, gpu_ids, cpus, memory_mib, slots)


def make_running(*shares: AllocationView, attempt_id: int = 1, job: Job | None = None, **fields: Any) -> Running:
    """A live attempt of another job, 1000 plus its own id unless told, since a minute; `fields` are the job's."""
    if job is None:
        gpus = len(shares[0].gpu_ids) if shares else 0
        job = make_job(1000 + attempt_id, gpus=gpus, nodes=max(1, len(shares)))
    return Running(
        attempt_id=attempt_id,
        job=asking(job, **fields),
        state=AttemptState.RUNNING,
        allocations=shares,
        placed_at=NOW - 60,
    )


def make_snapshot(
    *,
    nodes: Iterable[Node] | None = None,
    waiting: Iterable[Job] = (),
    running: Iterable[Running] = (),
    vcs: Iterable[VirtualCluster] | None = None,
) -> Snapshot:
    """A pool with one node of eight A100 and one virtual cluster, unless told."""
    return Snapshot(
        now=NOW,
        seed=1,
        pool_id=1,
        nodes=(make_node(),) if nodes is None else tuple(nodes),
        tenants=(Tenant(1, "lab", 1.0),),
        vcs=(make_vc(),) if vcs is None else tuple(vcs),
        waiting=tuple(waiting),
        running=tuple(running),
    )
