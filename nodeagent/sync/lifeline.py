"""The three conversations that keep node and platform in step: beats, long-polls, reports. One thread for each."""

from __future__ import annotations

import logging
import time
from typing import Callable, FrozenSet, Tuple

from nodeagent.protocol.messages import (
    EXIT_REGISTER_AGAIN,
    EXIT_SUPERSEDED,
    EXIT_UNAUTHORIZED,
    REGISTER_FIRST,
    AllocationReport,
    BeatRequest,
    HealthEvent,
    Observed,
    SyncRequest,
    SyncResponse,
    Timers,
    WantedCheck,
)
from nodeagent.state.inbox import Quit, Synced, Worker
from nodeagent.sync.agent import Agent
from nodeagent.system import clock
from nodeagent.system.backoff import Backoff
from nodeagent.transport.client import Refused, Unauthorized, Unreachable

_log = logging.getLogger("nodeagent.sync.lifeline")

DEBOUNCE_S = 0.05
REPORT_EVERY_S = 10.0
_CONFLICT = 409
_ODD_ANSWER_WAIT_S = 0.2

Reports = Callable[[], Tuple[AllocationReport, ...]]


class Conversation(Worker):
    """A thread that talks to the platform until the agent ends. A refusal of the agent itself ends the agent."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.post, agent.stopping)
        self._client = agent.client
        self._session = agent.session
        self._backoff = Backoff()
        self._quiet = True

    def talk(self) -> None:
        """One exchange, with the waiting that belongs to it."""
        raise NotImplementedError

    def turn(self) -> None:
        """Talk once; what the platform says instead of an answer is looked at here."""
        try:
            self.talk()
        except Unauthorized as error:
            self._leave(EXIT_UNAUTHORIZED, "the platform refused the credential of this node: {}".format(error.detail))
        except Refused as error:
            if error.status == _CONFLICT:
                self._leave(EXIT_SUPERSEDED, "another agent speaks for this node: {}".format(error.detail))
            elif error.status == REGISTER_FIRST:
                self._leave(EXIT_REGISTER_AGAIN, error.detail)
            else:
                self._trouble(error)
        except Unreachable as error:
            self._trouble(error)
        else:
            if not self._quiet:
                _log.info("%s: the platform answers again", self.name)
            self._quiet = True
            self._backoff.reset()

    def _trouble(self, error: Exception) -> None:
        """Say it once for each outage, and wait."""
        if self._quiet and not self._stopping.is_set():
            _log.warning("%s: %s", self.name, error)
        self._quiet = False
        self._stopping.wait(self._backoff.wait_s())

    def _leave(self, status: int, message: str) -> None:
        self._post(Quit(status, message))
        self._stopping.wait()


class Beats(Conversation):
    """Renews the lease, and with it the right of the jobs to go on."""

    def __init__(
        self,
        agent: Agent,
        *,
        renewed: Callable[[float, Timers], None],
        wanted: Callable[[Tuple[WantedCheck, ...]], None],
    ) -> None:
        super().__init__(agent)
        self._renewed = renewed
        self._wanted = wanted
        self._last_sent = time.monotonic()

    def talk(self) -> None:
        """Wait until a beat is due, and send it."""
        beat_s = self._session.timers.beat_s
        if self._stopping.wait(max(0.0, self._last_sent + beat_s - time.monotonic())):
            return
        sent_at = clock.boottime()
        request = BeatRequest(self._session.epoch, self._session.seq(), self._session.boot_id)
        answer = self._client.beat(request, timeout_s=max(1.0, beat_s))
        self._last_sent = time.monotonic()
        self._session.renew(sent_at, clock.boottime())
        self._session.timers = answer.timers
        self._renewed(sent_at, answer.timers)
        self._wanted(answer.checks)


class Exchange:
    """A sync call, in both its uses."""

    def __init__(self, agent: Agent, *, reports: Reports, paused: Callable[[float], None]) -> None:
        self._client = agent.client
        self._session = agent.session
        self._sampler = agent.sampler
        self.reports = reports
        self._paused = paused

    def sync(self, generation: str, wait_s: float) -> SyncResponse:
        """Tell everything that is seen, and return the answer."""
        reports = self.reports()
        news = self._sampler.take({report.id: report.fence for report in reports})
        request = SyncRequest(
            epoch=self._session.epoch,
            seq=self._session.seq(),
            boot_id=self._session.boot_id,
            generation=generation,
            wait_s=wait_s,
            allocations=reports,
            gpus=news.gpus,
            host=news.host,
            health=news.health,
            notes=news.notes,
            usage=news.usage,
            checks=news.checks,
            reported=news.reported,
        )
        try:
            answer = self._client.sync(request)
        except (Unreachable, Refused):
            self._sampler.give_back(news)
            raise
        self._session.timers = answer.timers
        if answer.log_pause_s > 0:
            self._paused(answer.log_pause_s)
        return answer

    def tell(self, health: Tuple[HealthEvent, ...]) -> None:
        """Tell what went wrong with GPUs; on return the platform has it."""
        self._client.sync(
            SyncRequest(
                epoch=self._session.epoch,
                seq=self._session.seq(),
                boot_id=self._session.boot_id,
                generation="",
                wait_s=0.0,
                allocations=self.reports(),
                health=health,
            )
        )

    def has_news(self) -> bool:
        """True if news other than reports and readings waits to be sent."""
        return self._sampler.has_news()


class Polls(Conversation):
    """Asks for the desired set and waits for its changes."""

    def __init__(self, agent: Agent, exchange: Exchange) -> None:
        super().__init__(agent)
        self._exchange = exchange
        self._generation = ""

    def talk(self) -> None:
        """One long-poll."""
        wait_s = self._session.timers.sync_wait_s
        began = time.monotonic()
        answer = self._exchange.sync(self._generation, wait_s)
        unchanged = answer.generation == self._generation
        self._generation = answer.generation
        self._post(Synced(answer, clock.boottime()))
        if unchanged and time.monotonic() - began < min(wait_s, _ODD_ANSWER_WAIT_S):
            # Nothing new, and not waited for it: the platform is going down, or is not what we think it is.
            self._stopping.wait(_ODD_ANSWER_WAIT_S)


class Reporter(Conversation):
    """Tells soon that something runs, and at times how it goes while something does."""

    def __init__(self, agent: Agent, exchange: Exchange) -> None:
        super().__init__(agent)
        self._exchange = exchange
        self._asked = agent.asked
        self._told: FrozenSet[int] = frozenset()

    def talk(self) -> None:
        """Wait for a reason to report, let what is over in a moment pass, and report."""
        asked = self._asked.wait(REPORT_EVERY_S)
        if asked:
            self._asked.clear()
            self._stopping.wait(DEBOUNCE_S)
        running = frozenset(report.id for report in self._exchange.reports() if report.observed is Observed.RUNNING)
        if ((running - self._told) if asked else running) or self._exchange.has_news():
            self._exchange.sync("", 0.0)
        self._told = running
