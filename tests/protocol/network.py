"""The simulated network between agents and the real services of the platform, and what may become of a message."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import BinaryIO

from django.db import connection

from muster.agents import batches, services
from muster.agents.desired import desired_sets
from muster.agents.samples import store_samples
from muster.common.errors import MusterError
from muster.fleet.leases import node_of_credential, require_epoch
from muster.fleet.models import Node
from muster.jobs.models import Allocation
from nodeagent.protocol import calls
from nodeagent.protocol.messages import (
    BatchRequest,
    BatchResponse,
    BeatRequest,
    HelloRequest,
    ItemOutcome,
    LogAccepted,
    LogFinishRequest,
    Problem,
    RegisterRequest,
    SyncRequest,
)
from nodeagent.transport.transport import Transport, Unreachable
from tests.protocol.kernel import Kernel

WAY_S = 0.01

Answer = tuple[int, bytes]
Respond = Callable[[Answer], None]


class Fate(Enum):
    """Fates of one call."""

    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    REQUEST_LATE = "request late"
    ANSWER_LATE = "answer late"
    TWICE = "request twice"


@dataclass
class Link:
    """The way between one machine and the platform."""

    requests_pass: bool = True
    answers_pass: bool = True
    fates: dict[str, deque[tuple[Fate, float]]] = field(default_factory=dict)

    def fate(self, kind: str) -> tuple[Fate, float] | None:
        waiting = self.fates.get(kind)
        return waiting.popleft() if waiting else None

    def mend(self) -> None:
        self.requests_pass = self.answers_pass = True
        self.fates.clear()


@dataclass
class _Poll:
    node: Node
    generation: str
    until: float
    respond: Respond


class Platform:
    """The agents' endpoint over the real services, without HTTP; it can be out, and then forgets who waits."""

    def __init__(self, kernel: Kernel, rate: float) -> None:
        self.kernel = kernel
        self.rate = rate
        self.is_up = True
        self.changed = False
        self._polls: list[_Poll] = []
        self._logs: dict[int, int] = {}

    def set_clock(self) -> None:
        """Let the database's clock say what the platform's does now."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('simulated.now', (timestamptz '2030-01-01Z' + %s * interval '1s')::text, true)",
                [self.kernel.now * self.rate],
            )

    def stop(self) -> None:
        """Answer no call until `is_up` again."""
        self.is_up = False
        self._polls.clear()

    def handle(self, path: str, secret: str, body: bytes, headers: Mapping[str, str], respond: Respond) -> None:
        """Serve one call at the platform's time."""
        if not self.is_up:
            respond((503, b""))
            return
        self.set_clock()
        try:
            if path == calls.SYNC_PATH:
                self._sync(secret, SyncRequest.from_json(body), respond)
            else:
                respond(self._answer(path, secret, body, headers))
        except MusterError as error:
            problem = Problem(title=error.title, detail=error.detail, status=error.status)
            respond((error.status, problem.to_json()))

    def look_at_polls(self) -> None:
        """Answer the long-polls for which there is news, or whose time is over."""
        self.changed = False
        if not (self.is_up and self._polls):
            return
        self.set_clock()
        polls, self._polls = self._polls, []
        for poll in polls:
            desired = desired_sets([poll.node])[poll.node]
            if desired.generation == poll.generation and self.kernel.now < poll.until:
                self._polls.append(poll)
            else:
                poll.respond((200, services.sync_answer(poll.node, desired).to_json()))

    def _sync(self, secret: str, message: SyncRequest, respond: Respond) -> None:
        node = node_of_credential(secret)
        require_epoch(node=node, epoch=message.epoch)
        desired = desired_sets([node])[node]
        services.take_news(node, message, desired)
        store_samples({node: message})
        if desired.generation == message.generation and message.wait_s > 0:
            wait_s = min(message.wait_s, services.SYNC_WAIT_S)
            self._polls.append(_Poll(node, message.generation, self.kernel.now + wait_s, respond))
        else:
            respond((200, services.sync_answer(node, desired).to_json()))

    def _answer(self, path: str, secret: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if path == calls.HELLO_PATH:
            return 200, services.greet_agent(secret, HelloRequest.from_json(body)).to_json()
        if path == calls.REGISTER_PATH:
            self.changed = True
            return 200, services.register_agent(secret, RegisterRequest.from_json(body)).to_json()
        if path == calls.BEAT_PATH:
            return 200, services.beat(node_of_credential(secret), BeatRequest.from_json(body)).to_json()
        if path == calls.BATCH_PATH:
            return self._batch(node_of_credential(secret), BatchRequest.from_json(body))
        return self._log(int(path.split("/")[-2]), secret, headers)

    def _batch(self, node: Node, message: BatchRequest) -> Answer:
        """As the endpoint does it; nothing waits for a lock here. Of logs there are sizes only."""
        self.changed = True
        items = dict(enumerate(message.items))
        logs = {place: item.finish for place, item in items.items() if item.finish is not None}
        outcomes = {place: self._finish(node, items[place].id, finish) for place, finish in logs.items()}
        outcomes |= batches.apply_together(node, {place: item for place, item in items.items() if place not in logs})
        for place, item in items.items():
            if place not in outcomes:
                outcomes[place] = batches.apply_alone(node, item)
        return 200, BatchResponse(tuple(outcomes[place] for place in items)).to_json()

    def _finish(self, node: Node, allocation_id: int, request: LogFinishRequest) -> ItemOutcome:
        if not Allocation.objects.filter(pk=allocation_id, node=node).exists():
            return ItemOutcome(404)
        if request.fence != Allocation.objects.get(pk=allocation_id).attempt_id:
            return ItemOutcome(409)
        size = self._logs.setdefault(allocation_id, 0)
        if request.rest:
            if request.start > size:
                return ItemOutcome(416, size=size)
            self._logs[allocation_id] = max(size, request.start + len(base64.b64decode(request.rest)))
        return ItemOutcome(200)

    def _log(self, allocation_id: int, secret: str, headers: Mapping[str, str]) -> Answer:
        """A log store of sizes only."""
        size = self._logs.setdefault(allocation_id, 0)
        self._of(secret, allocation_id, int(headers[calls.FENCE_HEADER]))
        first, last = calls.parse_content_range(headers[calls.CONTENT_RANGE_HEADER])
        if first > size:
            return 416, LogAccepted(size).to_json()
        self._logs[allocation_id] = max(size, last + 1)
        return 202, LogAccepted(self._logs[allocation_id]).to_json()

    def _of(self, secret: str, allocation_id: int, fence: int) -> Allocation:
        allocation = services.allocation_of(secret, allocation_id)
        services.require_fence(allocation, fence)
        return allocation


class Way(Transport):
    """The transport of one agent: its calls take time, and may be lost on either half of the way."""

    def __init__(self, kernel: Kernel, platform: Platform, link: Link) -> None:
        self._kernel = kernel
        self._platform = platform
        self._link = link

    def call(self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
        """Send a request and wait for what comes of it."""
        link, kernel = self._link, self._kernel
        kind = path.rsplit("/", maxsplit=1)[-1]
        kinds = _kinds_in(body) if path == calls.BATCH_PATH else [kind]
        fate, delay_s = next(filter(None, map(link.fate, kinds)), (None, 0.0))
        secret = headers[calls.AUTHORIZATION_HEADER].removeprefix("Bearer ")
        answered: list[Callable[[Answer | None], None]] = []
        sent_ok = link.requests_pass and fate is not Fate.REQUEST_LOST

        def respond(answer: Answer) -> None:
            late_s = delay_s if fate is Fate.ANSWER_LATE else 0.0
            if link.answers_pass and fate is not Fate.ANSWER_LOST:
                kernel.at(kernel.now + WAY_S + late_s, lambda: link.answers_pass and answered[0](answer))

        def arrive(answer: Respond) -> None:
            if link.requests_pass:
                self._platform.handle(path, secret, body, headers, answer)

        if sent_ok:
            late_s = delay_s if fate is Fate.REQUEST_LATE else 0.0
            kernel.at(kernel.now + WAY_S + late_s, lambda: arrive(respond))
            if fate is Fate.TWICE:
                kernel.at(kernel.now + WAY_S + delay_s, lambda: arrive(lambda answer: None))
        answer: Answer | None = kernel.wait(timeout_s, answered)
        if answer is None:
            raise Unreachable(f"{kind}: no answer in {timeout_s:g} s")
        return answer

    def fetch(
        self, path: str, headers: Mapping[str, str], target: BinaryIO, limit_bytes: int, timeout_s: float
    ) -> Answer:
        raise AssertionError("no job has code")

    def local_address(self) -> str:
        return "10.0.0.1"

    def close(self) -> None:
        """Nothing is open."""


def _kinds_in(body: bytes) -> list[str]:
    """The calls of which a batch has an item: a fate that waits for one of them comes to the whole batch."""
    items = BatchRequest.from_json(body).items
    return [
        kind
        for kind, told in (
            ("claim", any(item.claim for item in items)),
            ("end", any(item.end for item in items)),
            ("log:finish", any(item.finish for item in items)),
        )
        if told
    ]


SHADOW_CLOCK = """
CREATE SCHEMA simulated;
CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
AS $$ SELECT current_setting('simulated.now')::timestamptz $$;
SET LOCAL search_path = simulated, pg_catalog, public;
"""
_DEFAULTS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' AND column_default LIKE '%clock_timestamp()%'
"""


def shadow_the_clock() -> None:
    """Let this transaction's `clock_timestamp()` be ours, also where it is a column's default; a rollback ends that."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('simulated.now', pg_catalog.clock_timestamp()::text, true)")
        cursor.execute(_DEFAULTS)
        columns = cursor.fetchall()
        cursor.execute(SHADOW_CLOCK)
        for table, column in columns:
            default = "simulated.clock_timestamp()"
            cursor.execute(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" SET DEFAULT {default}')
