"""A home of the bench's own: its services are started and Django is set up on them, before anything reads settings."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django

from muster.local.services import services_of_this_process

# Settings of the user's own would lead the bench to their platform and their data.
_NOT_OURS = (
    "DATABASE_URL",
    "MUSTER_MIGRATE_DATABASE_URL",
    "REDIS_URL",
    "MUSTER_URL",
    "MUSTER_SECRET_KEY",
    "MUSTER_DEBUG",
    "PORT",
)


@contextmanager
def own_home() -> Iterator[Path]:
    """An empty home with services; both are gone when the block ends. Only once in a process."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # the servers' account has to pass through
        for variable in _NOT_OURS:
            os.environ.pop(variable, None)
        os.environ["MUSTER_HOME"] = str(folder / "home")
        os.environ["DJANGO_SETTINGS_MODULE"] = "muster.settings"
        with services_of_this_process():
            django.setup()
            yield folder / "home"
