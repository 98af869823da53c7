"""A container that its engine creates after the agent has given it up."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.container import strays
from nodeagent.runtime.container.runtime import ContainerRuntime
from tests import engines
from tests.agent.conftest import KeptForker, runtime_under_test, stop_everything
from tests.waiting import eventually

_CREATE = b"/containers/create?"


class LateEngine:
    """The socket of an engine that breaks off where a container is to be made, and makes it once it is told to."""

    def __init__(self, path: Path, engine: str) -> None:
        self.path = str(path)
        self._engine = engine
        self._asked: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def make(self) -> bytes:
        """Have the engine do what it was asked to; the first line of its answer."""
        (request,) = self._asked
        with self._connected() as engine:
            engine.sendall(request)
            return engine.recv(65536).partition(b"\r\n")[0]

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _connected(self) -> socket.socket:
        engine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        engine.connect(self._engine)
        return engine

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                engine = self._connected()
                self._ends += [client, engine]
                threading.Thread(target=self._pass_on, args=(client, engine, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(engine, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_client and _CREATE in data:
                    self._asked.append(_whole(data, source))
                    source.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def _whole(request: bytes, source: socket.socket) -> bytes:
    """A request with all of its body."""
    while True:
        head, found, body = request.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if found and len(body) >= int(fields[b"content-length"]):
            return request
        request += source.recv(65536)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LateEngine]:
    made = LateEngine(tmp_path / "late.sock", engines.docker_socket())
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["docker"])
def test_what_an_engine_makes_after_its_start_has_failed_is_removed(
    kind: str, engine: LateEngine, tmp_path: Path, forkers: Callable[[str], KeptForker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strays, "Backoff", lambda **_: SimpleNamespace(wait_s=lambda: 0.05))
    made = runtime_under_test(kind, tmp_path / "state", forkers, socket=engine.path)
    try:
        number = made.start("true")
        status = made.exit(number)
        assert (status.reason, status.started) == (EndReason.LAUNCH_FAILED, False)
        made.runtime.remove(number)
        # It had looked at what is to be mounted before it became slow.
        folder = made.folder(number)
        for name in ("work", "home", "tmp", "out", "status"):
            (folder / name).mkdir(parents=True)
        assert engine.make() == b"HTTP/1.1 201 Created"
        shutil.rmtree(folder)
        eventually(lambda: cast(ContainerRuntime, made.runtime).containers() == (), "its removal", 30.0)
    finally:
        stop_everything(made.runtime)
