"""Uploads and files of jobs on a disk that is really full: what is said, what remains, and that nothing is lost."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings

from muster.events.models import Event, Outbox
from muster.jobs.models import Allocation, CodeArchive, Job
from muster.outputs import store
from muster.outputs.models import FileState, OutputFile
from nodeagent.runtime.port import WorkFolder
from nodeagent.ship.outputs import OutputStream
from nodeagent.transport.client import Client
from nodeagent.transport.transport import Dialled
from tests.db.agent_calls import Agent
from tests.db.jobs.test_uploads import archive_of, send
from tests.db.stories import World, ranks, start
from tests.faults.disks import filled, small_disk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

DISK_MIB = 16
CONTENT = os.urandom(3_000_000)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The platform's state, on a small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setattr(settings, "STATE_FOLDER", folder)
    monkeypatch.setattr(settings, "OPERATORS_MAIL", ["ops@example.org"])
    with small_disk(folder, DISK_MIB, with_content=False):
        yield folder


def told(prefix: str) -> list[str]:
    return list(Event.objects.filter(kind__startswith=prefix).order_by("pk").values_list("kind", flat=True))


def files(disk: Path) -> list[str]:
    return [path.name for path in disk.rglob("*") if path.is_file()]


def test_code_that_finds_no_room_is_refused_and_half_of_it_is_nowhere(disk: Path, http: httpx.Client) -> None:
    body = archive_of(("data.bin", os.urandom(3 << 20)))
    with filled(disk, but_bytes=1 << 20):
        for _ in range(2):
            answer = send(http, body)
            assert (answer.status_code, answer.json()["title"]) == (507, "The platform has no room for this")
            assert answer.json()["detail"].startswith("the store of uploaded code has no room; nothing was stored")
            assert answer.headers["content-type"] == "application/problem+json"
        assert files(disk) == [".filler"]
        assert http.head(f"/api/v1/uploads/{hashlib.sha256(body).hexdigest()}").status_code == 404
        # What needs no room there goes on.
        assert http.post("/api/v1/jobs", json={"command": "true"}).status_code == 201
    assert not CodeArchive.objects.exists()
    assert (told("uploads."), Outbox.objects.filter(topic="mail").count()) == (["uploads.full"], 1)
    assert send(http, body).status_code == 201
    assert told("uploads.") == ["uploads.full", "uploads.room"]


@pytest.fixture
def rank(world: World) -> Allocation:
    """A rank of a job that names what it leaves."""
    return ranks(start(world, outputs=["**"]))[0]


@pytest.fixture
def stream(rank: Allocation, server: str, agent: Agent, tmp_path: Path) -> Iterator[OutputStream]:
    """The way of what the rank left, by the agent's own code."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "last.pt").write_bytes(CONTENT)
    folder = WorkFolder(str(tmp_path / "work"), (), os.geteuid())
    made = OutputStream(agent.launch(rank), folder=lambda: folder, client=Client(Dialled(server), agent.secret))
    yield made
    made.close()


@pytest.mark.parametrize("reserve", [store.LEFT_FREE, -1.0], ids=["before it is full", "when a write fails"])
@pytest.mark.usefixtures("disk")
def test_files_wait_on_their_node_for_room_and_arrive_whole(
    reserve: float, stream: OutputStream, rank: Allocation, agent: Agent, http: httpx.Client
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "LEFT_FREE", reserve)
        ship_through_a_full_disk(stream, rank, agent, http)


def ship_through_a_full_disk(stream: OutputStream, rank: Allocation, agent: Agent, http: httpx.Client) -> None:
    disk = Path(settings.STATE_FOLDER)
    steps_until(stream, lambda: stored(rank) > 0)
    with filled(disk, but_bytes=64 << 10):
        before = stored(rank)
        waits = [stream.step() for _ in range(8)]
        assert all(wait_s for wait_s in waits)
        assert max(waits) > 5  # type: ignore[type-var, operator]
        assert (stream.done, stored(rank)) == (False, before)
        document = http.get(f"/api/v1/jobs/{rank.attempt.job_id}/files").json()
        assert [file["state"] for file in document["results"]] == ["arriving"]
        row = OutputFile.objects.get()
        assert http.get(f"/api/v1/jobs/{rank.attempt.job_id}/files/{row.pk}").status_code == 404
        assert told("outputs.") == ["outputs.full"]
        # The end of the job waits for none of this.
        agent.end(rank)
        assert Job.objects.get().state == "succeeded"
    steps_until(stream, lambda: stream.done)
    row.refresh_from_db()
    assert (row.state, row.sha256) == (FileState.KEPT, hashlib.sha256(CONTENT).hexdigest())
    assert http.get(f"/api/v1/jobs/{rank.attempt.job_id}/files/{row.pk}").content == CONTENT
    assert told("outputs.") == ["outputs.full", "outputs.room"]


def steps_until(stream: OutputStream, what: Callable[[], bool]) -> None:
    for _ in range(40):
        if what():
            return
        stream.step()
    raise AssertionError("it takes too many steps")


def stored(rank: Allocation) -> int:
    row = OutputFile.objects.filter(allocation=rank).first()
    return row.stored if row else 0
