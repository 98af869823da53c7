"""The agent's decisions: what to do, given what the platform wants and what is here. Pure.

`reconcile` compares the newest desired set with everything held, `recover` decides after a start of the agent what to
make of the journal and of what the runtimes still have. Both return instructions; `apply` is what an instruction means
for the held set. The loop carries them out and feeds back what happened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from nodeagent.protocol.messages import Action, DesiredAllocation, EndReason, LaunchSpec
from nodeagent.runtime.port import ExitStatus, Kept, Phase
from nodeagent.state.journal import Entry

LIMIT_TOLERANCE_S = 2.0
"""Differences in time limits up to this come from the way of the message and mean nothing."""

_DEFAULT_SIGNAL = "TERM"
_DEFAULT_GRACE_S = 30.0


class Stage(Enum):
    """The stage of an allocation on this node."""

    CLAIMING = "claiming"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    REFUSED = "refused"
    """The platform did not let us have it; kept so that it is not asked for again and again."""


LIVE = (Stage.CLAIMING, Stage.STARTING, Stage.RUNNING)


@dataclass(frozen=True)
class StopOrder:
    """The signal and the grace, in seconds, of a stop."""

    signal: str
    grace_s: float


@dataclass(frozen=True)
class Allocation:
    """An allocation that the agent answers for, and what it knows of it."""

    id: int
    fence: int
    stage: Stage
    stop: Optional[StopOrder] = None
    limit_at: Optional[float] = None
    missing_since: Optional[float] = None
    ended: bool = False
    """The platform has answered its end."""
    shipped: bool = False
    """The platform has answered the end of its log, and has those of its files that it wants."""
    logged: bool = False
    """The platform has answered the end of its log."""
    spec: Optional[LaunchSpec] = None
    launched_at: Optional[float] = None
    """Time at which the runtime took over (CLOCK_BOOTTIME); None if an earlier run of the agent started it."""
    kept: Optional[Kept] = None
    """Its command has failed, and what it ran in is kept."""
    settling: bool = False
    """It is being given an exit status, as it left none."""
    status: Optional[ExitStatus] = None


@dataclass(frozen=True)
class _OfAllocation:
    id: int
    """The allocation's."""


@dataclass(frozen=True)
class Claim(_OfAllocation):
    """Ask for the allocation, and start it if it is given."""

    fence: int


@dataclass(frozen=True)
class Stop(_OfAllocation):
    """Stop a live allocation."""

    order: StopOrder
    reason: str


@dataclass(frozen=True)
class Limit(_OfAllocation):
    """Move the time limit of a running allocation to `limit_at`."""

    limit_at: float


@dataclass(frozen=True)
class Miss(_OfAllocation):
    """Note since when the platform no longer names an allocation; None = it names it (again)."""

    since: Optional[float]


@dataclass(frozen=True)
class EndUnstarted(_OfAllocation):
    """Tell the platform that an allocation was never started here."""

    fence: int


class Forget(_OfAllocation):
    """Drop every trace of an allocation."""


Instruction = Union[Claim, Stop, Limit, Miss, EndUnstarted, Forget]


@dataclass(frozen=True)
class Adopt:
    """Answer for an allocation that an earlier run of the agent started."""

    held: Allocation


@dataclass(frozen=True)
class Settle:
    """Give an exit status to an allocation that left none: it has no shim, and will get none."""

    held: Allocation
    reason: EndReason
    detail: str


class Discard(_OfAllocation):
    """Remove traces that belong to no allocation we know."""


Recovery = Union[Adopt, Settle, Discard]


def reconcile(
    desired: Sequence[DesiredAllocation], held: Mapping[int, Allocation], now: float, orphan_grace_s: float
) -> Tuple[Instruction, ...]:
    """Instructions that turn the held allocations into the desired ones; none is given twice for the same wish."""
    wanted = {wish.id: wish for wish in desired}
    instructions: List[Instruction] = []
    for wish in sorted(desired, key=lambda wish: wish.id):
        have = held.get(wish.id)
        instructions += _unheld(wish) if have is None else _held_and_wanted(wish, have, now)
    for have in sorted(held.values(), key=lambda have: have.id):
        if have.id not in wanted:
            instructions += _held_but_unwanted(have, now, orphan_grace_s)
    return tuple(instructions)


def apply(held: Mapping[int, Allocation], instruction: Instruction) -> Dict[int, Allocation]:
    """The held set after an instruction was taken on."""
    after = dict(held)
    have = after.get(instruction.id)
    if isinstance(instruction, Claim):
        after[instruction.id] = Allocation(instruction.id, instruction.fence, Stage.CLAIMING)
    elif isinstance(instruction, EndUnstarted):
        after[instruction.id] = Allocation(instruction.id, instruction.fence, Stage.EXITED, shipped=True)
    elif isinstance(instruction, Forget):
        after.pop(instruction.id, None)
    elif have is not None:
        if isinstance(instruction, Stop):
            after[have.id] = replace(have, stop=instruction.order)
        elif isinstance(instruction, Limit):
            after[have.id] = replace(have, limit_at=instruction.limit_at)
        else:
            after[have.id] = replace(have, missing_since=instruction.since)
    return after


def recover(
    entries: Mapping[int, Entry], phases: Mapping[int, Phase], fences: Mapping[int, int], boot_id: str
) -> Tuple[Recovery, ...]:
    """Decide after a start of the agent about the journal's `entries` and the `phases` that runtimes report.

    `fences` holds the fences that runtimes still know; they count where the journal has lost the entry.
    """
    found: List[Recovery] = []
    for allocation_id in sorted(set(entries) | set(phases)):
        entry = entries.get(allocation_id)
        phase = phases.get(allocation_id, Phase.ABSENT)
        fence = entry.fence if entry is not None else fences.get(allocation_id)
        if fence is None:
            found.append(Discard(allocation_id))
            continue
        ended, shipped = (entry.ended, entry.shipped) if entry is not None else (False, False)
        held = Allocation(allocation_id, fence, Stage.EXITED, ended=ended, shipped=shipped)
        if phase in (Phase.STARTING, Phase.RUNNING):
            found.append(Adopt(replace(held, stage=Stage.RUNNING)))
        elif phase is Phase.EXITED:
            found.append(Adopt(held))
        elif ended:  # its folder was being removed: what is left of the log is gone
            found.append(Adopt(replace(held, shipped=True)))
        elif phase is Phase.GONE:
            found.append(Settle(held, EndReason.UNKNOWN, "its processes are gone and left no exit status"))
        elif entry is not None and entry.boot_id != boot_id:
            # What a start leaves is not synced to disk, so after a crash of the machine its absence proves nothing.
            found.append(Settle(held, EndReason.UNKNOWN, "the machine was restarted"))
        else:
            found.append(Settle(held, EndReason.NEVER_STARTED, "the agent was restarted before it started"))
    return tuple(found)


def _unheld(wish: DesiredAllocation) -> List[Instruction]:
    if wish.action is Action.RUN:
        return [Claim(wish.id, wish.fence)]
    return [EndUnstarted(wish.id, wish.fence)]


def _held_and_wanted(wish: DesiredAllocation, have: Allocation, now: float) -> List[Instruction]:
    if wish.fence < have.fence:
        return []  # an answer from before we were given it
    instructions: List[Instruction] = []
    if have.missing_since is not None:
        instructions.append(Miss(have.id, None))
    if wish.fence > have.fence:
        return instructions + _replaced(have)
    if have.stage is Stage.REFUSED and wish.action is Action.STOP:
        # An earlier claim may have been given to us and its answer lost: then its end is waited for.
        return [*instructions, EndUnstarted(have.id, have.fence)]
    if have.stage not in LIVE:
        return instructions
    if wish.action is Action.STOP:
        grace_s = _DEFAULT_GRACE_S if wish.grace_s is None else wish.grace_s
        order = StopOrder(wish.signal or _DEFAULT_SIGNAL, grace_s)
        if have.stop != order:
            instructions.append(Stop(have.id, order, wish.reason or "the platform asked"))
    elif wish.time_left_s is not None and have.stage is Stage.RUNNING:
        limit_at = now + wish.time_left_s
        if have.limit_at is None or abs(limit_at - have.limit_at) > LIMIT_TOLERANCE_S:
            instructions.append(Limit(have.id, limit_at))
    return instructions


def _replaced(have: Allocation) -> List[Instruction]:
    """Our fence is old: what runs under it stops, and then the newer wish is looked at again."""
    if have.stage is Stage.REFUSED or (have.stage is Stage.EXITED and have.ended and have.shipped):
        return [Forget(have.id)]
    return _stop_orphan(have, "its fence is old")


def _held_but_unwanted(have: Allocation, now: float, orphan_grace_s: float) -> List[Instruction]:
    if have.stage is Stage.REFUSED or (have.ended and have.shipped):
        return [Forget(have.id)]
    if have.stage not in LIVE:
        return []  # its end and its log are on their way
    if have.missing_since is None:
        return [Miss(have.id, now)]
    if now - have.missing_since >= orphan_grace_s:
        return _stop_orphan(have, "the platform does not know it any more")
    return []


def _stop_orphan(have: Allocation, reason: str) -> List[Instruction]:
    if have.stage not in LIVE or have.stop is not None:
        return []
    return [Stop(have.id, StopOrder(_DEFAULT_SIGNAL, _DEFAULT_GRACE_S), reason)]
