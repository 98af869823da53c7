"""States, reasons and exit codes of jobs in Slurm's words."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from enum import Enum

from muster.jobs.models import Attempt, Job
from scheduler.model.lifecycle import AttemptState, HoldReason, JobState
from scheduler.model.reasons import Reason, reasons_where

_SIGNALLED = re.compile(r"killed by (?:signal )?(\w+)", re.ASCII)


class State(Enum):
    """The state of a job by Slurm's code for it, in the order in which squeue sorts them."""

    PENDING = "PD"
    RUNNING = "R"
    SUSPENDED = "S"
    COMPLETED = "CD"
    CANCELLED = "CA"
    FAILED = "F"
    TIMEOUT = "TO"
    NODE_FAIL = "NF"
    PREEMPTED = "PR"
    BOOT_FAIL = "BF"
    DEADLINE = "DL"
    OUT_OF_MEMORY = "OOM"
    COMPLETING = "CG"
    CONFIGURING = "CF"
    REQUEUED = "RQ"
    RESIZING = "RS"
    REVOKED = "RV"
    SIGNALING = "SI"
    SPECIAL_EXIT = "SE"
    STAGE_OUT = "SO"
    STOPPED = "ST"

    @property
    def is_over(self) -> bool:
        """True if a job in this state does not run again by itself."""
        return self in _OVER

    @classmethod
    def of_word(cls, word: str) -> State | None:
        """The state by its name or its code, whatever their case; None if it is none."""
        upper = word.upper()
        return next((state for state in cls if upper in {state.name, state.value}), None)


_OVER = frozenset(
    {State.COMPLETED, State.CANCELLED, State.FAILED, State.TIMEOUT, State.NODE_FAIL, State.PREEMPTED}
    | {State.BOOT_FAIL, State.DEADLINE, State.OUT_OF_MEMORY}
)
_ENDS: Mapping[str, State] = {
    Reason.TIME_LIMIT: State.TIMEOUT,
    Reason.OUT_OF_MEMORY: State.OUT_OF_MEMORY,
    Reason.PREEMPTED: State.PREEMPTED,
    Reason.REQUEUED_BY_USER: State.REQUEUED,
    **dict.fromkeys(reasons_where(lambda meaning: meaning.is_departure), State.NODE_FAIL),
}
_HOLDS: Mapping[str, str] = {
    HoldReason.QUOTA: "AssocGrpGRES",
    HoldReason.QUOTA_TOO_SMALL: "AssocMaxGRESPerJob",
    HoldReason.CAP: "AssocGrpJobsLimit",
    HoldReason.INFEASIBLE: "BadConstraints",
    HoldReason.REFUSED: "BadConstraints",
    HoldReason.RUNTIME: "BadConstraints",
    HoldReason.NO_FREE_GPUS: "Resources",
    HoldReason.FRAGMENTED: "Resources",
    HoldReason.CPU_OR_MEMORY: "Resources",
    HoldReason.STILL_STOPPING: "Resources",
    HoldReason.SINGLE_USER: "Resources",
    HoldReason.NAMED_NODES: "Resources",
    HoldReason.BEHIND_HEAD: "Priority",
    HoldReason.CYCLE_LIMIT: "Priority",
    HoldReason.RESERVED: "Priority",
    HoldReason.POLICY: "Priority",
    HoldReason.MAINTENANCE: "ReqNodeNotAvail, Reserved for maintenance",
    HoldReason.GROUP: "JobArrayTaskLimit",
    HoldReason.DEPENDENCY: "Dependency",
    HoldReason.BACK_OFF: "BeginTime",
    HoldReason.BEGIN: "BeginTime",
    HoldReason.HELD: "JobHeldUser",
}
_REASONS: Mapping[State, str] = {
    State.FAILED: "NonZeroExitCode",
    State.TIMEOUT: "TimeLimit",
    State.NODE_FAIL: "NodeDown",
    State.OUT_OF_MEMORY: "OutOfMemory",
}


def state_of(job: Job, attempt: Attempt | None) -> State:
    """The state of a job, whose last attempt this is."""
    if job.state == JobState.QUEUED:
        return State.PENDING
    if job.state == JobState.SUCCEEDED:
        return State.COMPLETED
    if job.state == JobState.CANCELLED:
        return State.CANCELLED
    if job.state == JobState.FAILED:
        return _ENDS.get(job.reason, State.FAILED)
    if attempt is None or attempt.state in {AttemptState.PLACED, AttemptState.STARTING}:
        return State.CONFIGURING
    return State.COMPLETING if attempt.state == AttemptState.STOPPING else State.RUNNING


def state_of_attempt(attempt: Attempt) -> State:
    """The state in which an earlier attempt of a job ended."""
    if attempt.state == AttemptState.SUCCEEDED:
        return State.COMPLETED
    if attempt.state == AttemptState.CANCELLED:
        return State.CANCELLED
    return _ENDS.get(attempt.reason, State.FAILED)


def reason_of(job: Job, state: State) -> str:
    """The reason why a job waits, or ended as it did; `None` if there is none."""
    if state is not State.PENDING:
        return _REASONS.get(state, "None")
    if job.hold_reason == HoldReason.DEPENDENCY and (job.hold or {}).get("detail", "").startswith("waits for ever"):
        return "DependencyNeverSatisfied"
    return _HOLDS.get(job.hold_reason, "None")


def status_of(state: State, ended: Job | Attempt) -> tuple[int, int]:
    """The exit status and the signal of a job, or of one of its attempts, that is in this state."""
    if not state.is_over or state in {State.CANCELLED, State.TIMEOUT, State.COMPLETED}:
        return 0, 0
    found = _SIGNALLED.search(ended.reason_detail) if ended.reason == Reason.KILLED_BY_SIGNAL else None
    if found:
        return 0, _signal_number(found[1])
    if state is State.OUT_OF_MEMORY:
        return 0, 125
    return (1 if ended.exit_code is None else ended.exit_code), 0


def _signal_number(name: str) -> int:
    """The number of a signal by its name; one without a name is written as its number."""
    return int(name) if name.isdecimal() else int(signal.Signals.__members__.get(name, signal.SIGKILL))
