"""What every test gets. The services are started by the plugin `tests.embedded`, before Django is set up."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management.commands import flush
from django.db.backends.postgresql.operations import DatabaseOperations
from django.test.utils import override_settings
from xdist.scheduler import LoadFileScheduling

from tests.kept import end_what_is_kept


@pytest.fixture(autouse=True)
def _empty_redis(request: pytest.FixtureRequest) -> None:
    """Forgets the hints and streams of the test before; rows are rolled back, what lies in Redis is not."""
    if "REDIS_URL" in os.environ and {"db", "transactional_db"} & set(request.fixturenames):
        with redis.Redis.from_url(settings.REDIS_URL) as server:
            server.flushdb()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every account may pass through, with a short path; pytest's own is closed and long."""
    folder = Path(tempfile.mkdtemp(prefix="muster-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _passwords_are_hashed_fast() -> Iterator[None]:
    """Hashes passwords once: each takes a tenth of a second by design, and tests make hundreds."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied() -> Iterator[None]:
    """Empties the tables by DELETE after a test that commits: to truncate forty tables of few rows takes a second.

    Audit rows can neither be deleted nor truncated, and nothing that a session may set changes that. So their triggers
    are disabled for the moment, as only the table's owner can.
    """

    def statements(self: DatabaseOperations, style: object, tables: list[str], **_: object) -> list[str]:
        rows = [name for name in tables if name not in {_NEVER_EMPTY, "django_content_type", "auth_permission"}]
        audit = [f'ALTER TABLE "{_NEVER_EMPTY}" {how} TRIGGER USER' for how in ("DISABLE", "ENABLE")]
        return [*(f'DELETE FROM "{name}"' for name in rows), audit[0], f'DELETE FROM "{_NEVER_EMPTY}"', audit[1]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", statements)
        # Content types and permissions stay, so nothing has to make them again.
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_, **__: None)
        yield


_NEVER_EMPTY = "events_auditentry"


_ON_THE_CLUSTER = {
    f"tests/e2e/test_{name}.py"
    for name in ("history", "lifecycle", "preemption", "screening", "sharing", "shell", "strikes")
}
_OF_THE_PAGES = {"tests/e2e/test_page_actions.py", "tests/e2e/test_pages.py"}
# What takes longest in one piece, the longest first: begun last, two of three workers would wait for it. Each worker
# gets two pieces to begin with, so the fourth, which waits behind the longest, is a short one.
_FIRST = (
    *("the cluster", "the pages", "tests/contract/"),
    *("tests/e2e/", "tests/db/test_links_ssh.py", "tests/agent/"),
)


class _FilesAndOneCluster(LoadFileScheduling):
    """Whole files for each worker of a parallel run, and one worker for all that share a cluster or a demonstration.

    Tests of a container engine are apart from those of another: each takes about as long as a large file.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def _scope(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    engine = re.search(r"\[(docker|podman)\b", nodeid)
    if engine:
        return f"{file} {engine[1]}"
    if file in _OF_THE_PAGES:
        return "the pages"
    return "the cluster" if file.startswith("tests/faults/") or file in _ON_THE_CLUSTER else file


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Ends what a group of files has shared, after its last test."""
    yield
    if nextitem is None or _scope(nextitem.nodeid) != _scope(item.nodeid):
        end_what_is_kept()


def pytest_sessionfinish() -> None:
    """Ends it also where a run was broken off."""
    end_what_is_kept()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what takes longest; everything else keeps the order that pytest-django gives it."""
    places = dict(enumerate(_FIRST))
    items.sort(
        key=lambda item: next((at for at, word in places.items() if _scope(item.nodeid).startswith(word)), len(places))
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests have measured and recorded as properties, also of the workers of a parallel run."""
    figures = [
        (report.nodeid.partition("::")[2], f"{name}: {value}")
        for category in ("passed", "failed")
        for report in terminalreporter.stats.get(category, ())
        if report.when == "call"
        for name, value in report.user_properties
    ]
    if figures:
        terminalreporter.section("figures")
    for test, group in groupby(figures, key=itemgetter(0)):
        terminalreporter.line(test)
        for _, text in group:
            terminalreporter.line(f"    {text}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Gives `--dist loadfile` the grouping above."""
    return _FilesAndOneCluster(config, log) if config.getoption("dist") == "loadfile" else None
