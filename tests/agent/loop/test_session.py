"""Registration of an agent with a platform that answers call by call."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pytest

from nodeagent.protocol import calls
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.messages import (
    HelloRequest,
    HelloResponse,
    Inventory,
    Message,
    Problem,
    RegisterRequest,
    RegisterResponse,
    Timers,
)
from nodeagent.state.identity import Identity
from nodeagent.sync.session import Rejected, Session, register
from nodeagent.transport.client import Client
from nodeagent.transport.transport import Transport, Unreachable

REGISTERED = (200, RegisterResponse(2, 5, "node-5", "cluster", 7, Timers()))


def refused(status: int) -> tuple[int, Message]:
    return status, Problem("no", "because", status)


def nonce(value: str) -> tuple[int, Message]:
    return 200, HelloResponse(value)


class Script(Transport):
    """Answers as told, in order; None is no answer."""

    def __init__(self, *answers: tuple[int, Message] | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    def call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes]:
        if path == calls.HELLO_PATH:
            self.asked.append(("hello", HelloRequest.from_json(body).credential))
        else:
            self.asked.append(("register", RegisterRequest.from_json(body).nonce))
        answer = self.answers.pop(0)
        if answer is None:
            raise Unreachable("no answer")
        return answer[0], answer[1].to_json()

    def fetch(
        self, path: str, headers: Mapping[str, str], target: BinaryIO, limit_bytes: int, timeout_s: float
    ) -> tuple[int, bytes]:
        raise AssertionError("a registration fetches nothing")

    def local_address(self) -> str:
        return "10.0.0.1"

    def close(self) -> None:
        """Nothing is open."""


class Impatient(threading.Event):
    """Is never set, and never waits."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity(str(tmp_path))


def registered(script: Script, identity: Identity) -> Session | None:
    inventory = Inventory("host", "10.0.0.1", cpus=4, memory_mib=1024)
    client = Client(script)
    return register(client, identity, inventory, version="1", join_token="token", stopping=Impatient())


def test_a_registration_carries_the_nonce_of_the_hello_before_it(identity: Identity) -> None:
    script = Script(nonce("n1"), REGISTERED)
    session = registered(script, identity)
    assert session is not None
    assert session.epoch == 7
    assert script.asked == [("hello", identity.credential), ("register", "n1")]


@pytest.mark.parametrize("first", [refused(protocol.STALE_NONCE), refused(503), None])
def test_a_registration_that_was_not_taken_begins_anew(identity: Identity, first: tuple[int, Message] | None) -> None:
    script = Script(nonce("n1"), first, nonce("n2"), REGISTERED)
    assert registered(script, identity) is not None
    assert [said for _, said in script.asked] == [identity.credential, "n1", identity.credential, "n2"]


def test_a_hello_without_an_answer_is_said_again(identity: Identity) -> None:
    script = Script(None, refused(503), nonce("n1"), REGISTERED)
    assert registered(script, identity) is not None
    assert [what for what, _ in script.asked] == ["hello", "hello", "hello", "register"]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([refused(401)], protocol.EXIT_UNAUTHORIZED),
        ([refused(409)], protocol.EXIT_REFUSED),
        ([nonce("n1"), refused(401)], protocol.EXIT_UNAUTHORIZED),
        ([nonce("n1"), refused(409)], protocol.EXIT_REFUSED),
        ([refused(404)], protocol.EXIT_REFUSED),
    ],
)
def test_a_refusal_of_the_agent_itself_is_the_last_word(
    identity: Identity, answers: list[tuple[int, Message]], status: int
) -> None:
    with pytest.raises(Rejected) as refusal:
        registered(Script(*answers), identity)
    assert refusal.value.status == status
