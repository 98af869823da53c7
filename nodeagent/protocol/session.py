"""Messages that open an agent's session, and its heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple

from nodeagent.protocol.inventory import Inventory
from nodeagent.protocol.terms import MAX_ID_CHARACTERS
from nodeagent.protocol.wire import Message, text


@dataclass(frozen=True)
class Timers(Message):
    """The platform's periods for one node; an operator may lengthen them, and they come with every answer."""

    beat_s: float = 5.0
    suspect_s: float = 15.0
    unreachable_s: float = 30.0
    stop_after_s: float = 600.0
    sync_wait_s: float = 25.0
    orphan_grace_s: float = 60.0
    log_max_bytes_per_job: int = 1 << 30


@dataclass(frozen=True)
class HelloRequest(Message):
    """An agent's first word after each of its starts, with the header and the credential of its registration."""

    credential: str = field(metadata=text(MAX_ID_CHARACTERS))


@dataclass(frozen=True)
class HelloResponse(Message):
    """The nonce that the node's next registration must carry."""

    nonce: str


@dataclass(frozen=True)
class RegisterRequest(Message):
    """An agent begins to speak for its node. `nonce` is that of the hello before it.

    The header carries the join token until a registration has succeeded and the credential from then on.
    `credential` is made by the agent and kept on its disk, so a lost answer is retried with the same pair. `state_id`
    names the folder in which it remembers what it has started.
    """

    protocol: int
    boot_id: str = field(metadata=text(MAX_ID_CHARACTERS))
    agent_version: str = field(metadata=text(100))
    credential: str = field(metadata=text(MAX_ID_CHARACTERS))
    inventory: Inventory
    nonce: str = field(metadata=text(MAX_ID_CHARACTERS))
    state_id: str = field(metadata=text(MAX_ID_CHARACTERS))


@dataclass(frozen=True)
class RegisterResponse(Message):
    """The node's identity and the epoch of this run of its agent."""

    protocol: int
    node_id: int
    node_name: str
    cluster_id: str
    epoch: int
    timers: Timers


@dataclass(frozen=True)
class BeatRequest(Message):
    """The sign of life that renews the node's lease."""

    epoch: int
    seq: int
    boot_id: str = field(metadata=text(MAX_ID_CHARACTERS))


@dataclass(frozen=True)
class WantedCheck(Message):
    """A GPU that is to be checked while nothing runs there; the number grows with each check of a GPU."""

    number: int
    gpu_uuid: str


@dataclass(frozen=True)
class BeatResponse(Message):
    """The lease is renewed; `checks` are all that are wanted and of which no result has come."""

    timers: Timers
    checks: Tuple[WantedCheck, ...] = ()


@dataclass(frozen=True)
class Problem(Message):
    """The body of a refusal, `application/problem+json`."""

    title: str = ""
    detail: str = ""
    status: int = 0
