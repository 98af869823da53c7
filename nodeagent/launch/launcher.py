"""Claims and launches: the slow steps until an allocation runs, in the threads of pools.

A launch in order: a lease; claim; intent on disk; folder; code; what the runtime lacks, such as an image; a look
whether a stop came and the lease still lasts; one at the GPUs; the first look once more; start. A stop that comes
before the last look finds the mark set by `abandon`; one that comes after finds the folder to leave its wish in.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable, Optional, Sequence, Set

from nodeagent.launch.code import install_code
from nodeagent.launch.ends import Ends
from nodeagent.launch.pullslots import PullSlots
from nodeagent.protocol.messages import (
    EXIT_UNAUTHORIZED,
    BatchItem,
    ClaimRequest,
    EndReason,
    HealthEvent,
    LaunchSpec,
    OnDisconnect,
    ProgressNote,
    RegistryLogin,
)
from nodeagent.runtime.port import STOPPED_BEFORE_IT_STARTED, ExitStatus, LaunchError
from nodeagent.state.inbox import Abandoned, ClaimRefused, Exited, Launched, Quit, Starting
from nodeagent.sync.agent import Agent
from nodeagent.sync.outbox import Answer, Outbox
from nodeagent.system import clock
from nodeagent.system.backoff import Backoff
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Refused, Unauthorized, Unreachable

_log = logging.getLogger("nodeagent.launch.launcher")

_CHECK_FOR_S = 5.0
_CHECK_EVERY_S = 0.2
_LEASE_LOOK_EVERY_S = 0.1
_PULLS_OF_A_HOST = 2
_SLOT_LOOK_EVERY_S = 0.2


@dataclass
class _Launch:
    """An allocation that was claimed, and what the steps of its launch have found."""

    spec: LaunchSpec
    login: Optional[RegistryLogin]
    claimed_at: float
    folder: str = ""
    host: str = ""
    """The sources of a fetch; empty if nothing is fetched."""

    @property
    def id(self) -> int:
        """The allocation's."""
        return self.spec.allocation_id


@dataclass(frozen=True)
class _Later:
    """The launch goes on in a thread of `pool`, with the next step or with the same `again`."""

    pool: WorkPool
    delay_s: float = 0.0
    again: bool = False


_Step = Callable[[_Launch], Optional[_Later]]


class Launcher:
    """Carries out claims and launches, and posts what became of them."""

    def __init__(
        self,
        agent: Agent,
        *,
        outbox: Outbox,
        ends: Ends,
        launches: WorkPool,
        fetches: WorkPool,
        make_way: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._outbox = outbox
        self._ends = ends
        self._launches = launches
        self._fetches = fetches  # apart, so that no start waits for the image of another
        self._make_way = make_way
        self._pull_slots = PullSlots(_PULLS_OF_A_HOST)
        self._abandoned: Set[int] = set()
        self._steps: Sequence[_Step] = (
            self._make_folder,
            self._install_code,
            self._ask_for_slot,
            self._await_slot,
            self._fetch,
            self._start,
        )

    def claim(self, allocation_id: int, fence: int) -> None:
        """Claim an allocation and start it."""
        self._abandoned.discard(allocation_id)
        self._launches.submit(partial(self._claim, allocation_id, fence, Backoff()))

    def abandon(self, allocation_id: int) -> None:
        """Do not start an allocation if that is still possible."""
        self._abandoned.add(allocation_id)

    def _claim(self, allocation_id: int, fence: int, backoff: Backoff) -> None:
        session = self._agent.session
        if allocation_id in self._abandoned:
            self._agent.post(Abandoned(allocation_id))
            return
        if not session.may_start(clock.boottime()):
            self._launches.submit(partial(self._claim, allocation_id, fence, backoff), _LEASE_LOOK_EVERY_S)
            return
        self._make_way()
        asked_at = clock.boottime()
        request = ClaimRequest(fence, session.boot_id, session.epoch, session.state_id)
        answered = partial(self._claim_answered, allocation_id, fence, backoff, asked_at)
        self._outbox.put((BatchItem(allocation_id, claim=request), answered))

    def _claim_answered(
        self, allocation_id: int, fence: int, backoff: Backoff, asked_at: float, answer: Answer
    ) -> None:
        if isinstance(answer, Unreachable):
            wait_s = backoff.wait_s()
            _log.warning("allocation %d: cannot claim, trying again in %.1f s: %s", allocation_id, wait_s, answer)
            self._launches.submit(partial(self._claim, allocation_id, fence, backoff), wait_s)
        elif isinstance(answer, Unauthorized):
            self._agent.post(Quit(EXIT_UNAUTHORIZED, str(answer)))
        elif isinstance(answer, Refused) or answer.launch is None:
            _log.info("allocation %d: not ours to start: %s", allocation_id, answer)
            self._agent.post(ClaimRefused(allocation_id))
        elif allocation_id in self._abandoned:
            self._agent.post(Abandoned(allocation_id))
        else:
            # From here on the spec goes to many places and to disk; what is secret goes to the pull only.
            spec, login = replace(answer.launch, registry_login=None), answer.launch.registry_login
            self._launches.submit(partial(self._begin, _Launch(spec, login, asked_at)))

    def _begin(self, launch: _Launch) -> None:
        try:
            self._agent.journal.intend(launch.id, launch.spec.fence, self._agent.session.boot_id)
        except OSError as error:
            self._agent.post(Starting(launch.spec))
            detail = "the agent cannot write its journal: {}".format(error.strerror)
            self._agent.post(Exited(launch.id, ExitStatus(EndReason.LAUNCH_FAILED, detail=detail, started=False)))
            return
        self._agent.post(Starting(launch.spec))
        self._go_on(launch, self._steps)

    def _go_on(self, launch: _Launch, steps: Sequence[_Step]) -> None:
        """Take the steps that are left. An unexpected error ends this allocation, not the agent."""
        try:
            for number, step in enumerate(steps):
                later = step(launch)
                if later is not None:
                    left = steps[number if later.again else number + 1 :]
                    later.pool.submit(partial(self._go_on, launch, left), later.delay_s)
                    return
        except LaunchError as error:
            self._not_started(launch, error)
        except Exception as error:  # noqa: BLE001 - it may come from what is in a spec or its code
            _log.exception("allocation %d: its start broke", launch.id)
            detail = "the agent could not start it: {!r}".format(error)[:500]
            self._not_started(launch, LaunchError(EndReason.LAUNCH_FAILED, detail))

    def _not_started(self, launch: _Launch, error: LaunchError) -> None:
        _log.warning("allocation %d: not started: %s", launch.id, error.detail)
        reason, detail = error.reason, error.detail
        if launch.id in self._abandoned:
            reason, detail = EndReason.NEVER_STARTED, STOPPED_BEFORE_IT_STARTED
        self._ends.settle(launch.id, ExitStatus(reason, detail=detail, started=False))

    def _make_folder(self, launch: _Launch) -> None:
        self._make_way()
        launch.folder = self._agent.runtime.prepare(launch.spec)

    def _install_code(self, launch: _Launch) -> None:
        agent, code = self._agent, launch.spec.code
        if code is None:
            return
        try:
            install_code(
                agent.client, code, launch.folder, agent.stopping.wait, lambda: launch.id not in self._abandoned
            )
        except Unauthorized as error:
            agent.post(Quit(EXIT_UNAUTHORIZED, str(error)))
            raise LaunchError(EndReason.CODE_UNAVAILABLE, str(error)) from error

    def _ask_for_slot(self, launch: _Launch) -> None:
        launch.host = self._agent.runtime.lacks(launch.spec)
        if launch.host:
            self._pull_slots.ask(launch.host, launch.id)

    def _await_slot(self, launch: _Launch) -> Optional[_Later]:
        """Fetch once the host has a slot. Waiting takes no thread of those who fetch."""
        if not launch.host:
            return None
        try:
            self._see_it_is_wanted(launch)
        except LaunchError:
            self._pull_slots.end(launch.host, launch.id)
            raise
        if self._pull_slots.has(launch.host, launch.id):
            return _Later(self._fetches)
        return _Later(self._launches, _SLOT_LOOK_EVERY_S, again=True)

    def _fetch(self, launch: _Launch) -> None:
        agent = self._agent
        if not launch.host:
            return

        def tell(text: str) -> None:
            _log.info("allocation %d: %s", launch.id, text)
            agent.sampler.note(ProgressNote(launch.id, launch.spec.fence, text))
            agent.report_soon()

        def is_wanted() -> bool:  # else a pull would go on alone when the agent has ended
            return launch.id not in self._abandoned and not agent.stopping.is_set()

        try:
            agent.runtime.fetch(launch.spec, launch.login, tell, is_wanted)
        except LaunchError as error:
            if agent.stopping.is_set():
                raise _agent_ended() from error
            raise
        finally:
            self._pull_slots.end(launch.host, launch.id)

    def _start(self, launch: _Launch) -> Optional[_Later]:
        """Start it, or come back when the lease is renewed: it may have run low during a long pull.

        The GPUs are looked at only while it may start, as their driver is slow; and that may have changed meanwhile.
        """
        if self._may_start(launch):
            self._look_at_gpus(launch)
            if self._may_start(launch):
                self._agent.runtime.launch(launch.spec)
                self._agent.post(Launched(launch.id))
                return None
        return _Later(self._launches, _LEASE_LOOK_EVERY_S, again=True)

    def _may_start(self, launch: _Launch) -> bool:
        """True if the lease lasts for a start; `LaunchError` if the start must not happen any more."""
        self._see_it_is_wanted(launch)
        session, now = self._agent.session, clock.boottime()
        if launch.spec.on_disconnect is OnDisconnect.STOP and (
            session.has_run_out(now) or launch.claimed_at < session.unbroken_since
        ):
            # The platform may have ended its fence and given its GPUs to another job.
            raise LaunchError(EndReason.AGENT_STOPPED, "the platform was silent for too long before it could start")
        return session.may_start(now)

    def _see_it_is_wanted(self, launch: _Launch) -> None:
        if launch.id in self._abandoned:
            raise LaunchError(EndReason.NEVER_STARTED, STOPPED_BEFORE_IT_STARTED)

    def _look_at_gpus(self, launch: _Launch) -> None:
        uuids = launch.spec.gpu_uuids
        if launch.spec.check_gpus and uuids:
            self._check_gpus(launch)
        elif uuids:
            strangers = self._agent.sampler.note_strangers(launch.id, uuids)
            if strangers:
                self._agent.journal.strangers(launch.id, strangers)

    def _check_gpus(self, launch: _Launch) -> None:
        """Return if the GPUs are fit for a start. Earlier processes get a few seconds to leave."""
        sampler, uuids = self._agent.sampler, launch.spec.gpu_uuids
        until = clock.boottime() + _CHECK_FOR_S
        found = sampler.faults(launch.id, uuids)
        while found and clock.boottime() < until and launch.id not in self._abandoned:
            if self._agent.stopping.wait(_CHECK_EVERY_S):
                raise _agent_ended()
            found = sampler.faults(launch.id, uuids)
        if not found or launch.id in self._abandoned:
            return
        for uuid, why in found:
            sampler.report(HealthEvent("check_failed", uuid, why))
        raise LaunchError(
            EndReason.GPU_CHECK_FAILED, "; ".join("GPU {}: {}".format(uuid, why) for uuid, why in found)[:500]
        )


def _agent_ended() -> LaunchError:
    return LaunchError(EndReason.NEVER_STARTED, "the agent ended before it started")
