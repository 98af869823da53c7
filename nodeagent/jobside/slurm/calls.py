"""Calls of the platform by the programs of a job."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

PATIENCE_S = 15.0
_TIMEOUT_S = 60.0
_BUSY = frozenset({425, 429, 502, 503, 504})
"""The statuses of a platform that can answer later."""
_FIRST_WAIT_S, _MAX_WAIT_S = 0.2, 5.0


class Failed(Exception):
    """A call without its answer: the platform cannot be reached, or refuses the call."""

    def __init__(self, detail: str, *, reached: bool) -> None:
        super().__init__(detail)
        self.reached = reached
        """True if the platform has refused the call."""


def call(
    method: str,
    path: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    patience_s: float | None = None,
) -> dict[str, Any]:
    """Return the object that the platform answers with.

    The call is repeated for `patience_s`, by default `PATIENCE_S`, while it gets no answer.

    Raises:
        Failed: there is no answer, or it is a refusal.
    """
    url = os.environ.get("MUSTER_URL", "")
    if not url:
        raise Failed("the agent of this node does not know the address of the platform", reached=False)
    until, wait_s = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s), _FIRST_WAIT_S
    while True:
        try:
            status, answer = _once(url, method, path, body, headers or {})
            problem = _detail(answer, status)
        except (OSError, http.client.HTTPException) as error:
            status, answer = 0, b""
            problem = str(error) or type(error).__name__
        if 200 <= status < 300:
            try:
                found: dict[str, Any] = json.loads(answer)
            except ValueError:
                raise Failed("the platform answers what is no JSON", reached=True) from None
            return found
        if (status and status not in _BUSY) or time.monotonic() + wait_s > until:
            raise Failed(problem, reached=status != 0 and status not in _BUSY)
        time.sleep(wait_s)
        wait_s = min(_MAX_WAIT_S, wait_s * 2)


def _once(url: str, method: str, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        tls = ssl.create_default_context(cafile=os.environ.get("MUSTER_CA_FILE"))
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port, timeout=_TIMEOUT_S, context=tls
        )
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
    sent = {"Authorization": "Bearer " + os.environ.get("MUSTER_JOB_TOKEN", ""), "Accept": "application/json"}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    try:
        connection.request(method, parts.path.rstrip("/") + "/api/v1" + path, data, {**sent, **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _detail(answer: bytes, status: int) -> str:
    """Return the sentence of a problem document."""
    try:
        return str(json.loads(answer)["detail"])
    except (ValueError, KeyError, TypeError):
        return "the platform answers {}".format(status)
