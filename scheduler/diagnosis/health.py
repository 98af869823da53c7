"""What a report of a GPU's health means: how bad it is, what to do, and what becomes of the job there.

The table is data, and the one place that decides: NVIDIA's Xid numbers, what its driver counts, and what agents see. It
is drawn in docs/health.md, and a test holds both against each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class HealthLevel(StrEnum):
    """How a GPU is: one with a warning is a last choice, one that failed is given to nobody."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Action(StrEnum):
    """What it takes. The platform drains by itself; resetting and restarting is for operators."""

    NONE = "none"
    RESTART_JOB = "restart_job"
    """The error is the application's: it ends by itself, and how it ends decides whether it is tried again."""
    RESET_GPU = "reset_gpu"
    DRAIN_GPU = "drain_gpu"
    """No reset is known to mend it; somebody has to look."""
    CHECK_GPU = "check_gpu"
    """The platform has the GPU checked, and gives it back when a check has passed."""
    DRAIN_NODE = "drain_node"
    """The whole machine must be restarted, so nothing new starts there."""


class Heals(StrEnum):
    """By what a GPU can come back by itself, the lightest first."""

    AT_ONCE = "at_once"
    """One check that passes."""
    BY_CHECKS = "by_checks"
    """Checks that pass, as many in a row as its pool asks for."""
    BY_RESTART = "by_restart"
    """The same, once its machine was restarted."""
    NEVER = "never"
    """Only an operator gives it back."""


class Kind(StrEnum):
    """What agents report. A kind that is not known is kept, and means nothing."""

    XID = "xid"
    GPU_LOST = "gpu_lost"
    ECC = "ecc"
    ROW_REMAP_PENDING = "row_remap_pending"
    ROW_REMAP_FAILED = "row_remap_failed"
    THROTTLE = "throttle"
    NVLINK = "nvlink"
    MEMORY_HELD = "memory_held"
    CHECK_FAILED = "check_failed"
    """A check before a job was started there, or between jobs."""
    DISK_FULL = "disk_full"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The level and the action, in words of our own: what an agent wrote is not repeated to owners of jobs."""

    level: HealthLevel
    action: Action
    words: str

    @property
    def requeues(self) -> bool:
        """Whether the job that has the GPU is stopped and queued again, to run elsewhere."""
        return self.level is HealthLevel.FAILURE


_OK, _WARNING, _FAILURE = HealthLevel.OK, HealthLevel.WARNING, HealthLevel.FAILURE

XIDS: Mapping[int, Meaning] = {
    13: Meaning(_OK, Action.RESTART_JOB, "exception in the application's kernel"),
    31: Meaning(_OK, Action.RESTART_JOB, "page fault of the application"),
    43: Meaning(_OK, Action.NONE, "a channel of the application was reset"),
    45: Meaning(_OK, Action.NONE, "cleaned up after another error"),
    46: Meaning(_FAILURE, Action.RESET_GPU, "stopped processing"),
    48: Meaning(_FAILURE, Action.RESET_GPU, "memory error that was not corrected"),
    62: Meaning(_FAILURE, Action.RESET_GPU, "its microcontroller halted"),
    63: Meaning(_OK, Action.NONE, "a bad part of its memory is being retired"),
    64: Meaning(_FAILURE, Action.RESET_GPU, "a bad part of its memory could not be retired"),
    74: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
    79: Meaning(_FAILURE, Action.DRAIN_NODE, "fallen off the bus"),
    92: Meaning(_OK, Action.NONE, "many memory errors that were corrected"),
    94: Meaning(_WARNING, Action.RESTART_JOB, "memory error that hit one application only"),
    95: Meaning(_FAILURE, Action.RESET_GPU, "memory error that was not contained"),
    109: Meaning(_FAILURE, Action.RESET_GPU, "a switch of contexts timed out"),
    119: Meaning(_FAILURE, Action.RESET_GPU, "its system processor does not answer"),
    120: Meaning(_FAILURE, Action.RESET_GPU, "error of its system processor"),
    140: Meaning(_FAILURE, Action.RESET_GPU, "ECC error that was not recovered"),
    143: Meaning(_FAILURE, Action.RESET_GPU, "it could not be initialised"),
    144: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
    145: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
    149: Meaning(_FAILURE, Action.DRAIN_GPU, "NVLink error"),
}

RECOVERY_XID = 154
"""The driver names the action that it takes to recover."""
RECOVERIES: Mapping[str, Meaning] = {
    "none": Meaning(_OK, Action.NONE, "the driver asks for nothing"),
    "gpu reset": Meaning(_FAILURE, Action.RESET_GPU, "the driver asks for a reset"),
    "drain and reset": Meaning(_FAILURE, Action.RESET_GPU, "the driver asks for a drain and a reset"),
    "drain p2p": Meaning(_FAILURE, Action.DRAIN_GPU, "the driver asks to use it with no other GPU"),
    "node reboot": Meaning(_FAILURE, Action.DRAIN_NODE, "the driver asks for a restart of the machine"),
}
UNNAMED_RECOVERY = Meaning(_WARNING, Action.NONE, "the driver asks for an action that is not known")

KINDS: Mapping[Kind, Meaning] = {
    Kind.GPU_LOST: Meaning(_FAILURE, Action.DRAIN_NODE, "fallen off the bus"),
    # An error that was not contained comes with an Xid of its own, and that decides.
    Kind.ECC: Meaning(_WARNING, Action.RESET_GPU, "memory error that was not corrected"),
    Kind.ROW_REMAP_PENDING: Meaning(_WARNING, Action.RESET_GPU, "memory waits for a reset to be retired"),
    Kind.ROW_REMAP_FAILED: Meaning(_FAILURE, Action.DRAIN_GPU, "no memory is left to replace what is bad"),
    Kind.THROTTLE: Meaning(_WARNING, Action.NONE, "slowed down by its hardware"),
    Kind.NVLINK: Meaning(_WARNING, Action.NONE, "NVLink errors are counted"),
    Kind.MEMORY_HELD: Meaning(_WARNING, Action.RESET_GPU, "memory is held that belongs to no process"),
    Kind.CHECK_FAILED: Meaning(_FAILURE, Action.CHECK_GPU, "a check has failed"),
    Kind.DISK_FULL: Meaning(_WARNING, Action.NONE, "a disk is full"),
    Kind.OTHER: Meaning(_OK, Action.NONE, "something else"),
}
UNKNOWN = Meaning(_OK, Action.NONE, "not known")

_HEALS: Mapping[Action, Heals] = {
    Action.NONE: Heals.BY_CHECKS,
    Action.RESTART_JOB: Heals.BY_CHECKS,
    Action.CHECK_GPU: Heals.AT_ONCE,
    Action.RESET_GPU: Heals.BY_RESTART,
    Action.DRAIN_NODE: Heals.BY_RESTART,
    Action.DRAIN_GPU: Heals.NEVER,
}

_WORSE = {HealthLevel.OK: 0, HealthLevel.WARNING: 1, HealthLevel.FAILURE: 2}
# "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)": what is between the last brackets.
_NAMED = re.compile(r"\bto 0x[0-9a-f]{1,8} \(([a-z0-9 ]{1,40}?)(?: required)?\)", re.IGNORECASE)
# An agent of before tells the number in its sentence only; one that left the bus may have no number at all.
_NUMBER = re.compile(r"\AXid (\d{1,4})\b")
_OFF_THE_BUS = "fallen off the bus"


def meaning_of(kind: str, *, xid: int | None = None, detail: str = "") -> Meaning:
    """What a report means; `detail` is read for the action that Xid 154 names, and for words of older agents.

    1. An Xid counts by its number, 154 by the action that it names.
    2. A sentence that says that the GPU has fallen off the bus is as good as the kind.
    3. Anything else counts by its kind.
    """
    if kind == Kind.XID:
        number = number_of(xid, detail)
        if number == RECOVERY_XID:
            named = _NAMED.search(detail)
            return RECOVERIES.get(named[1].lower(), UNNAMED_RECOVERY) if named else UNNAMED_RECOVERY
        if number is not None and number in XIDS:
            return XIDS[number]
    if kind in {Kind.XID, Kind.OTHER} and _OFF_THE_BUS in detail.lower():
        return KINDS[Kind.GPU_LOST]
    if kind in set(KINDS):
        return KINDS[Kind(kind)]
    return UNKNOWN


def heals_of(meaning: Meaning, kind: str) -> Heals:
    """By what a GPU can come back of which this was reported. Memory that is held may be let go: a check sees it."""
    return Heals.BY_CHECKS if kind == Kind.MEMORY_HELD else _HEALS[meaning.action]


def hardest(one: Heals | None, other: Heals) -> Heals:
    """What it takes to come back from both."""
    order = list(Heals)
    return other if one is None or order.index(other) > order.index(one) else one


def number_of(xid: int | None, detail: str) -> int | None:
    """The number of an Xid, which agents of before tell in their sentence only."""
    if xid is not None:
        return xid
    found = _NUMBER.match(detail)
    return int(found[1]) if found else None


def is_worse(one: HealthLevel, other: HealthLevel) -> bool:
    """Whether the first level is worse than the other."""
    return _WORSE[one] > _WORSE[other]
