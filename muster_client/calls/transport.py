"""Sends requests: retries what may be sent twice, and turns every refusal into an `ApiError`.

A request is sent again when the connection was never made, when the server says to come later (429), and - only if
it is repeatable, as a read or a request with an Idempotency-Key is - when the answer got lost.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from muster_client.calls.backoff import BackOff
from muster_client.errors import ApiError, MusterError, UnreachableError
from muster_client.version import VERSION

if TYPE_CHECKING:
    from muster_client.answers.service import FieldError, Problem
    from muster_client.answers.terms import JsonObject

API = "/api/v1"
MAX_PAGE = 200
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
GATEWAY_STATUSES = frozenset({502, 503, 504})
_TIMEOUT = httpx.Timeout(30.0, connect=5.0, write=60.0)
# The server sends a comment at least every 15 s; a minute of silence means that the connection is dead.
_STREAM_TIMEOUT = httpx.Timeout(30.0, connect=5.0, read=60.0)

Body = Callable[[], Iterable[bytes]]


class Transport:
    """A connection to one server, with a token or with the cookies of a session."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        backoff: BackOff | None = None,
    ) -> None:
        self.url = url
        self.backoff = backoff or BackOff()
        headers = {"Accept": "application/json", "User-Agent": f"muster/{VERSION}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            # To load the certificates of all authorities takes longer than most calls; no redirect leads to TLS.
            encrypted = not url.startswith("http:")
            self._http = httpx.Client(headers=headers, timeout=_TIMEOUT, transport=transport, verify=encrypted)
        except (UnicodeEncodeError, ValueError) as error:
            raise MusterError("The token has characters that no token has.") from error
        self._token = token

    def request(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        body: Body | None = None,
        params: Mapping[str, str | int | Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        patient: bool = True,
        allowed: frozenset[int] = frozenset(),
    ) -> httpx.Response:
        """Return the answer of the server, after as many tries as are safe; raise unless 2xx or `allowed`.

        With `patient` a server that is too busy is asked again when it says so.
        """
        repeatable = repeatable or method in _SAFE or method == "DELETE"
        failures, throttled_s = 0, 0.0
        while True:
            try:
                response = self._http.request(
                    method,
                    self.url + API + path,
                    json=json_body,
                    content=body() if body is not None else None,
                    params=params,
                    headers={**self._csrf(method), **(headers or {})},
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failures += 1
                self._pause_or_give_up(failures, error)
                continue
            except httpx.TransportError as error:
                failures += 1
                if not repeatable:
                    raise UnreachableError(
                        f"{self.url} broke off before it answered; the request may have been carried out."
                    ) from error
                self._pause_or_give_up(failures, error)
                continue
            if response.status_code == 429 and patient:
                wait_s = _retry_after_s(response) or self.backoff.wait_s(failures + 1)
                throttled_s += wait_s
                if throttled_s <= self.backoff.throttled_s:
                    self.backoff.wait(f"{self.url} is busy", wait_s)
                    continue
            if response.status_code in GATEWAY_STATUSES and repeatable and failures + 1 < self.backoff.tries:
                failures += 1
                self.backoff.wait(
                    f"{self.url} answers {response.status_code}",
                    _retry_after_s(response) or self.backoff.wait_s(failures),
                )
                continue
            if not response.is_success and response.status_code not in allowed:
                raise ApiError(_problem_of(response))
            return response

    def document(self, method: str, path: str, **options: Any) -> JsonObject:
        """Return the JSON object that the server answers with."""
        return _object_of(self.request(method, path, **options), self.url)

    def pages(
        self, path: str, params: Mapping[str, Any] | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> JsonObject:
        """Return a list from the cursor on, of at most `limit` results, over as many pages as that takes."""
        results: list[JsonObject] = []
        while True:
            asked = {**(params or {})}
            if limit is not None:
                asked["limit"] = min(limit - len(results), MAX_PAGE)
            if cursor is not None:
                asked["cursor"] = cursor
            page = self.document("GET", path, params=asked)
            results += page["results"]
            cursor = page.get("next")
            if cursor is None or (limit is not None and len(results) >= limit):
                return {**page, "results": results}

    @contextlib.contextmanager
    def stream(
        self, path: str, *, params: Mapping[str, str | int], headers: Mapping[str, str]
    ) -> Iterator[httpx.Response]:
        """Open one event stream, once: resuming it is for the reader, who knows how far it came."""
        with self._http.stream(
            "GET",
            self.url + API + path,
            params=params,
            headers={"Accept": "text/event-stream", "Cache-Control": "no-store", **headers},
            timeout=_STREAM_TIMEOUT,
        ) as response:
            if not response.is_success:
                response.read()
                raise ApiError(_problem_of(response))
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise MusterError(f"{self.url} did not answer with an event stream; is it a Muster server?")
            yield response

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _csrf(self, method: str) -> dict[str, str]:
        """Return what Django wants to see of a session's writes: the cookie again, and where they come from."""
        if self._token is not None or method in _SAFE:
            return {}
        cookie = self._http.cookies.get("csrftoken")
        return {"X-CSRFToken": cookie, "Referer": self.url + "/"} if cookie else {}

    def _pause_or_give_up(self, failures: int, error: httpx.TransportError) -> None:
        if failures >= self.backoff.tries:
            raise UnreachableError(
                f"{self.url} cannot be reached ({error or type(error).__name__}), after {failures} tries."
            ) from error
        self.backoff.wait(f"{self.url} cannot be reached", self.backoff.wait_s(failures))


def _object_of(response: httpx.Response, url: str) -> JsonObject:
    try:
        value = response.json()
    except ValueError as error:
        raise MusterError(f"{url} did not answer with JSON; is it a Muster server?") from error
    if not isinstance(value, dict):
        raise MusterError(f"{url} answered with something else than a JSON object; is it a Muster server?")
    return value


def _problem_of(response: httpx.Response) -> Problem:
    """Return the problem document of an answer, or one made of its status: proxies answer in HTML."""
    standard = f"{response.status_code} {response.reason_phrase}".strip()
    problem: Problem = {
        "type": "about:blank",
        "title": standard,
        "status": response.status_code,
        "detail": "",
        "errors": [],
    }
    if response.is_redirect:
        problem["detail"] = f"The server points to {response.headers.get('location', '?')}; use that as its address."
        return problem
    try:
        document = json.loads(response.content)
    except ValueError:
        return problem
    if not isinstance(document, dict):
        return problem
    problem["type"] = str(document.get("type") or "about:blank")
    problem["title"] = str(document.get("title") or standard)
    problem["detail"] = str(document.get("detail") or "")
    problem["errors"] = _field_errors(document.get("errors"))
    return problem


def _field_errors(value: object) -> list[FieldError]:
    if not isinstance(value, list):
        return []
    return [
        {"field": str(item.get("field") or ""), "message": str(item.get("message") or "")}
        for item in value
        if isinstance(item, dict)
    ]


def _retry_after_s(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(60.0, max(0.05, float(value)))
    try:
        wait_s = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return min(60.0, max(0.05, wait_s))


def new_idempotency_key() -> str:
    """Return a key that no other request has."""
    return str(uuid.uuid4())
