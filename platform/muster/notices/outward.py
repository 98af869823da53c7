"""One POST to where a user said: to the address that was checked, within a bounded time, with a bounded answer."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import httpcore
import httpx

from muster.notices.addresses import Address, Rules, Target

DEADLINE_S = 10.0
CONNECT_S = 4.0
MAX_BYTES = 65_536


class NotSent(Exception):
    """There is no answer to the call; the message says why and names no URL."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The time of a call from the name's resolution to the head of its answer, and the bytes to read, at most."""

    deadline_s: float = DEADLINE_S
    max_bytes: int = MAX_BYTES


def post(target: Target, *, body: bytes, headers: Mapping[str, str], rules: Rules, limits: Limits | None = None) -> int:
    """The status that the target answers with; raises `NotSent`. Redirects are not followed, proxies not used.

    The name is resolved once, each address is judged, and the connection goes to one that passed; the name stays what
    TLS checks and the Host header says. Of the answer no more than the head is read.
    """
    objection = rules.objection_to_port(target.port)
    if objection:
        raise NotSent(objection)
    limits = limits or Limits()
    backend = _Backend(rules, time.monotonic() + limits.deadline_s, limits.max_bytes)
    url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
    secure: ssl.SSLContext | None = httpx.create_ssl_context() if target.scheme == "https" else None
    try:
        with (
            httpcore.ConnectionPool(ssl_context=secure, network_backend=backend, max_connections=1) as pool,
            pool.stream("POST", url, headers=list(headers.items()), content=body) as response,
        ):
            return response.status
    except _TooLong:
        raise NotSent(f"the head of its answer is longer than {limits.max_bytes} bytes") from None
    except httpcore.TimeoutException:
        raise NotSent(f"no answer within {limits.deadline_s:g} s") from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise NotSent(f"{_WHAT.get(type(error), 'the connection broke')}: {str(error)[:150]}") from None


_WHAT: dict[type[Exception], str] = {
    httpcore.ConnectError: "no connection",
    httpcore.RemoteProtocolError: "what it answered is no HTTP",
    httpcore.LocalProtocolError: "the call cannot be written as HTTP",
}


class _TooLong(httpcore.ReadError):
    """The answer is longer than `max_bytes`."""


class _Backend(httpcore.NetworkBackend):
    """Connects to addresses that pass the rules, by one deadline for everything."""

    def __init__(self, rules: Rules, deadline: float, max_bytes: int) -> None:
        self._rules, self._deadline, self._max_bytes = rules, deadline, max_bytes

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first of the host's addresses that takes it; one that is refused refuses the host."""
        addresses = _resolve(host, port, self._left_s())
        for address in addresses:
            objection = self._rules.objection_to(address)
            if objection:
                raise NotSent(f"nothing is sent there: {objection}")
        problem: Exception = httpcore.ConnectError("the name has no address")
        for address in addresses:
            try:
                # Of an address that is written out nothing is resolved again.
                stream = httpcore.SyncBackend().connect_tcp(
                    str(address),
                    port,
                    timeout=min(CONNECT_S, self._left_s()),
                    socket_options=list(socket_options or ()),
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
            else:
                return _Stream(stream, self._deadline, self._max_bytes)
        raise problem

    def _left_s(self) -> float:
        return _left_s(self._deadline, httpcore.ConnectTimeout)


class _Stream(httpcore.NetworkStream):
    """A connection that ends with the deadline, however slowly the other side sends."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float, max_bytes: int) -> None:
        self._inner, self._deadline, self._left_bytes = inner, deadline, max_bytes

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Received bytes, within the remaining time and size."""
        data = self._inner.read(min(max_bytes, self._left_bytes + 1), _left_s(self._deadline, httpcore.ReadTimeout))
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise _TooLong
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send within what is left of the time."""
        self._inner.write(buffer, _left_s(self._deadline, httpcore.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The same connection, encrypted."""
        left_s = _left_s(self._deadline, httpcore.ConnectTimeout)
        inner = self._inner.start_tls(ssl_context, server_hostname, left_s)
        return _Stream(inner, self._deadline, self._left_bytes)

    def get_extra_info(self, info: str) -> Any:
        """Facts of the connection."""
        return self._inner.get_extra_info(info)


def _left_s(deadline: float, late: type[httpcore.TimeoutException]) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise late
    return left


def _resolve(host: str, port: int, timeout_s: float) -> list[Address]:
    """The addresses of a name, in the system's order. The system's resolver knows no deadline, so it has a thread."""
    found: Future[list[Address]] = Future()

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.set_result(list(dict.fromkeys(ip_address(str(answer[4][0])) for answer in answers)))
        except (OSError, ValueError) as error:
            found.set_exception(error)

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        return found.result(timeout_s)
    except FutureTimeout:
        raise httpcore.ConnectTimeout from None
    except (OSError, ValueError) as error:
        raise httpcore.ConnectError(f"the name cannot be resolved: {error}") from None
