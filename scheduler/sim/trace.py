"""What every reader makes of a file, and every generator of a seed: jobs in the order of their submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.sim.applications.throughputs import Throughputs
from scheduler.sim.work import Work


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace; sizes are for the whole job.

    A job with `split` may lie on any number of nodes, as most traces only say how many GPUs a job had. Without it, it
    is a gang of `nodes` ranks with `gpus / nodes` each.
    """

    id: int  # from 1, in the order of submission; ties in the order of the file
    name: str
    submitted_s: float  # since the start of the trace
    gpus: int
    work: Work
    vc: str = "default"
    owner: str = "owner"
    gpu_type: str | None = None
    gpu_types: tuple[str, ...] = ()  # the types that it may use, where `gpu_type` is None; empty: all
    nodes: int = 1
    split: bool = True
    max_gpus: int = 0  # 0: the size is fixed at `gpus`; else any size from 1 to this will do
    cpus: int = 0  # per GPU with `split`, per node without
    memory_mib: int = 0  # likewise
    priority: int = 0
    weight: float = 1.0
    preemptible: bool = True
    checkpoints: bool = True
    time_limit_s: float | None = None
    expected_s: float | None = None  # its user's estimate of the run time
    model: str = ""
    gpu_utilization: float | None = None  # of each of its GPUs, 0 to 1
    gpu_memory_mib: int | None = None  # of each of its GPUs
    gpu_share: float = 1.0  # the part of each of its GPUs that it asks for, above 0 and up to 1
    status: str = ""  # what the trace says of its end: succeeded, failed, cancelled, or nothing
    attempts: int = 1  # so many of them together had the time of its work, in the cluster that the trace was taken from
    failure: str = ""  # of a job that fails: its `FailureClass`
    cause: str = ""  # and what it fails of, where `scheduler.sim.times` says so
    mode: str = ""  # how its batch size changes by itself: static, accordion, gns, or nothing
    deadline_s: float | None = None  # after the submission; what a deadline policy aims at
    waited_s: float | None = None  # from submission to start in the cluster that the trace was taken from
    line: int = field(default=0, compare=False)  # where the file has it; 0: it is from no file


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a trace that cannot be used, and why."""

    line: int
    reason: str


class TraceError(ValueError):
    """A trace that cannot be used; the message names the file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of one file, and what was left out of it when asked to."""

    name: str
    jobs: tuple[TraceJob, ...]
    skipped: tuple[BadLine, ...] = ()
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # vc -> GPU type -> GPUs, where it says
    # Why jobs that the format allows are not among `jobs` (no GPU asked for, never started), and how many.
    left_out: Mapping[str, int] = field(default_factory=dict)
    throughputs: Throughputs | None = None  # where its jobs' models were measured, some of them in pairs
