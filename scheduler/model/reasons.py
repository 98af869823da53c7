"""The reasons for which attempts and jobs end, with what each means: one row a reason.

A new reason is a row here, a use where it comes about, and a member of `nodeagent.protocol.terms.EndReason` if agents
report it. Code asks a row, or `reasons_where` for a set; no other module lists reasons by their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Self


class RetryOn(StrEnum):
    """A kind of end after which a job is retried."""

    INFRASTRUCTURE = "infrastructure"
    NODE_LOST = "node_lost"
    FAILED = "failed"
    ANYTHING = "anything"


class Retried(StrEnum):
    """Rules for the retry of a job after such an end of its attempt."""

    FREE = "free"
    """Always, without a pause: nothing failed, and no node is to blame."""
    COUNTED = "counted"
    """As its spec says, as long as it has retries left."""
    NEVER = "never"
    """Whatever its spec says."""


class Log(StrEnum):
    """The part that a failed attempt's log has in the verdict on it."""

    UNREAD = "unread"
    """The platform knows the cause, or there is no log."""
    READ = "read"
    """The log explains the failure, and changes nothing about retries."""
    DECIDES = "decides"
    """The platform does not know the cause: the log may, and then decides about retries."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of an end reason.

    `category` is the word of `retry.on` that covers it, None for one that only `anything` covers. `blames` is a
    category of failure classes.
    """

    title: str
    category: RetryOn | None = None
    blames: str = "user"
    retry: Retried = Retried.COUNTED
    log: Log = Log.READ
    pauses: bool = True
    """The next try waits. Not where the cause is out of service already."""
    black_hole: bool = False
    """A node that fails all jobs may have caused it."""
    strikes: bool = False
    """A node that launches so gets a strike: no job can bring it about by what it does."""
    by_agent: bool = False
    """Agents report it."""
    by_job: bool = False
    """The job causes it: its command, or something that its spec names."""
    by_sweep: bool = False

    @property
    def is_departure(self) -> bool:
        """True if the node went away under the attempt."""
        return self.category is RetryOn.NODE_LOST


_infrastructure = partial(Meaning, category=RetryOn.INFRASTRUCTURE, blames="infrastructure")
_departure = partial(Meaning, category=RetryOn.NODE_LOST, blames="infrastructure", pauses=False)
_failed = partial(Meaning, category=RetryOn.FAILED, by_agent=True, by_job=True)
_agent = partial(Meaning, by_agent=True)


class Reason(StrEnum):
    """Reasons for the end or the stop of an attempt or a job."""

    _value_: str
    meaning: Meaning

    # The default is for type checkers alone, which read `Reason(value)` as a call of this.
    def __new__(cls, value: str, meaning: Meaning = Meaning("")) -> Self:
        """The member of this value."""
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    COMPLETED = "completed", _agent("Completed")
    EXIT_NONZERO = "exit_nonzero", _failed("Exited with an error", log=Log.DECIDES, black_hole=True)
    KILLED_BY_SIGNAL = "killed_by_signal", _failed("Killed by signal", log=Log.DECIDES, black_hole=True)
    COMMAND_NOT_FOUND = (
        "command_not_found",
        _agent("Command not found", log=Log.DECIDES, black_hole=True, by_job=True),
    )
    LAUNCH_FAILED = (
        "launch_failed",
        _infrastructure("Could not be started", log=Log.UNREAD, black_hole=True, strikes=True, by_agent=True),
    )
    CODE_UNAVAILABLE = (
        "code_unavailable",
        _infrastructure("Code unavailable", log=Log.UNREAD, black_hole=True, by_agent=True),
    )
    IMAGE_NOT_FOUND = "image_not_found", _agent("Image not found", by_job=True)
    IMAGE_DENIED = "image_denied", _agent("Image not allowed", by_job=True)
    IMAGE_UNREACHABLE = "image_unreachable", _infrastructure("Registry out of reach", black_hole=True, by_agent=True)
    IMAGE_NO_SPACE = "image_no_space", _infrastructure("No space for the image", black_hole=True, by_agent=True)
    OUT_OF_MEMORY = "out_of_memory", _failed("Out of memory", log=Log.DECIDES)
    DISK_EXCEEDED = "disk_exceeded", _failed("Too much disk used")
    SPEC_REFUSED = "spec_refused", _infrastructure("Refused by the node", log=Log.UNREAD, by_agent=True)
    TIME_LIMIT = "time_limit", _agent("Time limit reached")
    CANCELLED_BY_USER = "cancelled_by_user", Meaning("Cancelled by user")
    PREEMPTED = "preempted", Meaning("Preempted", blames="platform", retry=Retried.FREE)
    REQUEUED_BY_USER = "requeued_by_user", Meaning("Requeued by user", retry=Retried.FREE)
    NOT_CLAIMED = "not_claimed", _infrastructure("Not picked up by the node", log=Log.UNREAD, strikes=True)
    NEVER_STARTED = (
        "never_started",
        _infrastructure("Never started", log=Log.UNREAD, black_hole=True, strikes=True, by_agent=True),
    )
    NODE_LOST = "node_lost", _departure("Node lost")
    NODE_REBOOTED = "node_rebooted", _departure("Node rebooted")
    GPU_FAILED = "gpu_failed", _infrastructure("GPU failed", pauses=False)
    SCREENING_PASSED = "screening_passed", Meaning("Screening passed")
    GPU_CHECK_FAILED = (
        "gpu_check_failed",
        _infrastructure("GPU check failed", log=Log.UNREAD, pauses=False, by_agent=True),
    )
    IDLE = "idle", Meaning("GPUs were idle", retry=Retried.NEVER, log=Log.UNREAD)
    AGENT_STOPPED = "agent_stopped", _infrastructure("Agent stopped", log=Log.UNREAD, by_agent=True)
    UNKNOWN = "unknown", _infrastructure("Unknown", black_hole=True, by_agent=True)
    DEPENDENCY_NEVER_MET = "dependency_never_met", Meaning("What it waited for cannot happen", log=Log.UNREAD)
    INFEASIBLE = "infeasible", Meaning("Fits no node", log=Log.UNREAD, by_job=True)
    LOSS_DIVERGED = "loss_diverged", Meaning("The loss diverged", retry=Retried.NEVER)
    LOG_RULE = "log_rule", Meaning("Stopped by a rule of the operators", retry=Retried.NEVER, log=Log.UNREAD)
    RESIZE_FAILED = (
        "resize_failed",
        Meaning("Did not come back from a resize", retry=Retried.FREE, log=Log.UNREAD),
    )
    STOPPED_EARLY = "stopped_early", Meaning("Stopped by its sweep", by_sweep=True)
    PAUSED = "paused", Meaning("Paused by its sweep", retry=Retried.FREE, by_sweep=True)


def reasons_where(holds: Callable[[Meaning], bool]) -> frozenset[Reason]:
    """The reasons whose meaning passes the test."""
    return frozenset(reason for reason in Reason if holds(reason.meaning))
