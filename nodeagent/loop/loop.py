"""The main loop: one thread that owns what is held, takes messages one at a time, and has the slow work done by others.

Events are posted to the inbox; the loop updates the held set, asks `core` for instructions, and hands them out. So no
other thread changes the state, and it needs no lock; the part that others may read is replaced whole (`_published`).
"""

from __future__ import annotations

import logging
import queue
from dataclasses import replace
from typing import Dict, Optional, Tuple, Union

from nodeagent.launch.ends import Ends
from nodeagent.launch.launcher import Launcher
from nodeagent.loop import core
from nodeagent.loop.core import Allocation, Stage
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import AllocationReport, DesiredAllocation, EndReason, KeptReport, LaunchSpec, Observed
from nodeagent.runtime.port import STOPPED_BEFORE_IT_STARTED, EventKind, ExitStatus, Kept, Phase, StopCause
from nodeagent.ship.logstream import LogStream
from nodeagent.ship.outputs import OutputStream
from nodeagent.ship.shipper import LogShipper, Shipper
from nodeagent.state.inbox import (
    Abandoned,
    ClaimRefused,
    DiskExceeded,
    EndAnswered,
    Exited,
    Happened,
    Launched,
    LogDone,
    Message,
    OutputsDone,
    Quit,
    Starting,
    Synced,
    Unsettled,
)
from nodeagent.streams.shells import Shells
from nodeagent.sync.agent import Agent
from nodeagent.system import clock
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Unauthorized

_log = logging.getLogger("nodeagent.loop.loop")

TICK_S = 1.0
_IDLE_TICK_S = 30.0
_START_PATIENCE_S = 10.0
_OBSERVED = {Stage.STARTING: Observed.STARTING, Stage.RUNNING: Observed.RUNNING, Stage.EXITED: Observed.EXITED}


class Loop:
    """The state of the agent and what it does with each message."""

    def __init__(
        self,
        agent: Agent,
        *,
        launcher: Launcher,
        ends: Ends,
        shipper: LogShipper,
        collector: Shipper[OutputStream],
        cleaning: WorkPool,
        clearing: WorkPool,
        inbox: "queue.SimpleQueue[Message]",
    ) -> None:
        self._agent = agent
        self._runtime = agent.runtime
        self._launcher = launcher
        self._ends = ends
        self._shipper = shipper
        self._collector = collector
        self._cleaning = cleaning
        self._clearing = clearing
        self._shells = Shells(agent)
        self._inbox = inbox
        self._held: Dict[int, Allocation] = {}
        self._desired: Optional[Tuple[DesiredAllocation, ...]] = None
        self._published: Tuple[Allocation, ...] = ()

    def recover(self) -> None:
        """Take up what earlier runs of the agent left."""
        ids = self._runtime.allocations()
        phases = {allocation_id: self._runtime.observe(allocation_id).phase for allocation_id in ids}
        specs = {allocation_id: self._runtime.spec(allocation_id) for allocation_id in ids}
        fences = {allocation_id: spec.fence for allocation_id, spec in specs.items() if spec is not None}
        entries = self._agent.journal.entries()
        for step in core.recover(entries, phases, fences, self._agent.session.boot_id):
            if isinstance(step, core.Discard):
                self._remove(step.id)
                continue
            held = replace(step.held, spec=specs.get(step.held.id))
            self._put(held)
            entry = entries.get(held.id)
            if entry is not None and entry.boot_id == self._agent.session.boot_id:
                self._agent.sampler.recall_strangers(held.id, entry.strangers)
            if not held.shipped:
                self._ship(held, holes=entry.holes if entry is not None else (), resumed=True)
            if isinstance(step, core.Settle):
                _log.warning("allocation %d: %s: %s", held.id, step.reason.value, step.detail)
                self._adopt(replace(held, stage=Stage.RUNNING))
                self._settle(held.id, step.reason, step.detail)
            elif held.stage is Stage.RUNNING:
                _log.info("allocation %d: adopted", held.id)
                self._adopt(held)
            else:
                self._look(held.id)
        self._clearing.submit(self._clear)  # in its own time: beats must begin before it is done
        self._publish()

    def _adopt(self, held: Allocation) -> None:
        ordered = self._runtime.adopt(held.id)
        self._put(replace(held, stop=None if ordered is None else core.StopOrder(*ordered)))
        self._assign_gpus(held)

    def run(self) -> Quit:
        """Take messages until one says to end; return it."""
        tick_at = clock.boottime() + TICK_S
        while True:
            live = any(held.stage in core.LIVE for held in self._held.values())
            wait_s = min(_IDLE_TICK_S, max(0.0, tick_at - clock.boottime())) if live else _IDLE_TICK_S
            try:
                message: Optional[Message] = self._inbox.get(timeout=wait_s)
            except queue.Empty:
                message = None
            if isinstance(message, Quit):
                return message
            if message is not None:
                self._take(message)
            if clock.boottime() >= tick_at:
                tick_at = clock.boottime() + TICK_S
                self._tick()
            self._publish()

    def reports(self) -> Tuple[AllocationReport, ...]:
        """A report of every allocation; may be called from any thread."""
        return tuple(
            AllocationReport(
                id=held.id,
                fence=held.fence,
                observed=_OBSERVED[held.stage],
                exit_code=None if held.status is None else held.status.exit_code,
                log_size=(self._shipper.size(held.id) or 0) if held.status is None else held.status.log_size,
                kept=None if held.kept is None or held.status is not None else _report_of(held.kept, clock.boottime()),
                job_id=None if held.spec is None else held.spec.job_id,
            )
            for held in self._published
            if held.stage in _OBSERVED
        )

    def bounded(self) -> Tuple[int, ...]:
        """Running allocations that may be stopped for their use of a disk; may be called from any thread."""
        return tuple(held.id for held in self._published if held.stage is Stage.RUNNING and held.spec is not None)

    def _publish(self) -> None:
        self._published = tuple(self._held.values())

    def _take(self, message: Message) -> None:
        if isinstance(message, Synced):
            self._reconcile(message.answer.desired, message.at)
            self._shells.want(message.answer.shells)
            # What is left of a time limit is true at one moment only; later looks at the wishes must not use it.
            self._desired = tuple(replace(wish, time_left_s=None) for wish in message.answer.desired)
        elif isinstance(message, Happened):
            self._happened(message.id, message.kind)
        elif isinstance(message, Starting):
            self._starting(message.spec)
        elif isinstance(message, Launched):
            self._launched(message.id)
        elif isinstance(message, Exited):
            self._exited(message.id, message.status)
        elif isinstance(message, Unsettled):
            self._unsettled(message.id)
        elif isinstance(message, (ClaimRefused, Abandoned)):
            self._not_started(message)
        elif isinstance(message, EndAnswered):
            self._agent.journal.ended(message.id)
            self._answered(message.id, ended=True)
        elif isinstance(message, LogDone):
            self._logged(message.id)
        elif isinstance(message, OutputsDone):
            self._shipped(message.id)
        elif isinstance(message, DiskExceeded):
            self._exceeded(message)

    def _tick(self) -> None:
        """Look at what should have been told and perhaps was not."""
        for held in tuple(self._held.values()):
            if held.stage in (Stage.STARTING, Stage.RUNNING):
                self._look(held.id)
                self._shipper.poke(held.id)
        self._reconcile_again()

    def _reconcile_again(self) -> None:
        if self._desired is not None:
            self._reconcile(self._desired, clock.boottime())

    def _reconcile(self, desired: Tuple[DesiredAllocation, ...], now: float) -> None:
        for instruction in core.reconcile(desired, self._held, now, self._agent.session.timers.orphan_grace_s):
            before = self._held.get(instruction.id)
            self._held = core.apply(self._held, instruction)
            self._carry_out(instruction, before)

    def _carry_out(self, instruction: core.Instruction, before: Optional[Allocation]) -> None:
        if isinstance(instruction, core.Claim):
            self._launcher.claim(instruction.id, instruction.fence)
        elif isinstance(instruction, core.Stop):
            order = instruction.order
            _log.info("allocation %d: stopping, %s", instruction.id, instruction.reason)
            self._launcher.abandon(instruction.id)
            if before is not None and before.stage is not Stage.CLAIMING:
                self._runtime.stop(instruction.id, order.signal, order.grace_s)
        elif isinstance(instruction, core.Limit):
            self._runtime.limit(instruction.id, instruction.limit_at - clock.boottime())
        elif isinstance(instruction, core.EndUnstarted):
            self._end_unstarted(instruction.id)
        elif isinstance(instruction, core.Forget) and before is not None:
            self._forget(before)

    def _happened(self, allocation_id: int, kind: EventKind) -> None:
        held = self._held.get(allocation_id)
        if held is None or held.stage not in (Stage.STARTING, Stage.RUNNING):
            return
        if kind is EventKind.LOG:
            self._shipper.poke(allocation_id)
        elif kind is EventKind.RUNNING:
            self._running(held)
        else:
            self._look(allocation_id)

    def _look(self, allocation_id: int) -> None:
        """Compare what the runtime has with what is held, and catch up."""
        held = self._held[allocation_id]
        seen = self._runtime.observe(allocation_id)
        if seen.exit is not None:
            self._exited(allocation_id, seen.exit)
        elif seen.phase is Phase.RUNNING:
            self._running(held)
            if seen.kept is not None and held.kept is None:
                _log.info("allocation %d: failed, and is kept: %s", allocation_id, seen.kept.detail)
                self._put(replace(self._held[allocation_id], kept=seen.kept))
                self._agent.report_soon()
        elif seen.phase is Phase.GONE:
            self._settle(allocation_id, EndReason.UNKNOWN, "its processes are gone and left no exit status")
        elif seen.phase is Phase.ABSENT and _is_overdue(held):
            self._settle(allocation_id, EndReason.LAUNCH_FAILED, "its shim did not start")

    def _settle(self, allocation_id: int, reason: EndReason, detail: str) -> None:
        held = self._held[allocation_id]
        if not held.settling:
            self._put(replace(held, settling=True))
            self._ends.settle(allocation_id, ExitStatus(reason, detail=detail, started=reason is EndReason.UNKNOWN))

    def _unsettled(self, allocation_id: int) -> None:
        held = self._held.get(allocation_id)
        if held is not None:
            self._put(replace(held, settling=False))  # the next look says how it is

    def _starting(self, spec: LaunchSpec) -> None:
        held = self._held.get(spec.allocation_id)
        if held is None:
            return
        held = replace(held, spec=spec, stage=Stage.STARTING)
        self._put(held)
        self._assign_gpus(held)
        self._ship(held, holes=(), resumed=False)

    def _launched(self, allocation_id: int) -> None:
        held = self._held.get(allocation_id)
        if held is None:
            return
        self._put(replace(held, launched_at=clock.boottime()))
        if held.stop is not None:
            # The order came before there was a folder to leave it in, and after the last look for it.
            self._runtime.stop(held.id, held.stop.signal, held.stop.grace_s)

    def _running(self, held: Allocation) -> None:
        if held.stage is not Stage.STARTING:
            return
        limit_at = None
        if held.spec is not None and held.spec.time_limit_s is not None:
            limit_at = clock.boottime() + held.spec.time_limit_s
        self._put(replace(held, stage=Stage.RUNNING, limit_at=limit_at))
        self._agent.report_soon()

    def _exited(self, allocation_id: int, status: ExitStatus) -> None:
        held = self._held.get(allocation_id)
        if held is None or held.status is not None:
            return
        _log.info("allocation %d: %s %s", allocation_id, status.reason.value, status.detail)
        self._put(replace(held, stage=Stage.EXITED, status=status, settling=False))
        self._agent.sampler.assign(allocation_id, ())
        self._shipper.finalise(allocation_id, status.log_size)
        if not held.ended:
            self._ends.end(allocation_id, held.fence, status, held.spec.gpu_uuids if held.spec is not None else ())
        self._collect(allocation_id)

    def _logged(self, allocation_id: int) -> None:
        held = self._held.get(allocation_id)
        if held is not None:
            self._put(replace(held, logged=True))
            self._collect(allocation_id)

    def _collect(self, allocation_id: int) -> None:
        """Ship the files of an allocation once it is over and its log is shipped; then nothing is left to ship."""
        held = self._held[allocation_id]
        status, spec = held.status, held.spec
        if not held.logged or status is None:
            return
        if spec is None or not spec.outputs:
            self._shipped(allocation_id)
            return
        started = status.started
        self._collector.add(
            OutputStream(spec, folder=lambda: self._runtime.work(spec) if started else None, client=self._agent.client)
        )

    def _shipped(self, allocation_id: int) -> None:
        self._agent.journal.shipped(allocation_id)
        self._answered(allocation_id, shipped=True)

    def _exceeded(self, message: DiskExceeded) -> None:
        held = self._held.get(message.id)
        if held is None or held.stage is not Stage.RUNNING or held.spec is None:
            return
        spec = held.spec
        grace_s = spec.grace_s if message.max_grace_s is None else min(spec.grace_s, message.max_grace_s)
        order = core.StopOrder(spec.stop_signal, grace_s)
        if held.stop is None:
            self._put(replace(held, stop=order))
        _log.info("allocation %d: stopping, it takes too much of a disk", held.id)
        self._runtime.stop(held.id, order.signal, grace_s, StopCause(EndReason.DISK_EXCEEDED, message.detail))

    def _not_started(self, message: Union[ClaimRefused, Abandoned]) -> None:
        held = self._held.get(message.id)
        if held is None:
            return
        if isinstance(message, ClaimRefused):
            self._put(replace(held, stage=Stage.REFUSED))
            self._reconcile_again()
        else:
            self._put(replace(held, stage=Stage.EXITED, shipped=True))
            self._end_unstarted(held.id)

    def _answered(self, allocation_id: int, *, ended: bool = False, shipped: bool = False) -> None:
        held = self._held.get(allocation_id)
        if held is not None:
            self._put(replace(held, ended=held.ended or ended, shipped=held.shipped or shipped))
            self._reconcile_again()

    def _end_unstarted(self, allocation_id: int) -> None:
        status = ExitStatus(EndReason.NEVER_STARTED, detail=STOPPED_BEFORE_IT_STARTED, started=False)
        held = replace(self._held[allocation_id], status=status)
        self._put(held)
        self._ends.end(allocation_id, held.fence, status, ())

    def _ship(self, held: Allocation, *, holes: Tuple[Tuple[int, int], ...], resumed: bool) -> None:
        cap_bytes = self._agent.session.timers.log_max_bytes_per_job if held.spec is None else held.spec.log_cap_bytes
        self._shipper.add(
            LogStream(
                held.id,
                held.fence,
                source=self._runtime.log(held.id),
                client=self._agent.client,
                cap_bytes=cap_bytes,
                found_hole=self._agent.journal.hole,
                known_holes=holes,
                resumed=resumed,
            )
        )

    def _forget(self, held: Allocation) -> None:
        self._shipper.drop(held.id)
        self._collector.drop(held.id)
        self._agent.sampler.assign(held.id, ())
        self._agent.journal.forget(held.id)
        if held.spec is not None or held.status is not None or held.launched_at is not None:
            self._cleaning.submit(lambda: self._clean_up(held.id))

    def _clean_up(self, allocation_id: int) -> None:
        self._remove(allocation_id)
        self._clearing.submit(self._clear)

    def _remove(self, allocation_id: int) -> None:
        try:
            self._runtime.remove(allocation_id)
        except Exception:  # noqa: BLE001 - as for `_clear`
            _log.exception("allocation %d: it cannot be removed", allocation_id)

    def _clear(self) -> None:
        """Remove what jobs left. Jobs made it: whatever is wrong with it is no reason for the agent to end."""
        try:
            self._runtime.clear()
        except Exception:  # noqa: BLE001 - see above
            _log.exception("files of ended jobs cannot be removed")

    def _assign_gpus(self, held: Allocation) -> None:
        if held.spec is not None:
            self._agent.sampler.assign(held.id, held.spec.gpu_uuids)

    def _put(self, held: Allocation) -> None:
        self._held[held.id] = held


def _is_overdue(held: Allocation) -> bool:
    return held.launched_at is not None and clock.boottime() - held.launched_at > _START_PATIENCE_S


def _report_of(kept: Kept, now: float) -> KeptReport:
    return KeptReport(
        left_s=round(max(0.0, kept.until - now), 1),
        reason=kept.reason,
        exit_code=kept.exit_code,
        signal=kept.signal,
        detail=kept.detail[:500],
    )


def quit_for(error: BaseException) -> Quit:
    """The agent's way to end after a task of a pool raised."""
    if isinstance(error, Unauthorized):
        return Quit(protocol.EXIT_UNAUTHORIZED, str(error))
    return Quit(1, "broke: {!r}".format(error))
