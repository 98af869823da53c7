"""Traces, the output of every reader and generator: jobs in submission order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.lifecycle import JobClass
from scheduler.model.request import Over
from scheduler.sim.applications.throughputs import Throughputs
from scheduler.sim.work import Work


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace; sizes are for the whole job.

    A job with `split` may run on any number of nodes, as most traces only give the number of GPUs. Without it, the job
    is a gang of `nodes` ranks with `gpus / nodes` each.
    """

    id: int  # from 1, in submission order; ties in the order of the file
    name: str
    submitted_s: float  # since the start of the trace
    gpus: int
    work: Work
    vc: str = "default"
    owner: str = "owner"
    gpu_type: str | None = None
    gpu_types: tuple[str, ...] = ()  # the acceptable types if `gpu_type` is None; empty: all
    nodes: int = 1
    split: bool = True
    max_gpus: int = 0  # 0: the size is fixed at `gpus`; else any size from `min_gpus` to this
    min_gpus: int = 1  # without `split`, both are multiples of `nodes`, which stay the same, or `over` the gang
    over: Over = Over.NODE
    cpus: int = 0  # per GPU with `split`, per node without
    memory_mib: int = 0  # like `cpus`
    priority: int = 0
    weight: float = 1.0
    job_class: JobClass = JobClass.GUARANTEED
    preemptible: bool = True
    checkpoints: bool = True
    time_limit_s: float | None = None
    expected_s: float | None = None  # the user's estimate of the run time
    model: str = ""
    gpu_utilization: float | None = None  # of each of its GPUs, 0 to 1
    gpu_memory_mib: int | None = None  # of each of its GPUs
    gpu_share: float = 1.0  # the share of each GPU that it asks for, above 0 and up to 1
    status: str = ""  # the end according to the trace: succeeded, failed, cancelled, or nothing
    attempts: int = 1  # the original cluster's attempts, whose run times add up to that of the work
    failure: str = ""  # of a failing job: its `FailureClass`
    cause: str = ""  # and its cause, from `scheduler.sim.times`
    mode: str = ""  # how its batch size changes by itself: static, accordion, gns, or nothing
    group: str = ""  # the group of its virtual cluster whose member it is, such as a sweep; nothing: none
    deadline_s: float | None = None  # after the submission; the target of deadline policies
    waited_s: float | None = None  # from submission to start in the original cluster
    line: int = field(default=0, compare=False)  # the line in the file; 0: it is from no file


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a trace that cannot be used, and the reason."""

    line: int
    reason: str


class TraceError(ValueError):
    """A trace that cannot be used; the message names the file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of one file, and the lines and jobs left out."""

    name: str
    jobs: tuple[TraceJob, ...]
    skipped: tuple[BadLine, ...] = ()
    # vc -> GPU type -> GPUs, if the trace has them
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # The number of valid jobs left out (no GPU asked for, never started), by reason.
    left_out: Mapping[str, int] = field(default_factory=dict)
    throughputs: Throughputs | None = None  # the measurements of its jobs' models, some of them in pairs
    began_at: float | None = None  # the moment of its start, epoch s, if its jobs are dated
