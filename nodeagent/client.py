"""Calls to the platform: one kept connection for each thread, and three kinds of failure.

`Unreachable` is worth another try (no connection, time out, 5xx, 429, an answer that is not of this protocol).
`Refused` is the platform's last word on this call. `Unauthorized` is its last word on this agent.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from typing import BinaryIO, Dict, Mapping, Optional, Tuple, Type, TypeVar
from urllib.parse import urlsplit

from nodeagent import protocol
from nodeagent.protocol import (
    BeatRequest,
    BeatResponse,
    ClaimRequest,
    EndRequest,
    LaunchSpec,
    LogAccepted,
    LogFinishRequest,
    Problem,
    ProtocolError,
    RegisterRequest,
    RegisterResponse,
    SyncRequest,
    SyncResponse,
)

_CONNECT_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 30.0
_COPY_BYTES = 1 << 16
_TRY_AGAIN = (408, 425, 429)

M = TypeVar("M", bound=protocol.Message)


class Unreachable(Exception):
    """The platform did not answer, or not sensibly; the same call may go well later."""


class Refused(Exception):
    """The platform refused the call and would refuse it again."""

    def __init__(self, status: int, detail: str, body: bytes = b"") -> None:
        self.status = status
        self.detail = detail
        self.body = body
        super().__init__("{} {}".format(status, detail))


class Unauthorized(Refused):
    """The platform refused the agent's secret."""


class Client:
    """The platform's agent endpoint. Its methods may be called from any thread."""

    def __init__(self, url: str, secret: str, ca_file: Optional[str] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("{!r} is not an http or https URL".format(url))
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=ca_file) if self._secure else None
        self._local = threading.local()
        self.secret = secret
        """What goes into the Authorization header."""

    def register(self, request: RegisterRequest) -> RegisterResponse:
        """Begin a new epoch of this node."""
        return self._post(protocol.REGISTER_PATH, request, RegisterResponse)

    def beat(self, request: BeatRequest, timeout_s: float) -> BeatResponse:
        """Renew the lease."""
        return self._post(protocol.BEAT_PATH, request, BeatResponse, timeout_s)

    def sync(self, request: SyncRequest) -> SyncResponse:
        """Exchange what is seen for what is wanted."""
        return self._post(protocol.SYNC_PATH, request, SyncResponse, request.wait_s + _ANSWER_TIMEOUT_S)

    def claim(self, allocation_id: int, request: ClaimRequest) -> LaunchSpec:
        """Take an allocation and learn how to start it."""
        return self._post(protocol.claim_path(allocation_id), request, LaunchSpec)

    def end(self, allocation_id: int, request: EndRequest) -> None:
        """Tell that an allocation is over."""
        self._request("POST", protocol.end_path(allocation_id), request.to_json(), {"Content-Type": protocol.JSON_TYPE})

    def finish_log(self, allocation_id: int, request: LogFinishRequest) -> None:
        """Tell that a log is complete."""
        path = protocol.log_finish_path(allocation_id)
        self._request("POST", path, request.to_json(), {"Content-Type": protocol.JSON_TYPE})

    def append_log(
        self, allocation_id: int, fence: int, start: int, data: bytes, dropped: Optional[Tuple[int, int]]
    ) -> int:
        """Ship a chunk and return the size that the platform has now, also when it found a gap (416)."""
        headers = {
            "Content-Type": protocol.LOG_TYPE,
            protocol.CONTENT_RANGE_HEADER: protocol.content_range(start, len(data)),
            protocol.CRC32_HEADER: protocol.crc32_hex(data),
            protocol.FENCE_HEADER: str(fence),
        }
        if dropped is not None:
            headers[protocol.DROPPED_HEADER] = protocol.format_range(*dropped)
        try:
            body = self._request("PATCH", protocol.log_path(allocation_id), data, headers)
        except Refused as refusal:
            if refusal.status != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            body = refusal.body
        return _read(LogAccepted, body).size

    def fetch_code(self, sha256: str, target: BinaryIO, limit_bytes: int) -> int:
        """Write an archive of code to `target`, no more than `limit_bytes` of it, and return its size."""
        connection, response = self._send("GET", protocol.code_path(sha256), b"", {}, _ANSWER_TIMEOUT_S)
        try:
            if response.status != http.client.OK:
                raise _refusal(response.status, response.read())
            size = 0
            while size < limit_bytes:
                data = response.read(min(_COPY_BYTES, limit_bytes - size))
                if not data:
                    break
                target.write(data)
                size += len(data)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(str(error)) from error
        finally:
            if not response.isclosed():  # half read: the connection cannot be used again
                connection.close()
        return size

    def _post(self, path: str, request: protocol.Message, answer: Type[M], timeout_s: float = _ANSWER_TIMEOUT_S) -> M:
        body = self._request("POST", path, request.to_json(), {"Content-Type": protocol.JSON_TYPE}, timeout_s)
        return _read(answer, body)

    def _request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> bytes:
        connection, response = self._send(method, path, body, headers, timeout_s)
        try:
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable("{} {}: {}".format(method, path, error or type(error).__name__)) from error
        if 200 <= response.status < 300:
            return content
        raise _refusal(response.status, content)

    def _send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and return the beginning of the answer.

        The platform may close a kept connection at any time; every call can be repeated, so one that fails on a kept
        connection is sent again on a new one.
        """
        all_headers: Dict[str, str] = dict(headers)
        all_headers[protocol.AUTHORIZATION_HEADER] = protocol.bearer(self.secret)
        for _ in range(2):
            connection = self._connection()
            kept = connection.sock is not None
            try:
                if not kept:
                    connection.connect()
                connection.sock.settimeout(timeout_s)
                connection.request(method, self._prefix + path, body, all_headers)
                return connection, connection.getresponse()
            except socket.timeout as error:
                connection.close()
                raise Unreachable("{} {}: no answer in {:g} s".format(method, path, timeout_s)) from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if not kept:
                    raise Unreachable("{} {}: {}".format(method, path, error or type(error).__name__)) from error
        raise Unreachable("{} {}: the connection was closed twice".format(method, path))

    def _connection(self) -> http.client.HTTPConnection:
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        if connection is None:
            if self._tls is not None:
                connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=_CONNECT_TIMEOUT_S, context=self._tls
                )
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_TIMEOUT_S)
            self._local.connection = connection
        return connection


def _read(message: Type[M], body: bytes) -> M:
    try:
        return message.from_json(body)
    except ProtocolError as error:
        raise Unreachable("an answer that is not of this protocol: {}".format(error)) from error


def _refusal(status: int, body: bytes) -> Exception:
    try:
        problem = Problem.from_json(body)
        detail = problem.detail or problem.title
    except ProtocolError:
        detail = body[:200].decode(errors="replace")
    if not 400 <= status < 500 or status in _TRY_AGAIN:
        return Unreachable("{} {}".format(status, detail))
    if status == http.client.UNAUTHORIZED:
        return Unauthorized(status, detail, body)
    return Refused(status, detail, body)
