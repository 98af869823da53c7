"""From a frame to the platform's own endpoint for agents, and back. What comes from a server need not make sense."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

import httpx

from nodeagent.protocol.calls import (
    AUTHORIZATION_HEADER,
    CONTENT_RANGE_HEADER,
    CRC32_HEADER,
    DROPPED_HEADER,
    FENCE_HEADER,
    HELLO_PATH,
    REGISTER_PATH,
    SHA256_HEADER,
    bearer,
)
from nodeagent.protocol.frames import ANSWER, MAX_BODY_BYTES, Frame

log = logging.getLogger(__name__)

# A long-poll takes up to 25 s.
TIMEOUT_S = 60.0
_CALLS = re.compile(
    r"POST /agent/v1/(?:hello|register|beat|sync|batch)"
    r"|POST /agent/v1/allocations/[0-9]{1,18}/(?:outputs|outputs:finish)"
    r"|POST /agent/v1/allocations/[0-9]{1,18}/shells/[0-9]{1,18}/(?:open|output|input|end)"
    r"|PATCH /agent/v1/allocations/[0-9]{1,18}/(?:log|outputs/[0-9]{1,18})"
    r"|GET /agent/v1/code/[0-9a-f]{64}"
)
_HEADERS = {
    name.lower(): name
    for name in (
        *(CONTENT_RANGE_HEADER, CRC32_HEADER, DROPPED_HEADER, FENCE_HEADER, SHA256_HEADER),
        *("Content-Type", "Range"),
    )
}
_VALUE = re.compile(r"[\x20-\x7e]{0,200}")
_UNAVAILABLE = 503


class Forwarder:
    """Sends the calls of linked agents to the web process on this machine. May be used from any thread."""

    def __init__(self, url: str) -> None:
        # No proxy of the environment: the platform is on this machine.
        self._http = httpx.Client(
            base_url=url,
            timeout=TIMEOUT_S,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=256),
        )

    def answer(self, frame: Frame, credential: str) -> Frame:
        """The platform's answer to a call, in the name of the node whose credential it is and of no other."""
        try:
            method, path, headers = _call(frame.head)
            names_itself = path in {HELLO_PATH, REGISTER_PATH}
            body = _with_credential(frame.body, credential) if names_itself else frame.body
        except ValueError as error:
            return _problem(frame, 400, str(error))
        try:
            response = self._http.request(
                method, path, content=body, headers={**headers, AUTHORIZATION_HEADER: bearer(credential)}
            )
        except httpx.HTTPError as error:
            log.warning("forward_failed path=%s error=%r", path, error)
            return _problem(frame, _UNAVAILABLE, "the platform does not answer now")
        if len(response.content) > MAX_BODY_BYTES:
            log.error("answer_too_large path=%s bytes=%s", path, len(response.content))
            return _problem(frame, 502, "the answer is too large for a link")
        return Frame(ANSWER, frame.id, {"status": response.status_code}, response.content)

    def close(self) -> None:
        """End the connections."""
        self._http.close()


def _call(head: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """The call that a head spells; `ValueError` for anything that an agent does not ask."""
    method, path, given = head.get("method"), head.get("path"), head.get("headers", {})
    if not (isinstance(method, str) and isinstance(path, str) and _CALLS.fullmatch(f"{method} {path}")):
        raise ValueError("this is not a call of an agent")
    if not isinstance(given, dict):
        raise ValueError("the headers are no object")
    headers = {}
    for name, value in given.items():
        known = _HEADERS.get(name.lower())
        if known is None:
            continue
        if not (isinstance(value, str) and _VALUE.fullmatch(value)):
            raise ValueError(f"the header {known} cannot be used")
        headers[known] = value
    return method, path, headers


def _with_credential(body: bytes, credential: str) -> bytes:
    """A hello or a registration in which the node's own credential stands, whatever the agent wrote there."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is not JSON") from error
    if not isinstance(message, dict):
        raise ValueError("the body is not an object")
    return json.dumps({**message, "credential": credential}).encode()


def _problem(frame: Frame, status: int, detail: str) -> Frame:
    body = json.dumps({"type": "about:blank", "title": "Not forwarded", "status": status, "detail": detail}).encode()
    return Frame(ANSWER, frame.id, {"status": status}, body)
