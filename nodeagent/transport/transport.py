"""Transport of calls to the platform: the port, and the transport of an agent that dials the platform itself."""

from __future__ import annotations

import abc
import http.client
import socket
import ssl
import threading
from typing import BinaryIO, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from nodeagent.system import host

_CONNECT_TIMEOUT_S = 10.0
_COPY_BYTES = 1 << 16


class Unreachable(Exception):
    """The platform did not answer, or not sensibly; the same call may go well later."""


class Transport(abc.ABC):
    """Carries calls to the platform. Its methods may be called from any thread."""

    vouched_for = False
    """True if the carrier of the calls knows their node, so that no join token is needed."""

    @abc.abstractmethod
    def call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Tuple[int, bytes]:
        """The status and the whole body of the answer, or `Unreachable`."""

    @abc.abstractmethod
    def fetch(
        self, path: str, headers: Mapping[str, str], target: BinaryIO, limit_bytes: int, timeout_s: float
    ) -> Tuple[int, bytes]:
        """Write the body of a 200 to `target`, no more than `limit_bytes` of it; other bodies are returned."""

    @abc.abstractmethod
    def local_address(self) -> str:
        """The address of this machine in the eyes of the platform."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the transport and wake all waiting callers."""


class Dialled(Transport):
    """One kept HTTP connection to the platform for each thread."""

    def __init__(self, url: str, ca_file: Optional[str] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("{!r} is not an http or https URL".format(url))
        self._url = url
        self._host = parts.hostname
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._local = threading.local()

    def call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Tuple[int, bytes]:
        """One request on this thread's connection."""
        connection, response = self._send(method, path, body, headers, timeout_s)
        try:
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable("{} {}: {}".format(method, path, error or type(error).__name__)) from error

    def fetch(
        self, path: str, headers: Mapping[str, str], target: BinaryIO, limit_bytes: int, timeout_s: float
    ) -> Tuple[int, bytes]:
        """One request whose answer is written while it comes."""
        connection, response = self._send("GET", path, b"", headers, timeout_s)
        try:
            if response.status != http.client.OK:
                return response.status, response.read()
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
        return response.status, b""

    def local_address(self) -> str:
        """The local address of a connection to the platform."""
        return host.address_towards(self._url)

    def close(self) -> None:
        """Each thread's connection ends with it, and no call waits longer than it says."""

    def _send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and return the beginning of the answer.

        The platform may close a kept connection at any time; every call can be repeated, so one that fails on a kept
        connection is sent again on a new one.
        """
        for _ in range(2):
            connection = self._connection()
            kept = connection.sock is not None
            try:
                if not kept:
                    connection.connect()
                connection.sock.settimeout(timeout_s)
                connection.request(method, self._prefix + path, body, dict(headers))
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
