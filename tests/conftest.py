"""What every test gets. The services are started by the plugin `tests.embedded`, before Django is set up."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from xdist.scheduler import LoadFileScheduling


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


class _FilesAndOneCluster(LoadFileScheduling):
    """Whole files for each worker of a parallel run, and one worker for all tests that share the cluster under test."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return "the cluster" if scope.startswith("tests/faults/") or scope.endswith("/test_lifecycle.py") else scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Gives `--dist loadfile` the grouping above."""
    return _FilesAndOneCluster(config, log) if config.getoption("dist") == "loadfile" else None
