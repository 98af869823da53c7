"""The long-poll: what the agent sees against what the platform wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from nodeagent.protocol.readings import (
    AllocationReport,
    CheckResult,
    GpuSample,
    HealthEvent,
    HostSample,
    ProgressNote,
    ReportedMetrics,
    UsageSample,
)
from nodeagent.protocol.session import Timers
from nodeagent.protocol.shellwire import WantedShell
from nodeagent.protocol.terms import MAX_ID_CHARACTERS, Action
from nodeagent.protocol.wire import Message, text


@dataclass(frozen=True)
class SyncRequest(Message):
    """Everything that the agent sees, and the generation of the desired set that it knows.

    The answer comes at once if the desired set has another generation, else after `wait_s` or when it changes.
    With `wait_s` 0 it is a report: the platform stores it and answers at once.
    """

    epoch: int
    seq: int
    boot_id: str = field(metadata=text(MAX_ID_CHARACTERS))
    generation: str = field(metadata=text(MAX_ID_CHARACTERS))
    wait_s: float
    allocations: Tuple[AllocationReport, ...] = ()
    gpus: Tuple[GpuSample, ...] = ()
    host: Optional[HostSample] = None
    health: Tuple[HealthEvent, ...] = ()
    notes: Tuple[ProgressNote, ...] = ()
    usage: Tuple[UsageSample, ...] = ()
    checks: Tuple[CheckResult, ...] = ()
    reported: Tuple[ReportedMetrics, ...] = ()


@dataclass(frozen=True)
class DesiredAllocation(Message):
    """The desired state of one allocation of this node.

    `signal`, `grace_s` and `reason` belong to `stop`; `time_left_s` is the rest of the time limit, null = no limit or
    not known.
    """

    id: int
    fence: int
    action: Action
    signal: Optional[str] = None
    grace_s: Optional[float] = None
    reason: Optional[str] = None
    time_left_s: Optional[float] = None


@dataclass(frozen=True)
class SyncResponse(Message):
    """The full desired set. The agent stops allocations that `desired` lacks after `Timers.orphan_grace_s`.

    For `log_pause_s` seconds the agent ships no log (back-pressure). `shells` is the full set of shells.
    """

    generation: str
    timers: Timers
    desired: Tuple[DesiredAllocation, ...] = ()
    log_pause_s: float = 0.0
    shells: Tuple[WantedShell, ...] = ()
