"""`muster shell`: what is typed, what is shown, and going on after a server that did not answer."""

from __future__ import annotations

import base64
import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from muster_client.calls.shellcalls import Accepted, ShellEnd
from muster_client.errors import ApiError, UnreachableError
from muster_client.local.shell import Escapes, ShellOnTerminal
from tests.unit.client.fake_server import FakeServer, Run, problem

WAIT_S = 20.0

OPENED = {"id": 31, "job": 7, "attempt": 1, "rank": 0, "node": "n1", "token": "msh_own"}
EXITED = ShellEnd("exited", "", 0)


@pytest.mark.parametrize(
    ("typed", "passed", "left"),
    [
        ([b"ls\r"], b"ls\r", False),
        ([b"~."], b"", True),
        ([b"~", b"."], b"", True),
        ([b"ls\r~."], b"ls\r", True),
        ([b"ls\n~.more"], b"ls\n", True),
        ([b"a~."], b"a~.", False),
        ([b"~~."], b"~.", False),
        ([b"~x"], b"~x", False),
        ([b"cd ~\r"], b"cd ~\r", False),
        ([b"~\r", b"~."], b"~\r", True),
    ],
)
def test_the_escape_is_found_at_the_start_of_a_line_only(typed: list[bytes], passed: bytes, left: bool) -> None:
    escapes = Escapes()
    found = b""
    leaves = False
    for piece in typed:
        data, leaves = escapes.feed(piece)
        found += data
    assert (found, leaves) == (passed, left)


class FakeCalls:
    """A shell at the other end: takes what is typed, and shows what its script says, one look after the other."""

    def __init__(self, *script: Callable[[], bytes], takes: int = 10**9) -> None:
        self.typed = bytearray()
        self.script = list(script)
        self.over = threading.Event()
        self.left = threading.Event()
        self.takes = takes
        self.failures = 0
        self.asked: list[int] = []

    def output(self, offset: int) -> tuple[bytes, ShellEnd | None]:
        self.asked.append(offset)
        if self.script:
            return self.script.pop(0)(), None
        assert self.over.wait(WAIT_S)
        return b"", EXITED

    def send(self, *, first: int, start: int, data: bytes, over: bool = False, size: object = None) -> Accepted:
        if self.failures:
            self.failures -= 1
            raise UnreachableError("away")
        if start <= len(self.typed):
            self.typed += data[len(self.typed) - start :][: self.takes]
        if over and len(self.typed) == start + len(data):
            self.over.set()
        return Accepted(size=len(self.typed), acked=0)

    def leave(self) -> None:
        self.left.set()
        self.over.set()

    def await_typed(self, text: bytes) -> None:
        until = time.monotonic() + WAIT_S
        while bytes(self.typed) != text:
            assert time.monotonic() < until, bytes(self.typed)
            select.select([], [], [], 0.005)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end at which the standard input of this process is written."""
    reader, writer = os.pipe()

    class Input:
        @staticmethod
        def fileno() -> int:
            return reader

    monkeypatch.setattr("sys.stdin", Input())
    monkeypatch.setattr("muster_client.local.shell._PAUSE_S", 0.01)
    yield writer
    os.close(reader)


def run_shell(calls: FakeCalls) -> tuple[ShellEnd, bytes]:
    shown: list[bytes] = []
    end = ShellOnTerminal(calls, terminal=False, show=shown.append).run()  # type: ignore[arg-type]
    return end, b"".join(shown)


def test_input_is_sent_to_its_end_in_pieces_that_there_is_room_for(keys: int) -> None:
    calls = FakeCalls(takes=700)
    os.write(keys, b"x" * 5000)
    os.close(keys)
    assert run_shell(calls)[0] == EXITED
    assert bytes(calls.typed) == b"x" * 5000


def test_output_is_shown_in_order_and_asked_for_from_where_it_is(keys: int) -> None:
    calls = FakeCalls(lambda: b"abc", lambda: b"", lambda: b"de")
    os.close(keys)
    assert run_shell(calls) == (EXITED, b"abcde")
    assert calls.asked == [0, 3, 3, 5]


def test_what_was_not_confirmed_is_sent_again_to_a_server_that_has_forgotten_it(
    keys: int, capfd: pytest.CaptureFixture[str]
) -> None:
    os.write(keys, b"typed before")

    def goes_on() -> bytes:
        calls.await_typed(b"typed before")
        return b"a"

    def breaks() -> bytes:
        calls.typed.clear()
        calls.failures = 2
        raise UnreachableError("away")

    def is_back() -> bytes:
        os.write(keys, b", and after")
        os.close(keys)
        return b"b"

    calls = FakeCalls(goes_on, breaks, breaks, is_back)
    assert run_shell(calls) == (EXITED, b"ab")
    assert bytes(calls.typed) == b"typed before, and after"
    told = capfd.readouterr().err
    assert told.count("does not answer") == told.count("answers again") == 1


def test_a_server_that_stays_away_is_given_up(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_client.local.shell.PATIENCE_S", 0.0)

    def away() -> bytes:
        raise UnreachableError("away")

    calls = FakeCalls(away)
    with pytest.raises(UnreachableError):
        run_shell(calls)
    assert calls.left.is_set()
    os.close(keys)


def test_a_refusal_of_input_leaves_the_shell(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = FakeCalls()

    def refuse(**_: object) -> Accepted:
        raise ApiError({"type": "", "title": "gone", "status": 404, "detail": "", "errors": []})

    monkeypatch.setattr(calls, "send", refuse)
    os.write(keys, b"x")
    assert run_shell(calls)[0] == EXITED
    assert calls.left.is_set()
    os.close(keys)


def answer(data: bytes, **state: object) -> httpx.Response:
    return httpx.Response(200, json={"data": base64.b64encode(data).decode(), "closed": False, **state})


def test_the_command_asks_shows_and_ends_with_the_status(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs/7/shells", httpx.Response(201, json=OPENED))
    server.on("GET /shells/31/output", answer(b"hello\n"), answer(b"", closed=True, reason="exited", exit_code=5))
    server.on("POST /shells/31/input", httpx.Response(200, json={"size": 0, "acked": 0, "closed": False}))
    server.on("POST /shells/31:close", httpx.Response(200, json={"closed": True}))
    result = run("shell", "7", "--rank", "2", "--json", "--", "sh", "-c", "echo hello")
    assert result.exit_code == 5
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == [
        {"event": "output", "text": "hello\n"},
        {"event": "end", "reason": "exited", "detail": "", "exit_code": 5},
    ]
    asked = json.loads(server.sent("POST /jobs/7/shells")[0].content)
    assert (asked["rank"], asked["command"], asked["terminal"]) == (2, ["sh", "-c", "echo hello"], False)
    carried = {request.headers["Authorization"] for request in server.sent("GET /shells/31/output")}
    assert carried == {"Bearer msh_own"}


def test_a_shell_that_something_else_ended_says_what(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs/7/shells", httpx.Response(201, json=OPENED))
    server.on("GET /shells/31/output", answer(b"", closed=True, reason="idle", detail="nothing was typed"))
    server.on("POST /shells/31/input", httpx.Response(200, json={"size": 0, "acked": 0, "closed": False}))
    result = run("shell", "7", "-T")
    assert result.exit_code == 255
    assert "idle" in result.stderr
    assert "nothing was typed" in result.stderr


def test_a_pool_without_shells_is_told_in_its_words(server: FakeServer, run: Run) -> None:
    server.on("POST /jobs/7/shells", problem(403, "Not allowed", detail="shells are switched off in pool main"))
    result = run("shell", "7")
    assert (result.exit_code, "switched off" in result.stderr) == (3, True)
