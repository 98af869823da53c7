"""Claims, launches and ends: the slow steps of an allocation, in the threads of a pool.

A launch in order: a lease; claim; intent on disk; folder; code; what the runtime lacks, such as an image; a look
whether a stop came and the lease still lasts; one at the GPUs; the first look once more; start. A stop that comes
before the last look finds the mark set by `abandon`; one that comes after finds the folder to leave its wish in.
"""

from __future__ import annotations

import http.client
import logging
import math
from dataclasses import replace
from functools import partial
from typing import Callable, Optional, Set, Tuple

from nodeagent.launch.code import install_code
from nodeagent.launch.pullslots import PullSlots
from nodeagent.protocol.messages import (
    EXIT_UNAUTHORIZED,
    MAX_TAIL_BYTES,
    BatchItem,
    ClaimRequest,
    CodeRef,
    EndReason,
    EndRequest,
    HealthEvent,
    LaunchSpec,
    OnDisconnect,
    ProgressNote,
    RegistryLogin,
)
from nodeagent.runtime.port import STOPPED_BEFORE_IT_STARTED, ExitStatus, LaunchError, NotYet, Runtime, Watched
from nodeagent.ship.shipper import LogShipper
from nodeagent.ship.tail import newest
from nodeagent.state.inbox import (
    Abandoned,
    ClaimRefused,
    EndAnswered,
    Exited,
    Launched,
    Post,
    Quit,
    Starting,
    Unsettled,
)
from nodeagent.state.journal import Journal
from nodeagent.sync.outbox import Answer, Outbox
from nodeagent.sync.session import Session
from nodeagent.system import clock
from nodeagent.system.backoff import Backoff
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Client, Refused, Unauthorized, Unreachable
from nodeagent.watch.sampler import Sampler

_log = logging.getLogger("nodeagent.launch.launcher")

_GPU_WAIT_S = 10.0
"""A GPU that is not seen to be empty by then gets no jobs any more until it is, and the end is told."""
_GPU_LOOK_EVERY_S = 0.1
_CHECK_FOR_S = 5.0
_CHECK_EVERY_S = 0.2
_HEALTH_FIRST_S = 1.0
"""So long a report of a GPU's health may be on its way, and an end that it explains is told after it."""
_LEASE_LOOK_EVERY_S = 0.1
_SETTLE_WAIT_S = 60.0
"""The longest wait for another look at what cannot be ended: it may stay so for hours, and a look is no small work."""
_TELL_AFTER_S = 60.0
"""Operators are told of an allocation that cannot be ended for so long: an engine may just be restarted."""
_NO_LONGER_CARES = (http.client.NOT_FOUND, http.client.CONFLICT)
_PULLS_OF_A_HOST = 2
_SLOT_LOOK_EVERY_S = 0.2


class Launcher:
    """Carries out claims, launches and ends, and posts what became of them."""

    def __init__(
        self,
        *,
        client: Client,
        outbox: Outbox,
        logs: LogShipper,
        journal: Journal,
        runtime: Runtime,
        sampler: Sampler,
        session: Session,
        launches: WorkPool,
        fetches: WorkPool,
        ends: WorkPool,
        post: Post,
        wait: Callable[[float], bool],
        report_soon: Callable[[], None],
        report_now: Callable[[], None],
        tell_health: Callable[[Tuple[HealthEvent, ...]], None],
        make_way: Callable[[], None],
    ) -> None:
        self._client = client
        self._outbox = outbox
        self._logs = logs
        self._journal = journal
        self._runtime = runtime
        self._sampler = sampler
        self._session = session
        self._launches = launches
        self._fetches = fetches  # apart, so that no start waits for the image of another
        self._pull_slots = PullSlots(_PULLS_OF_A_HOST)
        self._ends = ends  # apart, so that no end waits for a launch that is slow
        self._post = post
        self._wait = wait
        self._report_soon = report_soon
        self._report_now = report_now
        self._tell_health = tell_health
        self._make_way = make_way
        self._abandoned: Set[int] = set()

    def claim(self, allocation_id: int, fence: int) -> None:
        """Claim an allocation and start it."""
        self._abandoned.discard(allocation_id)
        backoff = Backoff()
        self._launches.submit(lambda: self._claim(allocation_id, fence, backoff))

    def abandon(self, allocation_id: int) -> None:
        """Do not start an allocation if that is still possible."""
        self._abandoned.add(allocation_id)

    def end(self, allocation_id: int, fence: int, status: ExitStatus, uuids: Tuple[str, ...]) -> None:
        """Tell the platform that an allocation is over, until it answers; first its GPUs must be empty.

        A GPU that is not empty, or that cannot be checked, is taken out of service first.
        """
        request = EndRequest(
            fence=fence,
            boot_id=self._session.boot_id,
            state_id=self._session.state_id,
            reason=status.reason,
            exit_code=status.exit_code,
            signal=status.signal,
            detail=status.detail,
            started=status.started,
            started_at=status.started_at,
            ended_at=status.ended_at,
            log_size=status.log_size,
            seq=self._session.seq(),
        )
        backoff = Backoff()
        until = clock.boottime() + _GPU_WAIT_S
        held = uuids if status.started else ()  # what never started holds nothing
        suspects = () if status.reason is EndReason.COMPLETED else uuids

        def end() -> None:
            if not self._tell_health_first(allocation_id, suspects, again=end):
                self._end(allocation_id, self._with_last_words(allocation_id, request), backoff, held, until)

        self._ends.submit(end)

    def settle(self, allocation_id: int, reason: EndReason, detail: str) -> None:
        """Give an exit status to an allocation without a shim; if it turns out to have one, it goes on."""
        status = ExitStatus(reason, detail=detail, started=reason is EndReason.UNKNOWN)
        self._ends.submit(lambda: self._settle_in_time(allocation_id, status))

    def _claim(self, allocation_id: int, fence: int, backoff: Backoff) -> None:
        if allocation_id in self._abandoned:
            self._post(Abandoned(allocation_id))
            return
        if not self._session.may_start(clock.boottime()):
            self._launches.submit(lambda: self._claim(allocation_id, fence, backoff), _LEASE_LOOK_EVERY_S)
            return
        self._make_way()
        asked_at = clock.boottime()
        request = ClaimRequest(fence, self._session.boot_id, self._session.epoch, self._session.state_id)
        answered = partial(self._claim_answered, allocation_id, fence, backoff, asked_at)
        self._outbox.put((BatchItem(allocation_id, claim=request), answered))

    def _claim_answered(
        self, allocation_id: int, fence: int, backoff: Backoff, asked_at: float, answer: Answer
    ) -> None:
        if isinstance(answer, Unreachable):
            wait_s = backoff.wait_s()
            _log.warning("allocation %d: cannot claim, trying again in %.1f s: %s", allocation_id, wait_s, answer)
            self._launches.submit(lambda: self._claim(allocation_id, fence, backoff), wait_s)
        elif isinstance(answer, Unauthorized):
            self._post(Quit(EXIT_UNAUTHORIZED, str(answer)))
        elif isinstance(answer, Refused) or answer.launch is None:
            _log.info("allocation %d: not ours to start: %s", allocation_id, answer)
            self._post(ClaimRefused(allocation_id))
        elif allocation_id in self._abandoned:
            self._post(Abandoned(allocation_id))
        else:
            # From here on the spec goes to many places and to disk; what is secret goes to the pull only.
            spec, login = replace(answer.launch, registry_login=None), answer.launch.registry_login
            self._launches.submit(lambda: self._start(spec, login, asked_at))

    def _start(self, spec: LaunchSpec, login: Optional[RegistryLogin], claimed_at: float) -> None:
        try:
            self._journal.intend(spec.allocation_id, spec.fence, self._session.boot_id)
        except OSError as error:
            self._post(Starting(spec))
            detail = "the agent cannot write its journal: {}".format(error.strerror)
            self._post(Exited(spec.allocation_id, ExitStatus(EndReason.LAUNCH_FAILED, detail=detail, started=False)))
            return
        self._post(Starting(spec))
        self._guarded(spec, lambda: self._prepare(spec, login, claimed_at))

    def _guarded(self, spec: LaunchSpec, step: Callable[[], None]) -> None:
        """Take a step of a start. An unexpected error ends this allocation, not the agent."""
        try:
            step()
        except LaunchError as error:
            self._not_started(spec, error)
        except Exception as error:  # noqa: BLE001 - it may come from what is in a spec or its code
            _log.exception("allocation %d: its start broke", spec.allocation_id)
            detail = "the agent could not start it: {!r}".format(error)[:500]
            self._not_started(spec, LaunchError(EndReason.LAUNCH_FAILED, detail))

    def _later(self, pool: WorkPool, spec: LaunchSpec, step: Callable[[], None], delay_s: float = 0.0) -> None:
        pool.submit(lambda: self._guarded(spec, step), delay_s)

    def _prepare(self, spec: LaunchSpec, login: Optional[RegistryLogin], claimed_at: float) -> None:
        self._make_way()
        folder = self._runtime.prepare(spec)
        if spec.code is not None:
            self._install_code(spec, spec.code, folder)
        host = self._runtime.lacks(spec)
        if host:
            self._pull_slots.ask(host, spec.allocation_id)
            self._await_slot(spec, login, claimed_at, host)
        else:
            self._launch(spec, claimed_at)

    def _await_slot(self, spec: LaunchSpec, login: Optional[RegistryLogin], claimed_at: float, host: str) -> None:
        """Fetch once the host has a slot. Waiting takes no thread of those who fetch."""
        try:
            self._see_it_is_wanted(spec)
        except LaunchError:
            self._pull_slots.end(host, spec.allocation_id)
            raise
        if self._pull_slots.has(host, spec.allocation_id):
            self._later(self._fetches, spec, lambda: self._fetch_and_launch(spec, login, claimed_at, host))
        else:
            again = partial(self._await_slot, spec, login, claimed_at, host)
            self._later(self._launches, spec, again, _SLOT_LOOK_EVERY_S)

    def _fetch_and_launch(self, spec: LaunchSpec, login: Optional[RegistryLogin], claimed_at: float, host: str) -> None:
        def tell(text: str) -> None:
            _log.info("allocation %d: %s", spec.allocation_id, text)
            self._sampler.note(ProgressNote(spec.allocation_id, spec.fence, text))
            self._report_soon()

        try:
            self._runtime.fetch(spec, login, tell, lambda: self._is_wanted(spec))
        except LaunchError as error:
            if self._is_ending():
                raise LaunchError(EndReason.NEVER_STARTED, "the agent ended before it started") from error
            raise
        finally:
            self._pull_slots.end(host, spec.allocation_id)
        self._launch(spec, claimed_at)

    def _launch(self, spec: LaunchSpec, claimed_at: float) -> None:
        """Start it, or come back when the lease is renewed: it may have run low during a long pull.

        The GPUs are looked at only while it may start, as their driver is slow; and that may have changed meanwhile.
        """
        if self._may_start(spec, claimed_at):
            self._look_at_gpus(spec)
            if self._may_start(spec, claimed_at):
                self._runtime.launch(spec)
                self._post(Launched(spec.allocation_id))
                return
        self._later(self._launches, spec, lambda: self._launch(spec, claimed_at), _LEASE_LOOK_EVERY_S)

    def _may_start(self, spec: LaunchSpec, claimed_at: float) -> bool:
        """Whether the lease lasts for a start; `LaunchError` if it must not come to one any more."""
        self._see_it_is_wanted(spec)
        now = clock.boottime()
        if spec.on_disconnect is OnDisconnect.STOP and (
            self._session.has_run_out(now) or claimed_at < self._session.unbroken_since
        ):
            # The platform may have ended its fence and given its GPUs to another job.
            raise LaunchError(EndReason.AGENT_STOPPED, "the platform was silent for too long before it could start")
        return self._session.may_start(now)

    def _is_wanted(self, spec: LaunchSpec) -> bool:
        """Whether what is fetched for it is of use: else a pull would go on alone when the agent has ended."""
        return spec.allocation_id not in self._abandoned and not self._is_ending()

    def _is_ending(self) -> bool:
        return self._wait(0.0)

    def _see_it_is_wanted(self, spec: LaunchSpec) -> None:
        if spec.allocation_id in self._abandoned:
            raise LaunchError(EndReason.NEVER_STARTED, STOPPED_BEFORE_IT_STARTED)

    def _look_at_gpus(self, spec: LaunchSpec) -> None:
        if spec.check_gpus and spec.gpu_uuids:
            self._check_gpus(spec)
        elif spec.gpu_uuids:
            strangers = self._sampler.note_strangers(spec.allocation_id, spec.gpu_uuids)
            if strangers:
                self._journal.strangers(spec.allocation_id, strangers)

    def _check_gpus(self, spec: LaunchSpec) -> None:
        """Return if the GPUs are fit for a start. What was there a moment ago is given a few seconds to leave."""
        until = clock.boottime() + _CHECK_FOR_S
        found = self._sampler.faults(spec.allocation_id, spec.gpu_uuids)
        while found and clock.boottime() < until and spec.allocation_id not in self._abandoned:
            if self._wait(_CHECK_EVERY_S):
                raise LaunchError(EndReason.NEVER_STARTED, "the agent ended before it started")
            found = self._sampler.faults(spec.allocation_id, spec.gpu_uuids)
        if not found or spec.allocation_id in self._abandoned:
            return
        for uuid, why in found:
            self._sampler.report(HealthEvent("check_failed", uuid, why))
        raise LaunchError(
            EndReason.GPU_CHECK_FAILED, "; ".join("GPU {}: {}".format(uuid, why) for uuid, why in found)[:500]
        )

    def _not_started(self, spec: LaunchSpec, error: LaunchError) -> None:
        _log.warning("allocation %d: not started: %s", spec.allocation_id, error.detail)
        reason, detail = error.reason, error.detail
        if spec.allocation_id in self._abandoned:
            reason, detail = EndReason.NEVER_STARTED, STOPPED_BEFORE_IT_STARTED
        status = ExitStatus(reason, detail=detail, started=False)
        self._settle_in_time(spec.allocation_id, status)

    def _install_code(self, spec: LaunchSpec, code: CodeRef, folder: str) -> None:
        try:
            install_code(self._client, code, folder, self._wait, lambda: spec.allocation_id not in self._abandoned)
        except Unauthorized as error:
            self._post(Quit(EXIT_UNAUTHORIZED, str(error)))
            raise LaunchError(EndReason.CODE_UNAVAILABLE, str(error)) from error

    def _settle_in_time(self, allocation_id: int, fallback: ExitStatus) -> None:
        """Settle it, with ever longer waits between the tries."""
        backoff = Backoff(max_s=_SETTLE_WAIT_S)
        self._settle(allocation_id, fallback, backoff, clock.boottime() + _TELL_AFTER_S)

    def _settle(self, allocation_id: int, fallback: ExitStatus, backoff: Backoff, tell_at: float) -> None:
        try:
            status = self._runtime.settle(allocation_id, fallback)
        except NotYet as error:
            now = clock.boottime()
            if now >= tell_at:
                tell_at = math.inf
                detail = "allocation {} keeps its GPUs, as the agent cannot end it: {}".format(allocation_id, error)
                self._sampler.report(HealthEvent("other", None, detail[:500]))
            wait_s = min(backoff.wait_s(), tell_at - now)
            _log.warning("allocation %d: its end is not known, looking in %.1f s: %s", allocation_id, wait_s, error)
            self._ends.submit(lambda: self._settle(allocation_id, fallback, backoff, tell_at), wait_s)
            return
        except Watched:
            _log.info("allocation %d: it is not over", allocation_id)
            self._post(Unsettled(allocation_id))
            return
        except OSError as error:
            _log.warning("allocation %d: its exit status cannot be kept: %s", allocation_id, error)
            status = fallback
        self._post(Exited(allocation_id, status))

    def _tell_health_first(self, allocation_id: int, uuids: Tuple[str, ...], again: Callable[[], None]) -> bool:
        """Whether the end must come later: the platform judges it by what its GPUs suffered, and must hear that first.

        What is on its way in another thread is given a moment. If the platform does not answer, the end waits as well.
        """
        if not uuids:
            return False
        waits, ago_s = self._sampler.last_words(uuids)
        if waits:
            try:
                self._report_now()
            except (Unreachable, Refused) as error:
                _log.warning("allocation %d: cannot tell of its GPUs before its end: %s", allocation_id, error)
        elif ago_s < _HEALTH_FIRST_S:
            self._ends.submit(again, _HEALTH_FIRST_S - ago_s)
            return True
        return False

    def _with_last_words(self, allocation_id: int, request: EndRequest) -> EndRequest:
        """The end with what the job reported last, and with the newest of its log if there is something to explain."""
        if request.started:
            request = replace(request, points=self._sampler.last_points(allocation_id))
        if request.reason is EndReason.COMPLETED or not request.started:
            return request
        try:
            source = self._runtime.log(allocation_id)
            try:
                return replace(request, tail=newest(source, MAX_TAIL_BYTES))
            finally:
                source.close()
        except OSError as error:
            _log.warning("allocation %d: its log cannot be read: %s", allocation_id, error)
            return request

    def _end(
        self, allocation_id: int, request: EndRequest, backoff: Backoff, uuids: Tuple[str, ...], gpu_wait_until: float
    ) -> None:
        left = self._sampler.left(allocation_id, uuids) if uuids else ()
        if left:
            wait_s = _GPU_LOOK_EVERY_S
            if clock.boottime() >= gpu_wait_until:
                wait_s = 0.0 if self._take_out(allocation_id, left) else backoff.wait_s()
            if wait_s > 0:
                again = partial(self._end, allocation_id, request, backoff, uuids, gpu_wait_until)
                self._ends.submit(again, wait_s)
                return
        log = self._logs.take_last(allocation_id)
        end = BatchItem(allocation_id, end=request), partial(self._end_answered, allocation_id, request, backoff)
        self._outbox.put(*(() if log is None else (log,)), end)

    def _end_answered(self, allocation_id: int, request: EndRequest, backoff: Backoff, answer: Answer) -> None:
        if isinstance(answer, Unauthorized):
            self._post(Quit(EXIT_UNAUTHORIZED, str(answer)))
            return
        if isinstance(answer, Refused) and answer.status in _NO_LONGER_CARES:
            _log.warning("allocation %d: the platform does not want its end: %s", allocation_id, answer)
        elif isinstance(answer, (Unreachable, Refused)):
            wait_s = backoff.wait_s()
            _log.warning(
                "allocation %d: cannot tell its end, trying again in %.1f s: %s", allocation_id, wait_s, answer
            )
            if isinstance(answer, Refused):
                # What it cannot read may be what the job wrote. Without an end its GPUs would be held for ever.
                request = replace(request, tail="", points=(), detail="")
            self._ends.submit(lambda: self._end(allocation_id, request, backoff, (), math.inf), wait_s)
            return
        self._sampler.forget_strangers(allocation_id)
        self._post(EndAnswered(allocation_id))

    def _take_out(self, allocation_id: int, left: Tuple[Tuple[str, str], ...]) -> bool:
        """Whether the platform has it that nothing may start on these GPUs until a check has seen them empty."""
        for uuid, why in left:
            _log.warning("allocation %d is over, but its GPU %s is not free: %s", allocation_id, uuid, why)
        events = [HealthEvent("check_failed", uuid, "after a job had ended: {}".format(why)) for uuid, why in left]
        try:
            self._tell_health(tuple(events))
        except (Unreachable, Refused) as error:
            _log.warning("allocation %d: its end waits until its GPUs are told of: %s", allocation_id, error)
            return False
        return True
