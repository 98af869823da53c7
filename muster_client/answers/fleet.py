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
    healthy: Annotated[bool, "Whether jobs may use it; false once it has failed."]
    health: Annotated[GpuLevel, "A GPU with a warning is a last choice; a failed GPU gets no jobs."]
    health_since: Annotated[Moment | None, "When its health last changed; null if it was always healthy."]
    health_why: Annotated[str | None, "Why the GPU has a warning or failed; null if no reason is recorded."]
    utilization: Annotated[float | None, "Percent."]
    memory_used_mib: Annotated[float | None, "Memory in use in MiB; null if the newest reading has none."]
    temperature_c: Annotated[float | None, "Temperature in °C; null if the newest reading has none."]
    power_w: Annotated[float | None, "Power draw in watts; null if the newest reading has none."]
    jobs: Annotated[list[GpuJob], "The jobs that hold it and that you may see; two may share it."]
    busy: Annotated[bool, "Whether any job holds the GPU, including jobs that you may not see."]


class GpuList(TypedDict):
    """Every GPU, by node and index."""

    results: Annotated[list[Gpu], "The GPUs."]
    next: Annotated[str | None, "Always null: the list has one page."]


class NodeLink(TypedDict):
    """The state of the SSH connection to a node; `reason` is for operators."""

    state: Annotated[LinkState, "The state of the connection: `up`, being set up, or what failed."]
    reason: Annotated[str | None, "Details of the state; null if there are none, or if you are not an operator."]
    since: Annotated[Moment, "When the connection entered this state."]


class Node(TypedDict):
    """A server and its GPUs."""

    name: Annotated[str, "The name of the node."]
    pool: Annotated[str, "The name of the pool that the node is in."]
    admin: Annotated[NodeAdmin, "The operators' setting: only an `active` node gets new jobs."]
    health: Annotated[
        NodeHealth,
        "The observed health: `pending` until an agent joins, `suspect` and `down` when the agent is silent.",
    ]
    reason: Annotated[str | None, "Why it is cordoned or draining."]
    runtimes: Annotated[
        list[str], "The runtimes of the node: `process`, a container engine, or both; empty if no agent has joined."
    ]
    no_containers: Annotated[str | None, "Why it runs no containers; null if it does."]
    agent_in_container: Annotated[bool, "Whether its agent runs in a container: for trials, without an engine."]
    barred: Annotated[str | None, "Why no job may start there, even if the node is active."]
    single_user: Annotated[
        bool,
        "Whether it runs all jobs as one account; it takes jobs of one tenant then, unless an operator lets tenants "
        "share it.",
    ]
    single_user_shared: Annotated[bool, "Whether tenants share a single-user node."]
    host_network: Annotated[
        str | None, "The setting that gives gangs in containers the host's network; null: none does."
    ]
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
    link: Annotated[NodeLink | None, "The SSH connection to the node; null if its agent calls the platform."]
    strikes: Annotated[float, "The weight of the failures that it is blamed for; it halves with each half-life."]
    gpus: Annotated[list[Gpu], "The GPUs of the node, by index."]


class Maintenance(TypedDict):
    """A time in which a node, or every node of a pool, is to be free of jobs."""

    id: Annotated[int, "The id of the maintenance."]
    pool: Annotated[str, "The name of the pool."]
    node: Annotated[str | None, "Null: every node of the pool."]
    begins_at: Annotated[Moment, "When the maintenance is to begin."]
    ends_at: Annotated[Moment, "When the nodes take jobs again."]
    running_jobs: Annotated[
        RunningJobs, "The fate of running jobs when it begins: wait for them, or move the preemptible ones."
    ]
    reason: Annotated[str, "Why the maintenance takes place."]
    begun_at: Annotated[Moment | None, "When the maintenance began; null if it has not."]
    created_by: Annotated[str, "The user name of the operator who planned it."]


class MaintenanceList(TypedDict):
    """Maintenance that is planned or under way, the next first."""

    results: Annotated[list[Maintenance], "The maintenance that is planned or under way."]
    next: Annotated[str | None, "Always null: the list has one page."]


class NodeStrike(TypedDict):
    """A failure that a node is blamed for; `job` and `detail` are null if you may not see the job."""

    at: Annotated[Moment, "When the failure happened."]
    reason: Annotated[StrikeReason, "The kind of failure."]
    gpu: Annotated[int | None, "The index of the GPU that failed."]
    job: Annotated[int | None, "The id of the job that failed; null if there is none, or if you may not see it."]
    detail: Annotated[str | None, "The agent's report; null if you may not see the job."]
    forgiven_at: Annotated[Moment | None, "When an operator cleared the strike; null if it still counts."]


class HealthReport(TypedDict):
    """A problem that an agent reported of a GPU, or of the node if `gpu` is null; one report while it goes on."""

    at: Annotated[Moment, "When the problem was first reported."]
    last_at: Annotated[Moment, "When the problem was last reported."]
    count: Annotated[int, "The number of reports."]
    gpu: Annotated[int | None, "The index of the GPU."]
    kind: Annotated[str, "The kind of problem."]
    xid: Annotated[int | None, "The NVIDIA Xid error number; null for other problems."]
    level: Annotated[GpuLevel, "The severity of the problem."]
    action: Annotated[GpuAction, "What to do about the problem."]
    words: Annotated[str, "The meaning of the problem."]
    detail: Annotated[str | None, "The agent's words; null if you are not an operator."]
    over_at: Annotated[Moment | None, "When it ceased to count."]


class GpuCheck(TypedDict):
    """The newest check of a GPU between jobs; `detail` is for operators only."""

    gpu: Annotated[int, "The index of the GPU."]
    wanted: Annotated[bool, "Whether a check is requested and has no result yet."]
    at: Annotated[Moment | None, "When its last check ended; null if none has."]
    result: Annotated[
        CheckResult | None,
        "The result of the last check; null if none has finished. `stopped`: a job needed the GPU. `unanswered`: the "
        "agent did not reply.",
    ]
    how: Annotated[str, "matmul: it computed a product with a known result; nvml: the driver's readings only."]
    detail: Annotated[str | None, "The agent's words; null if you are not an operator."]
    duration_s: Annotated[float, "The duration of the last check, in seconds."]
    tflops: Annotated[float | None, "TFLOPS of matrix products in 32 bits, or TF32."]
    gb_s: Annotated[float | None, "GB/s of copies in its memory; each byte counts as read and written."]
    streak: Annotated[int, "Checks passed in a row; negative: checks failed in a row."]


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
    """A server with its drivers, its jobs, the links of its GPUs and the latest failures that it is blamed for."""

    running_jobs: Annotated[list[NodeJob], "Its jobs by number, without those that are already being stopped."]
    driver_version: Annotated[str | None, "The GPU driver's version; null without one."]
    toolkit_version: Annotated[str | None, "The version of the NVIDIA Container Toolkit; null without one."]
    disk_mib: Annotated[int | None, "The size of the disk for jobs, in MiB; null if the agent does not report it."]
    disk_free_mib: Annotated[int | None, "The free space on that disk in MiB; null if the agent does not report it."]
    links: Annotated[
        list[list[int]],
        "The closeness of each two GPUs, by index; larger is closer: 10 for each NVLink, else by their meeting point"
        " on PCIe: 5"
        " at one switch, 4 over several, 3 at a host bridge, 2 on one NUMA node, 1 across sockets. Empty if unknown.",
    ]
    last_strikes: Annotated[list[NodeStrike], "The newest first."]
    install: Annotated[
        str | None, "For operators, if the agent runs in a container: two lines that install an agent on a server."
    ]
    health_reports: Annotated[list[HealthReport], "The latest reports, the newest first."]
    gpu_checks: Annotated[list[GpuCheck], "The checks by GPU; GPUs without a check are left out."]
    maintenance: Annotated[list[Maintenance], "Planned or under way, the next one first."]


class NodeList(TypedDict):
    """Every node, by name."""

    results: Annotated[list[Node], "The nodes."]
    next: Annotated[str | None, "Always null: the list has one page."]


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
    admission: Annotated[str, "The admission, which decides whether a virtual cluster may have GPUs, such as `quota`."]
    nodes: Annotated[int, "The number of nodes that are not retired."]
    gpus: Annotated[list[PoolGpus], "The GPUs of the pool, by type."]


class PoolList(TypedDict):
    """Every pool, by name."""

    results: Annotated[list[Pool], "The pools."]
    next: Annotated[str | None, "Always null: the list has one page."]
