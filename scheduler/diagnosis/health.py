"""Meanings of health reports about a GPU: severity, remedy, and the effect on the job there.

The table is data and the only place that decides. It covers NVIDIA's Xid numbers, the driver's counters and what agents
see. docs/operator/health.md shows it, and a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class HealthLevel(StrEnum):
    """The health of a GPU: one with a warning is a last choice, a failed one gets no jobs."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Action(StrEnum):
    """Remedies for a GPU. The platform drains by itself; operators reset and restart."""

    NONE = "none"
    RESTART_JOB = "restart_job"
    """The application caused the error: it ends by itself, and the way it ends decides about a retry."""
    RESET_GPU = "reset_gpu"
    DRAIN_GPU = "drain_gpu"
    """No reset is known to fix it; an operator must look at it."""
    CHECK_GPU = "check_gpu"
    """The platform checks the GPU and returns it to service when a check passes."""
    DRAIN_NODE = "drain_node"
    """The machine must be restarted, so no job starts there."""


class Recovers(StrEnum):
    """Ways for a GPU to return to service by itself, easiest first."""

    AT_ONCE = "at_once"
    """After one passed check."""
    BY_CHECKS = "by_checks"
    """After as many passed checks in a row as its pool asks for."""
    BY_RESTART = "by_restart"
    """The same, after a restart of its machine."""
    NEVER = "never"
    """Only an operator returns it to service."""


class Kind(StrEnum):
    """The kinds that agents report. Unknown kinds are stored and have no effect."""

    XID = "xid"
    GPU_LOST = "gpu_lost"
    ECC = "ecc"
    ROW_REMAP_PENDING = "row_remap_pending"
    ROW_REMAP_FAILED = "row_remap_failed"
    THROTTLE = "throttle"
    NVLINK = "nvlink"
    MEMORY_HELD = "memory_held"
    CHECK_FAILED = "check_failed"
    """A check failed, before a job's start or between jobs."""
    DISK_FULL = "disk_full"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Level, action and text. The text is the platform's: owners of jobs never see what an agent wrote."""

    level: HealthLevel
    action: Action
    words: str

    @property
    def requeues(self) -> bool:
        """True if the job on the GPU is stopped and queued again, to run elsewhere."""
        return self.level is HealthLevel.FAILURE


_OK, _WARNING, _FAILURE = HealthLevel.OK, HealthLevel.WARNING, HealthLevel.FAILURE

XIDS: Mapping[int, Meaning] = {
    13: Meaning(_OK, Action.RESTART_JOB, "exception in the application's kernel"),
    31: Meaning(_OK, Action.RESTART_JOB, "page fault of the application"),
    43: Meaning(_OK, Action.NONE, "a channel of the application was reset"),
    45: Meaning(_OK, Action.NONE, "cleaned up after another error"),
    46: Meaning(_FAILURE, Action.RESET_GPU, "stopped processing"),
    48: Meaning(_FAILURE, Action.RESET_GPU, "uncorrectable memory error"),
    62: Meaning(_FAILURE, Action.RESET_GPU, "its microcontroller halted"),
    63: Meaning(_OK, Action.NONE, "a faulty part of its memory is being retired"),
    64: Meaning(_FAILURE, Action.RESET_GPU, "a faulty part of its memory could not be retired"),
    74: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
    79: Meaning(_FAILURE, Action.DRAIN_NODE, "fallen off the bus"),
    92: Meaning(_OK, Action.NONE, "many corrected memory errors"),
    94: Meaning(_WARNING, Action.RESTART_JOB, "contained memory error: it hit one application only"),
    95: Meaning(_FAILURE, Action.RESET_GPU, "uncontained memory error"),
    109: Meaning(_FAILURE, Action.RESET_GPU, "a context switch timed out"),
    119: Meaning(_FAILURE, Action.RESET_GPU, "its system processor (GSP) does not respond"),
    120: Meaning(_FAILURE, Action.RESET_GPU, "error of its system processor (GSP)"),
    140: Meaning(_FAILURE, Action.RESET_GPU, "unrecovered ECC error"),
    143: Meaning(_FAILURE, Action.RESET_GPU, "it could not be initialised"),
    144: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
    145: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
    149: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
}

RECOVERY_XID = 154
"""The driver reports the recovery action itself."""
RECOVERIES: Mapping[str, Meaning] = {
    "none": Meaning(_OK, Action.NONE, "the driver asks for nothing"),
    "gpu reset": Meaning(_FAILURE, Action.RESET_GPU, "the driver asks for a reset"),
    "drain and reset": Meaning(_FAILURE, Action.RESET_GPU, "the driver asks for a drain and a reset"),
    "drain p2p": Meaning(_FAILURE, Action.DRAIN_GPU, "the driver asks to stop its transfers to other GPUs"),
    "node reboot": Meaning(_FAILURE, Action.DRAIN_NODE, "the driver asks for a restart of the machine"),
}
UNNAMED_RECOVERY = Meaning(_WARNING, Action.NONE, "the driver asks for an unknown action")

KINDS: Mapping[Kind, Meaning] = {
    Kind.GPU_LOST: Meaning(_FAILURE, Action.DRAIN_NODE, "fallen off the bus"),
    # An uncontained error also reports its own Xid, which decides.
    Kind.ECC: Meaning(_WARNING, Action.RESET_GPU, "uncorrectable memory error"),
    Kind.ROW_REMAP_PENDING: Meaning(_WARNING, Action.RESET_GPU, "faulty memory is retired at the next reset"),
    Kind.ROW_REMAP_FAILED: Meaning(_FAILURE, Action.DRAIN_GPU, "no spare memory is left to replace faulty memory"),
    Kind.THROTTLE: Meaning(_WARNING, Action.NONE, "slowed down by its hardware"),
    Kind.NVLINK: Meaning(_WARNING, Action.NONE, "NVLink errors are counted"),
    Kind.MEMORY_HELD: Meaning(_WARNING, Action.RESET_GPU, "memory is in use that belongs to no process"),
    Kind.CHECK_FAILED: Meaning(_FAILURE, Action.CHECK_GPU, "a check has failed"),
    Kind.DISK_FULL: Meaning(_WARNING, Action.NONE, "a disk is full"),
    Kind.OTHER: Meaning(_OK, Action.NONE, "something else"),
}
UNKNOWN = Meaning(_OK, Action.NONE, "not known")

_CONDITIONS: Mapping[Action, Recovers] = {
    Action.NONE: Recovers.BY_CHECKS,
    Action.RESTART_JOB: Recovers.BY_CHECKS,
    Action.CHECK_GPU: Recovers.AT_ONCE,
    Action.RESET_GPU: Recovers.BY_RESTART,
    Action.DRAIN_NODE: Recovers.BY_RESTART,
    Action.DRAIN_GPU: Recovers.NEVER,
}

_WORSE = {HealthLevel.OK: 0, HealthLevel.WARNING: 1, HealthLevel.FAILURE: 2}
# The name between the last brackets of "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
_NAMED = re.compile(r"\bto 0x[0-9a-f]{1,8} \(([a-z0-9 ]{1,40}?)(?: required)?\)", re.IGNORECASE)
# A GPU that left the bus may have no number.
_OFF_THE_BUS = "fallen off the bus"


def meaning_of(kind: str, *, xid: int | None = None, detail: str = "") -> Meaning:
    """The meaning of a report; `detail` holds the words of the driver, such as the action that Xid 154 names.

    1. An Xid counts by its number, and 154 by the action that it names.
    2. "Fallen off the bus" in the text counts as the kind `gpu_lost`.
    3. Any other report counts by its kind.
    """
    if kind == Kind.XID:
        if xid == RECOVERY_XID:
            named = _NAMED.search(detail)
            return RECOVERIES.get(named[1].lower(), UNNAMED_RECOVERY) if named else UNNAMED_RECOVERY
        if xid is not None and xid in XIDS:
            return XIDS[xid]
    if kind in {Kind.XID, Kind.OTHER} and _OFF_THE_BUS in detail.lower():
        return KINDS[Kind.GPU_LOST]
    if kind in set(KINDS):
        return KINDS[Kind(kind)]
    return UNKNOWN


def recovery_condition(meaning: Meaning, kind: str) -> Recovers:
    """The way for a GPU with this report to return to service. Held memory may be released, which a check sees."""
    return Recovers.BY_CHECKS if kind == Kind.MEMORY_HELD else _CONDITIONS[meaning.action]


def harder(one: Recovers | None, other: Recovers) -> Recovers:
    """The harder of two ways to return to service."""
    order = list(Recovers)
    return other if one is None or order.index(other) > order.index(one) else one


def is_worse(one: HealthLevel, other: HealthLevel) -> bool:
    """True if the first level is worse than the other."""
    return _WORSE[one] > _WORSE[other]
