"""Ends of allocations: an exit status for one that left none, and the end told to the platform until it answers."""

from __future__ import annotations

import http.client
import logging
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Tuple

from nodeagent.protocol.messages import EXIT_UNAUTHORIZED, MAX_TAIL_BYTES, BatchItem, EndReason, EndRequest, HealthEvent
from nodeagent.runtime.port import ExitStatus, NotYet, Watched
from nodeagent.ship.shipper import LogShipper
from nodeagent.ship.tail import newest
from nodeagent.state.inbox import EndAnswered, Exited, Quit, Unsettled
from nodeagent.sync.agent import Agent
from nodeagent.sync.lifeline import Exchange
from nodeagent.sync.outbox import Answer, Outbox
from nodeagent.system import clock
from nodeagent.system.backoff import Backoff
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Refused, Unauthorized, Unreachable

_log = logging.getLogger("nodeagent.launch.ends")

_GPU_WAIT_S = 10.0
"""A GPU that is not seen to be empty by then gets no jobs any more until it is, and the end is told."""
_GPU_LOOK_EVERY_S = 0.1
_HEALTH_FIRST_S = 1.0
"""So long a report of a GPU's health may be on its way, and an end that it explains is told after it."""
_SETTLE_WAIT_S = 60.0
"""The longest wait for another look at what cannot be ended: it may stay so for hours, and a look is no small work."""
_TELL_AFTER_S = 60.0
"""Operators are told of an allocation that cannot be ended for so long: an engine may just be restarted."""
_NO_LONGER_CARES = (http.client.NOT_FOUND, http.client.CONFLICT)


@dataclass
class _End:
    """An end that is to be told."""

    id: int
    request: EndRequest
    uuids: Tuple[str, ...]
    """The GPUs that must be empty first."""
    suspects: Tuple[str, ...]
    """The GPUs that may explain the end."""
    gpu_wait_until: float
    backoff: Backoff = field(default_factory=Backoff)


class Ends:
    """Settles allocations and tells their ends, in the threads of a pool of its own: no end waits for a launch."""

    def __init__(self, agent: Agent, *, outbox: Outbox, logs: LogShipper, exchange: Exchange, pool: WorkPool) -> None:
        self._agent = agent
        self._outbox = outbox
        self._logs = logs
        self._exchange = exchange
        self._pool = pool

    def end(self, allocation_id: int, fence: int, status: ExitStatus, uuids: Tuple[str, ...]) -> None:
        """Tell the platform that an allocation is over, until it answers; first its GPUs must be empty.

        A GPU that is not empty, or that cannot be checked, is taken out of service first.
        """
        request = EndRequest(
            fence=fence,
            boot_id=self._agent.session.boot_id,
            state_id=self._agent.session.state_id,
            seq=self._agent.session.seq(),
            **vars(status),
        )
        held = uuids if status.started else ()  # what never started holds nothing
        suspects = () if status.reason is EndReason.COMPLETED else uuids
        end = _End(allocation_id, request, held, suspects, clock.boottime() + _GPU_WAIT_S)
        self._pool.submit(lambda: self._begin(end))

    def settle(self, allocation_id: int, fallback: ExitStatus) -> None:
        """Give an exit status to an allocation without a shim; if it turns out to have one, it goes on."""
        backoff, tell_at = Backoff(max_s=_SETTLE_WAIT_S), clock.boottime() + _TELL_AFTER_S
        self._pool.submit(lambda: self._settle(allocation_id, fallback, backoff, tell_at))

    def _settle(self, allocation_id: int, fallback: ExitStatus, backoff: Backoff, tell_at: float) -> None:
        try:
            status = self._agent.runtime.settle(allocation_id, fallback)
        except NotYet as error:
            now = clock.boottime()
            if now >= tell_at:
                tell_at = math.inf
                detail = "allocation {} keeps its GPUs, as the agent cannot end it: {}".format(allocation_id, error)
                self._agent.sampler.report(HealthEvent("other", None, detail[:500]))
            wait_s = min(backoff.wait_s(), tell_at - now)
            _log.warning("allocation %d: its end is not known, looking in %.1f s: %s", allocation_id, wait_s, error)
            self._pool.submit(lambda: self._settle(allocation_id, fallback, backoff, tell_at), wait_s)
            return
        except Watched:
            _log.info("allocation %d: it is not over", allocation_id)
            self._agent.post(Unsettled(allocation_id))
            return
        except OSError as error:
            _log.warning("allocation %d: its exit status cannot be kept: %s", allocation_id, error)
            status = fallback
        self._agent.post(Exited(allocation_id, status))

    def _begin(self, end: _End) -> None:
        """Tell the platform of the GPUs' health first, by which it judges the end; then of the end.

        Health events that another thread is sending get a moment. If the platform does not answer, the end waits as
        well.
        """
        if end.suspects:
            waits, ago_s = self._agent.sampler.last_words(end.suspects)
            if waits:
                try:
                    self._exchange.sync("", 0.0)
                except (Unreachable, Refused) as error:
                    _log.warning("allocation %d: cannot tell of its GPUs before its end: %s", end.id, error)
            elif ago_s < _HEALTH_FIRST_S:
                self._pool.submit(lambda: self._begin(end), _HEALTH_FIRST_S - ago_s)
                return
        end.request = self._with_last_words(end)
        self._tell(end)

    def _with_last_words(self, end: _End) -> EndRequest:
        """The end with what the job reported last, and with the newest of its log if there is something to explain."""
        request = end.request
        if request.started:
            request = replace(request, points=self._agent.sampler.last_points(end.id))
        if request.reason is EndReason.COMPLETED or not request.started:
            return request
        try:
            source = self._agent.runtime.log(end.id)
            try:
                return replace(request, tail=newest(source, MAX_TAIL_BYTES))
            finally:
                source.close()
        except OSError as error:
            _log.warning("allocation %d: its log cannot be read: %s", end.id, error)
            return request

    def _tell(self, end: _End) -> None:
        left = self._agent.sampler.left(end.id, end.uuids) if end.uuids else ()
        if left:
            wait_s = _GPU_LOOK_EVERY_S
            if clock.boottime() >= end.gpu_wait_until:
                wait_s = 0.0 if self._take_out(end.id, left) else end.backoff.wait_s()
            if wait_s > 0:
                self._pool.submit(lambda: self._tell(end), wait_s)
                return
        log = self._logs.take_last(end.id)
        item = BatchItem(end.id, end=end.request), partial(self._answered, end)
        self._outbox.put(*(() if log is None else (log,)), item)

    def _take_out(self, allocation_id: int, left: Tuple[Tuple[str, str], ...]) -> bool:
        """Report these GPUs, so that each is checked before its next job; True once the platform has answered."""
        for uuid, why in left:
            _log.warning("allocation %d is over, but its GPU %s is not free: %s", allocation_id, uuid, why)
        events = [HealthEvent("check_failed", uuid, "after a job had ended: {}".format(why)) for uuid, why in left]
        try:
            self._exchange.tell(tuple(events))
        except (Unreachable, Refused) as error:
            _log.warning("allocation %d: its end waits until its GPUs are told of: %s", allocation_id, error)
            return False
        return True

    def _answered(self, end: _End, answer: Answer) -> None:
        if isinstance(answer, Unauthorized):
            self._agent.post(Quit(EXIT_UNAUTHORIZED, str(answer)))
            return
        if isinstance(answer, Refused) and answer.status in _NO_LONGER_CARES:
            _log.warning("allocation %d: the platform does not want its end: %s", end.id, answer)
        elif isinstance(answer, (Unreachable, Refused)):
            wait_s = end.backoff.wait_s()
            _log.warning("allocation %d: cannot tell its end, trying again in %.1f s: %s", end.id, wait_s, answer)
            if isinstance(answer, Refused):
                # What it cannot read may be what the job wrote. Without an end its GPUs would be held for ever.
                end.request = replace(end.request, tail="", points=(), detail="")
            end.uuids = ()
            self._pool.submit(lambda: self._tell(end), wait_s)
            return
        self._agent.sampler.forget_strangers(end.id)
        self._agent.post(EndAnswered(end.id))
