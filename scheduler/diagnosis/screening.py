"""The rules of screening: which jobs first run on a few GPUs of a small pool, on how many, and what such a run shows.

Production and the simulator use the same rules. They read neither clock nor database: callers pass the numbers of free
GPUs and the end of an attempt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.diagnosis.failures import Retry, Verdict
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason

MAX_RUNS = 3
"""Interrupted screening runs of a job after which the job goes on unscreened."""
MAX_GRACE_S = 30.0
"""A screening run has nothing to save, so its grace to end is at most this, whatever the job's own grace."""


class Mode(StrEnum):
    """Rules for screening: a setting of a job, and of a tenant for all of its jobs."""

    AUTO = "auto"
    """Jobs above the pool's size limit, unless an equal job passed recently."""
    ALWAYS = "always"
    """Every job of several GPUs, also if an equal job passed recently."""
    NEVER = "never"


class ScreeningVerdict(StrEnum):
    """The result of a screening run, or why there was none."""

    PASSED = "passed"
    """It ran for the whole time, or reached its first step."""
    FAILED = "failed"
    """It failed by itself, and not because its gang was missing."""
    INCONCLUSIVE = "inconclusive"
    """It ended with status 0, or failed in a way that only a gang shows, or that the few GPUs may have caused."""
    INTERRUPTED = "interrupted"
    """Its node, the platform or its owner ended it. The job is screened again, or goes on unscreened."""
    UNTRIED = "untried"
    """The job went on unscreened: it waited too long, or no node of the screening pool can run it."""
    TRUSTED = "trusted"
    """The job was not screened, because an equal job passed recently."""


class Then(StrEnum):
    """Fates of a job after a screening run."""

    GO_ON = "go_on"
    """It enters the queue of its own pool."""
    AGAIN = "again"
    """It enters the queue of the screening pool again."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Rules:
    """A job of more than `min_gpus` GPUs is screened on `world` of them, or on one if only one is free, for at most
    `minutes`. A job that waited for `max_wait_s` goes on unscreened. A job equal to one that passed is trusted for
    `trust_days`."""

    minutes: float = 5.0
    min_gpus: int = 2
    world: int = 2
    max_wait_s: float = 600.0
    trust_days: float = 7.0

    def __post_init__(self) -> None:
        limits = {"minutes": self.minutes > 0, "min_gpus": self.min_gpus >= 1, "world": self.world in {1, 2}}
        limits |= {"max_wait_s": self.max_wait_s >= 0, "trust_days": self.trust_days >= 0}
        for name, holds in limits.items():
            if not holds:
                raise ValueError(f"{name} cannot be {getattr(self, name)}")

    @property
    def window_s(self) -> float:
        """The maximum length of a screening run."""
        return self.minutes * 60.0


def combined(*, of_job: Mode, of_tenant: Mode) -> Mode:
    """The mode of a job: its tenant's, or its own where the tenant's is `auto`."""
    return of_job if of_tenant is Mode.AUTO else of_tenant


def is_screened(rules: Rules, mode: Mode, gpus: int) -> bool:
    """True if a job of `gpus` GPUs is screened, unless it is trusted. A job of one GPU never is."""
    if mode is Mode.NEVER or gpus <= 1:
        return False
    return mode is Mode.ALWAYS or gpus > rules.min_gpus


def ranks_for(free: int, world: int) -> int:
    """The GPUs of the next screening run while `free` GPUs are free; 0: it waits."""
    return min(free, world)


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a screening run: its nodes, and its GPUs on each of them."""

    nodes: int
    gpus: int

    @property
    def total(self) -> int:
        """The GPUs on all nodes."""
        return self.nodes * self.gpus


def shape_for(*, nodes: int, gpus: int, free: Sequence[int], world: int) -> Shape | None:
    """The shape of the screening run of a job of `nodes` times `gpus` GPUs; None: it has to wait.

    `free` has the number of free GPUs of each node of the screening pool.

    1. Two GPUs if two are free. A job of several nodes gets them on two nodes, so that its ranks have to connect; a
       job of one node, or a pool with free GPUs on one node only, gets them on one node.
    2. Else one GPU.
    """
    some = [count for count in free if count > 0]
    if ranks_for(sum(some), world) == 2:
        if nodes > 1 and len(some) > 1:
            return Shape(2, 1)
        if max(some) > 1 and nodes * gpus > 1:
            return Shape(1, 2)
    return Shape(1, 1) if some else None


def part_of(whole: int, *, gpus: int, of: int) -> int:
    """The share of `whole` CPUs or memory, asked for `of` GPUs, that `gpus` GPUs get in a screening run; rounded up."""
    return whole if gpus >= of else max(1, math.ceil(whole * gpus / of))


# Variables that only name a run, or say where it is logged, do not change what it does.
_IGNORED_ENV = re.compile(
    r"(WANDB|MLFLOW|COMET|NEPTUNE|CLEARML|TENSORBOARD)_.*|(NCCL|TORCH_DISTRIBUTED|GLOO|PYTHON)_?DEBUG|LOG_?LEVEL|"
    r"(RUN|EXP|EXPERIMENT|JOB)_?(NAME|ID)"
)


def identity_of(
    *, image: str, command: str, code: str, workdir: str, env: Mapping[str, str], mounts: Iterable[str] = ()
) -> str:
    """The job's image, command and the like as one text. Jobs with the same text are equal: a screening run of one is
    valid for the others.

    Variables that name a run or say where it is logged are ignored, and so is the order of mounts.
    """
    told = sorted((name, value) for name, value in env.items() if not _IGNORED_ENV.fullmatch(name))
    return repr((image, command, code, workdir, told, *sorted(mounts)))


GANG_FAILURES = frozenset({"nccl_timeout", "nccl_error", "rendezvous_error", "mpi_error", "mpi_runtime_failure"})
"""Failure classes of communication between ranks: with few ranks they say little about the job."""
FEW_GPUS_FAILURES = frozenset({"gpu_out_of_memory", "cpu_out_of_memory"})
"""A model sharded over its gang does not fit on one GPU, and a screening run has a share of the host memory only."""
_NAMES_WORLD_SIZE = re.compile(
    r"world[ _-]?size|nproc|n?_?nodes\b|num_?gpus|n_?gpus|number of (gpus|devices|nodes|processes|ranks|workers)|"
    r"device ordinal|invalid (cuda )?device|device index",
    re.IGNORECASE,
)


def needs_gang(failure: str) -> bool:
    """True if a failure of this class occurs only with several ranks."""
    return failure in GANG_FAILURES


def may_be_due_to_few_gpus(failure: str, line: str) -> bool:
    """True if the few GPUs of a screening run may have caused the failure."""
    too_small = failure in FEW_GPUS_FAILURES
    return too_small or needs_gang(failure) or _NAMES_WORLD_SIZE.search(line) is not None


# The run used its time; the platform or the agent noticed it first.
_TIME_IS_UP = frozenset({Reason.SCREENING_PASSED, Reason.TIME_LIMIT})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of a screening run, what happens to the job, and why."""

    verdict: ScreeningVerdict
    then: Then
    why: str


def judge(
    *, ended_as: AttemptState, reason: Reason, failure: Verdict | None, tries: int, by_node: bool = False
) -> Judgement:
    """Judge the end of a screening run; `tries` is the number of the job's screening runs, this one included.

    1. A run that used its time, or reached its first step, passed.
    2. A run that ended with status 0 is inconclusive: the job goes on, but is not trusted.
    3. A failure that only a gang shows, or that the few GPUs may have caused, is inconclusive too.
    4. A run that its node, the network, the platform or its owner ended says nothing about the job: the job is screened
       again, and goes on unscreened after `MAX_RUNS`. `by_node`: the node is known to fail all jobs.
    5. Any other failure is the job's own.
    """
    if reason in _TIME_IS_UP:
        return Judgement(ScreeningVerdict.PASSED, Then.GO_ON, "")
    if ended_as is AttemptState.SUCCEEDED:
        return Judgement(ScreeningVerdict.INCONCLUSIVE, Then.GO_ON, "it ended with status 0")
    told = failure if reason.meaning.by_job else None
    if told is not None and may_be_due_to_few_gpus(told.failure, told.line):
        return Judgement(ScreeningVerdict.INCONCLUSIVE, Then.GO_ON, f"{told.failure} may be due to the few GPUs")
    healed = told is not None and told.retry in {Retry.YES, Retry.ELSEWHERE}
    if reason.meaning.by_job and not healed and not by_node:
        return Judgement(ScreeningVerdict.FAILED, Then.FAIL, "")
    why = told.failure if told is not None else reason.value
    if tries < MAX_RUNS:
        return Judgement(ScreeningVerdict.INTERRUPTED, Then.AGAIN, f"{why}: it is screened again")
    return Judgement(
        ScreeningVerdict.INTERRUPTED, Then.GO_ON, f"{why}: it goes on unscreened after {tries} screening runs"
    )


def spent_gpu_s(*, gpus: int, held_s: float) -> float:
    """GPU-seconds of the screening pool that a run held."""
    return gpus * max(held_s, 0.0)


def full_gpu_s(*, gpus_asked: int, failed_after_s: float) -> float:
    """An estimate of the GPU-seconds that the full gang would have computed until the same failure: by the time that
    the screening run took to fail. A gang takes longer to start, and may be retried several times."""
    return gpus_asked * max(failed_after_s, 0.0)
