"""The JSON objects of nodes and GPUs, as typed dictionaries."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class JobBrief(TypedDict):
    """The job that holds a GPU, as far as the caller may see it."""

    id: int
    name: str
    owner: str
    tenant: str


class NodeJob(JobBrief):
    """A job that runs on a node; `gpus` and `nodes` count the whole job."""

    gpus: int
    nodes: int
    preemptible: bool


class Gpu(TypedDict):
    """A GPU and its latest sample."""

    uuid: str
    index: int
    node: str
    type: str
    memory_mib: int
    healthy: bool
    health: NotRequired[str]
    health_why: NotRequired[str | None]
    utilization: float | None
    memory_used_mib: int | None
    temperature_c: float | None
    power_w: float | None
    jobs: list[JobBrief]
    busy: bool


class GpuCheck(TypedDict):
    """The newest check of a GPU between jobs."""

    gpu: int
    wanted: bool
    at: str | None
    result: str | None
    how: str
    detail: str | None
    duration_s: float
    tflops: float | None
    gb_s: float | None
    streak: int


class Node(TypedDict):
    """A node with its GPUs."""

    name: str
    pool: str
    admin: str
    health: str
    reason: str | None
    address: str
    cpus: int
    cpus_used: int
    memory_mib: int
    memory_used_mib: int
    rack: str
    labels: dict[str, str]
    last_seen_at: str | None
    gpus: list[Gpu]
    runtimes: NotRequired[list[str]]
    no_containers: NotRequired[str | None]
    # The server leaves these out of lists.
    running_jobs: NotRequired[list[NodeJob]]
    gpu_checks: NotRequired[list[GpuCheck]]
    disk_mib: NotRequired[int | None]
    disk_free_mib: NotRequired[int | None]
