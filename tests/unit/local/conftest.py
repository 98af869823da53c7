"""Folders for servers that run under another account."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every account may pass through, with a short path; pytest's own is closed and long."""
    folder = Path(tempfile.mkdtemp(prefix="muster-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
