"""Pools, nodes and GPUs."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import (
    CheckResult,
    GpuAction,
    GpuLevel,
    LinkState,
    Moment,
    NodeAdmin,
    NodeHealth,
    RunningJobs,
    StrikeReason,
)


class GpuJob(TypedDict):
    """The job that holds a GPU."""

    id: Annotated[int, "The id of the job."]
    name: Annotated[str, "The name of the job."]
    owner: Annotated[str, "The user name of the job's owner."]
    tenant: Annotated[str, "The name of the tenant that the job belongs to."]


class Gpu(TypedDict):
    """A GPU and its newest reading; `jobs` is empty if no job holds it, or only jobs of other tenants."""

    uuid: Annotated[str, "The UUID that the driver gives the GPU."]
    index: Annotated[int, "The number of the GPU on its node, from 0."]
    node: Annotated[str, "The name of the node."]
    type: Annotated[str, "The GPU type, as quotas and job specs name it."]
    memory_mib: Annotated[int, "The memory of the GPU in MiB."]
    numa_node: Annotated[int | None, "The NUMA node that the GPU is attached to; null if unknown."]
    healthy: Annotated[bool, "Whether jobs may have it: so it is unless it has failed."]
    health: Annotated[GpuLevel, "A GPU with a warning is a last choice; a failed GPU gets no jobs."]
    health_since: Annotated[Moment | None, "Null if the GPU was always healthy."]
    health_why: Annotated[str | None, "Why the GPU has a warning or failed; null if no reason is recorded."]
    utilization: Annotated[float | None, "Percent."]
    memory_used_mib: Annotated[float | None, "Memory in use in MiB; null if the newest reading has none."]
    temperature_c: Annotated[float | None, "Temperature in °C; null if the newest reading has none."]
    power_w: Annotated[float | None, "Power draw in watts; null if the newest reading has none."]
    jobs: Annotated[list[GpuJob], "Those that hold it, of the ones that you may see; two may share it."]
    busy: Annotated[bool, "Whether any job holds the GPU, including jobs that you may not see."]


class GpuList(TypedDict):
    """Every GPU, by node and index."""

    results: Annotated[list[Gpu], "The GPUs."]
    next: Annotated[str | None, "Always null: the list comes whole."]


class NodeLink(TypedDict):
    """How it stands with the SSH connection to a node; `reason` is for operators."""

    state: Annotated[LinkState, "The state of the connection: `up`, being set up, or what failed."]
    reason: Annotated[str | None, "Details of the state; null if there are none, or if you are not an operator."]
    since: Annotated[Moment, "When the connection entered this state."]


class Node(TypedDict):
    """A server and its GPUs."""

    name: Annotated[str, "The name of the node."]
    pool: Annotated[str, "The name of the pool that the node is in."]
    admin: Annotated[NodeAdmin, "What operators want of the node: only an `active` node gets new jobs."]
    health: Annotated[
        NodeHealth,
        "What the platform observes: `pending` until an agent joins, `suspect` and `down` when the agent is silent.",
    ]
    reason: Annotated[str | None, "Why it is cordoned or draining."]
    runtimes: Annotated[
        list[str], "What jobs may have there: `process`, a container engine, or both; empty if no agent has joined."
    ]
    no_containers: Annotated[str | None, "Why it offers no containers; null if it does."]
    agent_in_container: Annotated[bool, "Whether its agent runs in a container: for trying out, without an engine."]
    barred: Annotated[str | None, "Why nothing new may start there, whatever operators want."]
    single_user: Annotated[
        bool,
        "Whether it runs all jobs as one account; it takes jobs of one tenant then, unless an operator lets tenants "
        "share it.",
    ]
    single_user_shared: Annotated[bool, "Whether tenants share a single-user node."]
    host_network: Annotated[str | None, "Which setting gives gangs in containers the host's network; null: none does."]
    address: Annotated[str, "The address at which other nodes reach the node; empty if unknown."]
    cpus: Annotated[int, "The CPU cores of the node that jobs can use."]
    cpus_used: Annotated[int, "The CPU cores that jobs hold."]
    memory_mib: Annotated[int, "The memory of the node that jobs can use, in MiB."]
    memory_used_mib: Annotated[int, "The memory that jobs hold, in MiB."]
    rack: Annotated[str, "The rack that the node is in; empty if unknown."]
    labels: Annotated[dict[str, str], "The labels of the node, by key."]
    last_seen_at: Annotated[
        Moment | None, "When the platform last heard from the node's agent; null if no agent has joined."
    ]
    link: Annotated[NodeLink | None, "Null where the agent calls the platform by itself."]
    strikes: Annotated[float, "Failures that it is blamed for, as they count now: half after each half-life."]
    gpus: Annotated[list[Gpu], "The GPUs of the node, by index."]


class Maintenance(TypedDict):
    """A time in which a node, or every node of a pool, is to be free of jobs."""

    id: Annotated[int, "The id of the maintenance."]
    pool: Annotated[str, "The name of the pool."]
    node: Annotated[str | None, "Null: every node of the pool."]
    begins_at: Annotated[Moment, "When the maintenance is to begin."]
    ends_at: Annotated[Moment, "When the nodes take jobs again."]
    running_jobs: Annotated[RunningJobs, "What happens to the jobs that run there when it begins."]
    reason: Annotated[str, "Why the maintenance takes place."]
    begun_at: Annotated[Moment | None, "When the maintenance began; null if it has not."]
    created_by: Annotated[str, "The user name of the operator who planned it."]


class MaintenanceList(TypedDict):
    """What is planned or under way, the next one first."""

    results: Annotated[list[Maintenance], "The maintenance that is planned or under way."]
    next: Annotated[str | None, "Always null: the list comes whole."]


class NodeStrike(TypedDict):
    """A failure that a node is blamed for; `job` and `detail` are null for who may not see the job."""

    at: Annotated[Moment, "When the failure happened."]
    reason: Annotated[StrikeReason, "What failed."]
    gpu: Annotated[int | None, "The index of the GPU that failed."]
    job: Annotated[int | None, "The id of the job that failed; null if there is none, or if you may not see it."]
    detail: Annotated[str | None, "What the agent reported; null if you may not see the job."]
    forgiven_at: Annotated[Moment | None, "When an operator cleared the strike; null if it still counts."]


class HealthReport(TypedDict):
    """What an agent reported of a GPU, or of the node where `gpu` is null; once for as long as it goes on."""

    at: Annotated[Moment, "When the problem was first reported."]
    last_at: Annotated[Moment, "When the problem was last reported."]
    count: Annotated[int, "How often it was told."]
    gpu: Annotated[int | None, "The index of the GPU."]
    kind: Annotated[str, "The kind of problem."]
    xid: Annotated[int | None, "The NVIDIA Xid error number; null for other problems."]
    level: Annotated[GpuLevel, "How serious the problem is."]
    action: Annotated[GpuAction, "What has to be done about the problem."]
    words: Annotated[str, "What it means."]
    detail: Annotated[str | None, "What the agent wrote; null for who is no operator."]
    over_at: Annotated[Moment | None, "Since when it no longer counts."]


class GpuCheck(TypedDict):
    """The newest check of a GPU between jobs; `detail` is null for who is no operator."""

    gpu: Annotated[int, "The index of the GPU."]
    wanted: Annotated[bool, "Whether one is asked for, and no result has come."]
    at: Annotated[Moment | None, "Null if no check of it is over yet."]
    result: Annotated[
        CheckResult | None,
        "The result of the last check; null if none has finished. `stopped`: a job needed the GPU. `unanswered`: the "
        "agent did not reply.",
    ]
    how: Annotated[str, "matmul: it did work whose result is known; nvml: it was looked at only."]
    detail: Annotated[str | None, "What the agent wrote; null if you are not an operator."]
    duration_s: Annotated[float, "How long the last check took, in seconds."]
    tflops: Annotated[float | None, "Of products of matrices in 32 bits, or TF32."]
    gb_s: Annotated[float | None, "Of copies in its memory, each byte read and written."]
    streak: Annotated[int, "How many were passed in a row; below 0, how many failed."]


class NodeJob(TypedDict):
    """A job that runs on a node and that the caller may see."""

    id: Annotated[int, "The id of the job."]
    name: Annotated[str, "The name of the job."]
    owner: Annotated[str, "The user name of the job's owner."]
    tenant: Annotated[str, "The name of the tenant that the job belongs to."]
    gpus: Annotated[int, "GPUs of the whole job, on all of its nodes."]
    nodes: Annotated[int, "Nodes of the whole job."]
    preemptible: Annotated[bool, "Whether moving jobs off the node stops it and queues it again."]


class NodeDetail(Node):
    """A server with its drivers, its jobs, how its GPUs are linked and what it was last blamed for."""

    running_jobs: Annotated[list[NodeJob], "By number; without the jobs that are being stopped already."]
    driver_version: Annotated[str | None, "Of its GPUs; null without one."]
    toolkit_version: Annotated[str | None, "Of the NVIDIA Container Toolkit; null without one."]
    disk_mib: Annotated[int | None, "Of the disk that its jobs fill; null where its agent does not say."]
    disk_free_mib: Annotated[int | None, "The free space on that disk in MiB; null if the agent does not report it."]
    links: Annotated[
        list[list[int]],
        "How close each two GPUs are, by index, larger is closer: 10 for each NVLink, else where they meet on PCIe: 5"
        " at one switch, 4 over several, 3 at a host bridge, 2 on one NUMA node, 1 across sockets. Empty if unknown.",
    ]
    last_strikes: Annotated[list[NodeStrike], "The newest first."]
    install: Annotated[
        str | None, "Where the agent is in a container, for operators: the two lines that install one on a server."
    ]
    health_reports: Annotated[list[HealthReport], "What was reported last, the newest first."]
    gpu_checks: Annotated[list[GpuCheck], "By GPU; those that were checked, or are to be."]
    maintenance: Annotated[list[Maintenance], "Planned or under way, the next one first."]


class NodeList(TypedDict):
    """Every node, by name."""

    results: Annotated[list[Node], "The nodes."]
    next: Annotated[str | None, "Always null: the list comes whole."]


class PoolGpus(TypedDict):
    """GPUs of one type: `free` ones could be given to a job now."""

    type: Annotated[str, "The GPU type."]
    total: Annotated[int, "The GPUs of this type in the pool, except those of retired nodes."]
    used: Annotated[int, "The GPUs that jobs hold."]
    free: Annotated[int, "The GPUs that a job could get now: healthy, not held, and on a node that takes jobs."]


class Pool(TypedDict):
    """Nodes that are scheduled together."""

    name: Annotated[str, "The name of the pool."]
    policy: Annotated[str, "The policy, which orders the waiting jobs."]
    placement: Annotated[str, "The placement, which picks the nodes and GPUs of a job."]
    admission: Annotated[str, "What decides whether a virtual cluster may have the GPUs, such as `quota`."]
    nodes: Annotated[int, "The number of nodes that are not retired."]
    gpus: Annotated[list[PoolGpus], "The GPUs of the pool, by type."]


class PoolList(TypedDict):
    """Every pool, by name."""

    results: Annotated[list[Pool], "The pools."]
    next: Annotated[str | None, "Always null: the list comes whole."]
