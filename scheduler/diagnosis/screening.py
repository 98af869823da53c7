"""Trying a big job on a small pool before it gets its gang: who is tried, on how much, and what a trial tells.

The same rules serve production and the simulator. Nothing here knows of time or of a database: whoever asks says how
many GPUs are free, and how an attempt ended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.diagnosis.failures import Retry, Verdict
from scheduler.model.lifecycle import AttemptState, Reason

MOST_TRIES = 3
"""A trial that somebody else has ended is begun again; after so many the job goes on untried."""
LONGEST_GRACE_S = 30.0
"""A trial has nothing to save, so it need not have a job's whole grace to end."""


class Mode(StrEnum):
    """Whether jobs are tried: what an owner says of a job, and a tenant of all of its jobs."""

    AUTO = "auto"
    """Those that are large enough, unless one like them has passed of late."""
    ALWAYS = "always"
    """Whatever its size, and whatever has passed."""
    NEVER = "never"


class TrialVerdict(StrEnum):
    """What came of a job's trial."""

    PASSED = "passed"
    """It ran for the whole time, or got to its first step."""
    FAILED = "failed"
    """It failed by itself, and not for want of its gang."""
    INCONCLUSIVE = "inconclusive"
    """It ended well by itself, or failed in a way that needs its gang, or that so few GPUs may have brought about."""
    INTERRUPTED = "interrupted"
    """It was ended by others: its node, the platform, its owner. It is tried again, or goes on untried."""
    UNTRIED = "untried"
    """It goes on without a trial, because it would have had to wait for too long, or nothing there can run it."""
    TRUSTED = "trusted"
    """It goes on without a trial, because the same has passed of late."""


class Then(StrEnum):
    """What becomes of a job after a trial."""

    GO_ON = "go_on"
    """Into the queue of its own pool."""
    AGAIN = "again"
    """Into the queue of the screening pool, for another trial."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Rules:
    """A job of more than `min_gpus` GPUs is tried on `world` of them, or on one if only one is free, for `minutes` at
    most. One that has waited for `max_wait_s` goes on untried."""

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
        """The longest trial."""
        return self.minutes * 60.0


def combined(*, of_job: Mode, of_tenant: Mode) -> Mode:
    """What holds for a job: the word of its tenant, and where that says `auto` the job's own."""
    return of_job if of_tenant is Mode.AUTO else of_tenant


def is_tried(rules: Rules, mode: Mode, gpus: int) -> bool:
    """Whether a job of so many GPUs is tried, unless the same is trusted; never one that is no larger than a trial."""
    if mode is Mode.NEVER or gpus <= 1:
        return False
    return mode is Mode.ALWAYS or gpus > rules.min_gpus


def ranks_for(free: int, world: int) -> int:
    """On how many GPUs a job is tried whose turn it is, with so many free; 0: it waits."""
    return min(free, world)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a trial has: so many nodes, and on each so many GPUs."""

    nodes: int
    gpus: int

    @property
    def total(self) -> int:
        """GPUs of the whole trial."""
        return self.nodes * self.gpus


def shape_for(*, nodes: int, gpus: int, free: Sequence[int], world: int) -> Shape | None:
    """How a job of `nodes` times `gpus` GPUs is tried where nodes have so many `free` GPUs; None: it has to wait.

    1. With two GPUs: a job of several nodes has one on each of two, so that these have to find each other. Where two
       nodes cannot be had, and for a job of one node, they lie on one.
    2. With one GPU where no two are free.
    """
    some = [count for count in free if count > 0]
    if ranks_for(sum(some), world) == 2:
        if nodes > 1 and len(some) > 1:
            return Shape(2, 1)
        if max(some) > 1 and nodes * gpus > 1:
            return Shape(1, 2)
    return Shape(1, 1) if some else None


def part_of(whole: int, *, gpus: int, of: int) -> int:
    """What a rank of a trial with so many GPUs gets of the CPUs or the memory of a rank `of` so many, rounded up."""
    return whole if gpus >= of else max(1, math.ceil(whole * gpus / of))


# Where a run writes down how it goes does not change how it goes.
_ENV_THAT_TELLS_NOTHING = re.compile(
    r"(WANDB|MLFLOW|COMET|NEPTUNE|CLEARML|TENSORBOARD)_.*|(NCCL|TORCH_DISTRIBUTED|GLOO|PYTHON)_?DEBUG|LOG_?LEVEL|"
    r"(RUN|EXP|EXPERIMENT|JOB)_?(NAME|ID)"
)


def identity_of(
    *, image: str, command: str, code: str, workdir: str, env: Mapping[str, str], mounts: Iterable[str] = ()
) -> str:
    """What a job runs, as one text: two jobs have it in common if a trial of the one tells as much of the other.

    Names of runs, and what only says where a run is logged, are left out of the environment. In what order volumes are
    mounted says nothing.
    """
    told = sorted((name, value) for name, value in env.items() if not _ENV_THAT_TELLS_NOTHING.fullmatch(name))
    return repr((image, command, code, workdir, told, *sorted(mounts)))


GANG_FAILURES = frozenset({"nccl_timeout", "nccl_error", "rendezvous_error", "mpi_error", "mpi_runtime_failure"})
"""Classes that say more of those who were not there than of the job."""
FAILURES_OF_A_SMALL_WORLD = frozenset({"gpu_out_of_memory", "cpu_out_of_memory"})
"""A model that is spread over its gang does not fit on one GPU, and a trial has its part of the memory only."""
_ASKS_FOR_ITS_WORLD = re.compile(
    r"world[ _-]?size|nproc|n?_?nodes\b|num_?gpus|n_?gpus|number of (gpus|devices|nodes|processes|ranks|workers)|"
    r"device ordinal|invalid (cuda )?device|device index",
    re.IGNORECASE,
)


def needs_gang(failure: str) -> bool:
    """Whether a failure of that class shows with several ranks only."""
    return failure in GANG_FAILURES


def may_be_of_the_trial(failure: str, line: str) -> bool:
    """Whether the trial itself may have brought the failure about, by its having few GPUs."""
    small = failure in FAILURES_OF_A_SMALL_WORLD
    return small or needs_gang(failure) or _ASKS_FOR_ITS_WORLD.search(line) is not None


# Ends that are the job's own: what it did, or what its spec names.
_OF_THE_JOB = frozenset(
    {
        Reason.EXIT_NONZERO,
        Reason.KILLED_BY_SIGNAL,
        Reason.OUT_OF_MEMORY,
        Reason.DISK_EXCEEDED,
        Reason.COMMAND_NOT_FOUND,
        Reason.IMAGE_NOT_FOUND,
        Reason.IMAGE_DENIED,
        Reason.INFEASIBLE,
    }
)
# The trial has run for its time, whoever looked at the clock.
_OVER = frozenset({Reason.SCREENING_PASSED, Reason.TIME_LIMIT})


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a trial says of its job, why, and what becomes of the job."""

    verdict: TrialVerdict
    then: Then
    why: str


def judge(
    *, ended_as: AttemptState, reason: Reason, failure: Verdict | None, tries: int, by_node: bool = False
) -> Judgement:
    """What the end of a trial says; `tries` counts it and those before it.

    1. Whoever is still there when the time is up, or had begun its first step, has passed.
    2. Who ended well by itself has shown little: it goes on, and is trusted no more than before.
    3. A failure that needs the gang, or that a trial's having few GPUs may have brought about, says nothing either.
    4. What others have done to the trial (its node, which `by_node` knows to fail everybody, the network, the platform,
       its owner) says nothing of the job: it is tried again, and after some tries goes on untried.
    5. Any other failure is the job's own.
    """
    if reason in _OVER:
        return Judgement(TrialVerdict.PASSED, Then.GO_ON, "")
    if ended_as is AttemptState.SUCCEEDED:
        return Judgement(TrialVerdict.INCONCLUSIVE, Then.GO_ON, "it ended by itself, with status 0")
    told = failure if reason in _OF_THE_JOB else None
    if told is not None and may_be_of_the_trial(told.failure, told.line):
        return Judgement(TrialVerdict.INCONCLUSIVE, Then.GO_ON, f"{told.failure} may be due to so few GPUs")
    healed = told is not None and told.retry in {Retry.YES, Retry.ELSEWHERE}
    if reason in _OF_THE_JOB and not healed and not by_node:
        return Judgement(TrialVerdict.FAILED, Then.FAIL, "")
    why = told.failure if told is not None else reason.value
    if tries < MOST_TRIES:
        return Judgement(TrialVerdict.INTERRUPTED, Then.AGAIN, f"{why}: it is tried again")
    return Judgement(TrialVerdict.INTERRUPTED, Then.GO_ON, f"{why}: it goes on untried after {tries} trials")


def spent_gpu_s(*, gpus: int, held_s: float) -> float:
    """GPU-seconds of the screening pool that a trial took."""
    return gpus * max(held_s, 0.0)


def full_gpu_s(*, gpus_asked: int, failed_after_s: float) -> float:
    """GPU-seconds that the whole gang would have computed until it failed as its trial did: an estimate, by the time
    that the trial took to fail. The gang takes longer to start, and may be tried several times."""
    return gpus_asked * max(failed_after_s, 0.0)
