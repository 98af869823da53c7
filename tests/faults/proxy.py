"""A proxy between agents and the platform that can lose, cut, repeat and delay what passes."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from muster.local.supervisor import Child

_MAX_ANSWER_S = 60.0
# Long enough that the sender has tried again meanwhile, and has gone on to its next message.
_LATE_BY_S = 0.7
_HOPS = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}


class Trouble(StrEnum):
    """Ways to disturb a request."""

    NONE = "passed"
    LOST = "lost"  # it never arrives
    CUT = "cut"  # half of its body arrives
    DEAF = "answer lost"
    HALF = "answer cut"
    TWICE = "doubled"
    LATE = "came late"  # lost for its sender, who sends it again; then it comes after that one and others


@dataclass
class Proxy:
    """The proxy's address, its faults, and the number of requests with each."""

    url: str = ""
    trouble: Callable[[str], Trouble] = lambda _path: Trouble.NONE
    """Decides by the path of a request."""
    counts: Counter[Trouble] = field(default_factory=Counter)


@contextlib.contextmanager
def proxy(target: str, listener: socket.socket | None = None) -> Iterator[Proxy]:
    """A proxy before the platform at the URL `target`, while the block lasts; without a listener on loopback."""
    known = Proxy()
    address = urlsplit(target).netloc

    class Handler(_Handler):
        """One connection."""

        def pass_on(self) -> None:
            """Does to one request what is decided for it."""
            _pass_on(self, known, address)

    with _Server(listener or socket.create_server(("127.0.0.1", 0)), Handler) as server:
        host, port = server.socket.getsockname()
        known.url = f"http://{host}:{port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()


def through(child: Child, url: str, *words: str) -> Child:
    """The agent, calling the platform at another address; further options go behind its own."""
    argv = list(child.argv)
    argv[argv.index("--url") + 1] = url
    return replace(child, argv=(*argv, *words))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that are cut off in the middle would be waited for without end.
    block_on_close = False

    def __init__(self, listener: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that break are what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _MAX_ANSWER_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Says nothing: what was done is counted."""

    def pass_on(self) -> None:
        """Does to one request what is decided for it."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Passes a request on."""
        self.pass_on()

    do_POST = do_PATCH = do_GET  # noqa: N815 - the base class looks for these names


def _pass_on(handler: _Handler, known: Proxy, address: str) -> None:
    body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    trouble = known.trouble(handler.path)
    known.counts[trouble] += 1
    if trouble in {Trouble.LOST, Trouble.LATE, Trouble.CUT}:
        if trouble is Trouble.LATE:
            threading.Timer(_LATE_BY_S, lambda: _ask_in_vain(handler, address, body)).start()
        elif trouble is Trouble.CUT:
            _ask_in_vain(handler, address, body, cut=True)
        handler.close_connection = True
        return
    status, headers, content = _ask(handler, address, body)
    if trouble is Trouble.TWICE:
        status, headers, content = _ask(handler, address, body)
    if trouble is Trouble.DEAF:
        handler.close_connection = True
        return
    handler.send_response(status)
    for name, value in headers:
        if name.lower() not in _HOPS:
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if trouble is Trouble.HALF:
        handler.close_connection = True
        content = content[: len(content) // 2]
    handler.wfile.write(content)


def _ask(handler: _Handler, address: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
    """Ask the platform; return its answer."""
    headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOPS}
    link = http.client.HTTPConnection(address, timeout=_MAX_ANSWER_S)
    try:
        link.request(handler.command, handler.path, body, headers)
        answer = link.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        link.close()


def _ask_in_vain(handler: _Handler, address: str, body: bytes, *, cut: bool = False) -> None:
    """Send the request, or the first half of it, and drop the answer."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        if not cut:
            _ask(handler, address, body)
            return
        link = http.client.HTTPConnection(address, timeout=_MAX_ANSWER_S)
        link.putrequest(handler.command, handler.path)
        for name, value in handler.headers.items():
            if name.lower() not in _HOPS:
                link.putheader(name, value)
        link.putheader("Content-Length", str(len(body)))
        link.endheaders(body[: len(body) // 2])
        link.close()
