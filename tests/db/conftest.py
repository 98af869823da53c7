"""Fixtures of the database's tests: invariants at the end of each, and the web process itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvicorn.server
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import Atomic

from muster.events import selectors
from muster.events.models import Event
from muster.failures import log_watch
from muster.failures import selectors as failures
from muster.links import progress
from tests.db.agent_calls import Agent, agent_of
from tests.db.linked_site import Site
from tests.db.stories import WAIT_S, World, make_world, unsound
from tests.factories import make_token
from tests.sshd import SshServer, require_sshd


@pytest.fixture
def sound(db: None) -> Iterator[None]:
    """Check the invariants when the test ends, whatever the test was about."""
    yield
    assert unsound() == []


@pytest.fixture
def as_committed(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """End each outermost transaction of the tested code as a commit does, though the test is rolled back.

    Deferred constraints are checked and on_commit hooks run. A test that really commits needs none of this.
    """
    if not connection.in_atomic_block:
        return
    outermost = len(connection.savepoint_ids)
    leave, register = Atomic.__exit__, BaseDatabaseWrapper.on_commit

    def run_hooks() -> None:
        hooks, connection.run_on_commit = connection.run_on_commit, []
        for _, hook, _ in hooks:
            hook()

    def leave_as_committed(self: Atomic, kind: Any, error: Any, trace: Any) -> None:
        commits = error is None and len(connection.savepoint_ids) == outermost + 1 and not connection.needs_rollback
        if commits:
            try:
                _check_constraints()
            except DatabaseError as refused:
                leave(self, type(refused), refused, refused.__traceback__)
                raise
        leave(self, kind, error, trace)
        if commits:
            run_hooks()

    def on_commit(self: BaseDatabaseWrapper, hook: Callable[[], object], robust: bool = False) -> None:
        register(self, hook, robust)
        if len(self.savepoint_ids) == outermost:  # outside of any transaction of the code's own
            run_hooks()

    monkeypatch.setattr(Atomic, "__exit__", leave_as_committed)
    monkeypatch.setattr(BaseDatabaseWrapper, "on_commit", on_commit)


def _check_constraints() -> None:
    """Check deferred constraints by a cursor that Django does not log, since tests count statements."""
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


@pytest.fixture
def settled_at_once(as_committed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a rolled-back test its own events: they settle when their transaction ends, which is after the test."""
    if connection.in_atomic_block:
        monkeypatch.setattr(selectors, "settled", lambda: Event.objects.order_by("tx", "id"))


class _ShortSleeps:
    """The module asyncio for uvicorn's server, whose loop else notices the end of a test 0.1 s late, twice."""

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.005))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serves = threading.Event()

    async def startup(self, sockets: list[object] | None = None) -> None:
        await super().startup(sockets)  # type: ignore[arg-type]
        self.serves.set()


@pytest.fixture(scope="session")
def _no_connection_stays(django_db_setup: None, django_db_blocker: object) -> Iterator[None]:
    """Ends the connections that the web process's threads keep, so that the test database can be dropped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _ShortSleeps())
        yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    connection.close()


@pytest.fixture
def server(_no_connection_stays: None, transactional_db: None) -> Iterator[str]:
    """The address of the real web process, served from a thread of this one."""
    from muster.asgi import application

    config = uvicorn.Config(
        application,
        host="127.0.0.1",
        port=0,
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    running = _Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=running.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    assert running.serves.wait(WAIT_S)
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    running.should_exit = True
    thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def agent(server: str, world: World) -> Iterator[Agent]:
    agent = agent_of(server, world.nodes[0])
    with agent.http:
        yield agent


def client(server: str, user: Any) -> httpx.Client:
    headers = {"Authorization": f"Bearer {make_token(user)}"}
    return httpx.Client(base_url=server, timeout=WAIT_S, headers=headers, verify=False, trust_env=False)


@pytest.fixture
def http(server: str, world: World) -> Iterator[httpx.Client]:
    with client(server, world.user) as http:
        yield http


@pytest.fixture
def stranger(server: str) -> Iterator[httpx.Client]:
    with client(server, make_world().user) as http:
        yield http


@pytest.fixture
def no_rule_is_remembered() -> Iterator[None]:
    """Forgets rules for logs, and which jobs have met them, before and after."""
    failures.forget_log_rules()
    log_watch.forget_meetings()
    yield
    failures.forget_log_rules()
    log_watch.forget_meetings()


@pytest.fixture
def sshd(open_folder: Path, request: pytest.FixtureRequest) -> Iterator[SshServer]:
    """A GPU server that has nothing but sshd and Python."""
    require_sshd()
    made = SshServer(open_folder, **getattr(request, "param", {}))
    made.start()
    yield made
    made.close()


@pytest.fixture
def site(server: str, sshd: SshServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A platform that reaches that server, and tries again soon."""
    monkeypatch.setattr(progress, "MAX_PAUSE_S", 0.5)
    monkeypatch.setattr(progress, "FIRST_PAUSE_S", 0.2)
    made = Site(server, sshd)
    yield made
    made.end()
    sshd.close()
