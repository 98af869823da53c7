"""Fixtures of every test. The services are started by the plugin `tests.embedded`, before Django is set up.

Importing `tests.profiles` loads the Hypothesis profile.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections import Counter
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
from whitenoise.middleware import WhiteNoiseMiddleware
from xdist.scheduler import LoadFileScheduling

from tests.groups import FilesAndOneCluster, is_long, is_quick, may_have, place_of, scope_of
from tests.kept import end_what_is_kept
from tests.profiles import PROFILE, VARIABLE

LONG_S = 300
"""What a long test may take that does not say it: on a busy machine several times what it takes on a quiet one."""


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
        deletions = [f'DELETE FROM "{name}"' for name in rows]
        # In one message: the round trips take longer than the deletions.
        return ["; ".join([*deletions, audit[0], f'DELETE FROM "{_NEVER_EMPTY}"', audit[1]])]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", statements)
        # Content types and permissions stay, so nothing has to make them again.
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_, **__: None)
        yield


_NEVER_EMPTY = "events_auditentry"


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_found_once() -> Iterator[None]:
    """Every test's client makes the middleware anew, which would look through all static files again each time."""
    find = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def find_once(self: WhiteNoiseMiddleware) -> None:
        if not found:
            find(self)
            found.update(self.files)
        self.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", find_once)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves the files of one half of the tests unread where the other half alone is to run."""
    halves = {"long": True, "not long": False}
    wanted = config.getoption("markexpr")
    return True if wanted in halves and not may_have(collection_path, long=halves[wanted]) else None


def pytest_report_header() -> str:
    return f"{VARIABLE}: {PROFILE}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collects without looking for garbage: there is none, and what is collected lives as long as the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Ends what a group of files has shared, after its last test, and after that test has run again if it does."""
    try:
        return (yield)
    finally:
        if nextitem is None or scope_of(nextitem.nodeid) != scope_of(item.nodeid):
            end_what_is_kept()


def pytest_sessionfinish() -> None:
    """Ends it also where a run was broken off."""
    end_what_is_kept()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark long and quick tests, and begin with what takes longest; else the order is the one of pytest-django."""
    for item in items:
        operation = getattr(item, "operation_label", None)
        if operation and operation not in item.nodeid:
            # Schemathesis makes a test of each operation, all with one id; of such a parallel run does only one.
            item._id = item.parent.id.child(f"{item.originalname}[{operation}]")
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LONG_S))
        if is_quick(item.nodeid):
            item.add_marker(pytest.mark.quick)
    twice = [nodeid for nodeid, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"only one of these tests would run: {', '.join(twice)}")
    yield
    items.sort(key=lambda item: place_of(item.nodeid))


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
    return FilesAndOneCluster(config, log) if config.getoption("dist") == "loadfile" else None
