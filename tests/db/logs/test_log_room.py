"""A log store whose disk is full: refused as a call to be sent again, told once, and whole when there is room."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from muster.common.errors import NoRoom
from muster.events import room
from muster.events.models import Event, Outbox
from muster.logs import store
from muster.logs.store import Chunk, append
from tests.db.stories import World, ranks, start

pytestmark = pytest.mark.django_db


def test_a_full_disk_is_told_once_and_so_is_that_there_is_room_again(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.OPERATORS_MAIL = ["ops@example.org"]
    allocation = ranks(start(world))[0]
    free = {"bytes": 0}

    def write(folder: Path, segment_bytes: int, chunk: Chunk) -> None:
        if not free["bytes"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, segment_bytes, chunk)

    real = store._write
    monkeypatch.setattr(store, "_write", write)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free["bytes"]))
    chunk = Chunk(0, b"line\n", crc32(b"line\n"))
    for _ in range(3):
        with pytest.raises(NoRoom, match="the log store has no room"):
            append(allocation, chunk)
    # A little room is taken, and is no news.
    free["bytes"] = 4096
    assert append(allocation, chunk) == 5
    assert kinds() == ["logs.full"]
    free["bytes"] = room.ENOUGH_BYTES
    assert append(allocation, Chunk(5, b"more\n", crc32(b"more\n"))) == 10
    assert kinds() == ["logs.full", "logs.room"]
    assert Outbox.objects.filter(topic="mail").count() == 1


def test_another_failure_of_the_disk_is_no_lack_of_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path, segment_bytes: int, chunk: Chunk) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(store, "_write", write)
    with pytest.raises(OSError, match="Input/output"):
        append(ranks(start(world))[0], Chunk(0, b"x", crc32(b"x")))
    assert kinds() == []


def kinds() -> list[str]:
    return list(Event.objects.filter(kind__startswith="logs.").order_by("pk").values_list("kind", flat=True))
