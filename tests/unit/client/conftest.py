"""A fake server and the command line in front of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.unit.client.fake_server import FakeServer, Run, muster


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this machine's time zone be UTC, whichever it is."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def run(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*args: str, **options: Any) -> Result:
        return muster(server, *args, home=tmp_path / "home", **options)

    return call
