"""A Muster server of a few lines, behind httpx.MockTransport."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from muster_client.calls.backoff import BackOff
from muster_client.main import app
from muster_client.session import Session

# To build the tree of commands takes longer than to run one of them, and it is the same for all.
typer.testing._get_command = functools.cache(get_command)

URL = "http://muster.test"
TOKEN = "mst_secret"

Run = Callable[..., Result]
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def job(**changes: Any) -> Any:
    """Return a valid job, with what the answer to its submission has too."""
    return {
        "id": 7,
        "name": "train",
        "vc": "vision",
        "tenant": "acme",
        "owner": "ada",
        "state": "queued",
        "stage": "full",
        "desired": "run",
        "hold": None,
        "priority": "normal",
        "gpu_choices": [{"gpu_type": None, "gpus": 2}],
        "nodes": 1,
        "gpus_total": 2,
        "group": None,
        "params": {},
        "submitted_at": "2026-11-21T00:00:00Z",
        "started_at": None,
        "ended_at": None,
        "run_time_s": 0.0,
        "running_since": None,
        "exit_code": None,
        "failure": None,
        "reason": None,
        "reason_detail": None,
        "attempts": 0,
        "position": None,
        "links": {},
        "held": False,
        "bumped": False,
        "tags": {},
        "gpu_type": None,
        "gpus": 2,
        "idle": None,
        "kept": None,
        "spec": {},
        "sizes": [],
        "screening_runs": [],
        "cloned_from": None,
        "rates": [],
        "estimate": None,
        "finish": None,
        "failed_resize": None,
        "efficiency": None,
        "shells": True,
        "notes": [],
        "warnings": [],
        **changes,
    }


def failure(**changes: Any) -> Any:
    """Return why a job failed, as far as a log without a sign tells it."""
    return {
        "class": "exit_nonzero",
        "title": "Exit code 3",
        "category": "user",
        "retry": None,
        "line": None,
        "hint": None,
        "retried": None,
        "last_words": None,
        **changes,
    }


def why(**changes: Any) -> Any:
    """Return why a job waits for quota."""
    return {
        "state": "queued",
        "reason": "quota",
        "detail": "4 of 4",
        "evidence": {},
        "helps": [],
        "failure": None,
        "position": None,
        "ahead": None,
        "holders": [],
        "estimate": None,
        "wait": None,
        "wait_unknown": "",
        "cycle": None,
        "at": None,
        **changes,
    }


def problem(status: int, title: str, *, detail: str = "", errors: list[dict[str, str]] | None = None) -> httpx.Response:
    """Return a problem document."""
    return httpx.Response(
        status,
        json={"type": "about:blank#x", "title": title, "status": status, "detail": detail, "errors": errors or []},
        headers={"Content-Type": "application/problem+json"},
    )


def sse(*events: tuple[str, str, dict[str, Any]]) -> bytes:
    """Return (event, id, data) as the bytes of an event stream."""
    return b"".join(f"event: {kind}\nid: {id_}\ndata: {json.dumps(data)}\n\n".encode() for kind, id_, data in events)


def stream(*parts: bytes, then: Exception | None = None) -> httpx.Response:
    """Return an event stream, which may break off."""

    def body() -> Iterator[bytes]:
        yield from parts
        if then is not None:
            raise then

    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=body())


@dataclass
class FakeServer:
    """Answers each route with what was put there, in order; the last answer is given again and again."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    slept_s: list[float] = field(default_factory=list)

    def on(self, route: str, *answers: Answer) -> None:
        """Answer a route, such as "GET /jobs/7"."""
        self.answers[route] = list(answers)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        request.read()
        self.requests.append(request)
        route = f"{request.method} {request.url.path.removeprefix('/api/v1')}"
        waiting = self.answers.get(route)
        if not waiting:
            return problem(404, f"No answer for {route}")
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        return answer(request)

    def sent(self, route: str) -> list[httpx.Request]:
        """Return the requests of a route."""
        return [
            request
            for request in self.requests
            if f"{request.method} {request.url.path.removeprefix('/api/v1')}" == route
        ]

    @property
    def transport(self) -> httpx.MockTransport:
        """Return the server as httpx wants it."""
        return httpx.MockTransport(self.handle)

    @property
    def backoff(self) -> BackOff:
        """Return a back-off that notes its waits instead of waiting."""
        return BackOff(sleep=self.slept_s.append, jitter=lambda: 1.0)


def muster(
    server: FakeServer,
    *args: str,
    home: Path,
    stdin: str | bytes | None = None,
    token: str | None = TOKEN,
    **environ: str,
) -> Result:
    """Run one command against the fake server."""
    variables = {"MUSTER_URL": URL, "MUSTER_CONFIG": str(home / "config.json"), **environ}
    if token is not None:
        variables["MUSTER_TOKEN"] = token
    session = Session(environ=variables, transport=server.transport, backoff=server.backoff)
    return CliRunner().invoke(app, list(args), input=stdin, obj=session, catch_exceptions=False)
