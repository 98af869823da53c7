"""What every test gets. The services are started by the plugin `tests.embedded`, before Django is set up."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings


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
