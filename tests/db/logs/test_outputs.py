"""The files that jobs leave, from an agent to a reader, over the real web process."""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.utils import timezone

from muster.events.models import Event
from muster.jobs.models import Allocation, Job
from muster.outputs import store
from muster.outputs.models import HELD, FileState, OutputFile
from muster.outputs.store import place_of
from muster.outputs.tasks import forget_old_outputs
from nodeagent.protocol import messages as protocol
from nodeagent.protocol.calls import bearer, content_range, crc32_hex
from nodeagent.protocol.messages import (
    MAX_CHUNK_BYTES,
    EndReason,
    Excluded,
    OutputsAnswer,
    OutputsFinishRequest,
    OutputSlot,
    OutputsRequest,
)
from nodeagent.runtime.port import WorkFolder
from nodeagent.ship.outputs import OutputStream
from nodeagent.transport.client import Client
from nodeagent.transport.transport import Dialled
from scheduler.model.reasons import Reason
from tests.db.agent_calls import Agent, agent_of
from tests.db.stories import World, claim, cycle, end, live_attempt, place, ranks, start, submit
from tests.factories import make_node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

RETRY = {"on": ["failed"], "max": 3}


@pytest.fixture(autouse=True)
def _an_empty_store(tmp_path: Path, settings: Any) -> None:
    settings.STATE_FOLDER = tmp_path / "state"
    settings.STATE_FOLDER.mkdir()


@pytest.fixture
def rank(world: World) -> Allocation:
    """A rank of a job that names what it leaves."""
    return ranks(start(world, outputs=["**"], retry=RETRY))[0]


def name(agent: Agent, rank: Allocation, *files: tuple[str, int], **fields: Any) -> httpx.Response:
    request = OutputsRequest(fields.pop("fence", rank.attempt_id), tuple(protocol.OutputFile(*file) for file in files))
    return agent.post(f"/agent/v1/allocations/{rank.pk}/outputs", request, **fields)


def slots(agent: Agent, rank: Allocation, *files: tuple[str, int]) -> tuple[OutputSlot, ...]:
    answer = name(agent, rank, *files)
    assert answer.status_code == 200, answer.text
    return OutputsAnswer.from_dict(answer.json()).files


def send(agent: Agent, rank: Allocation, file_id: int, offset: int, body: bytes, **headers: str) -> httpx.Response:
    sent = {
        "Authorization": bearer(agent.secret),
        "Content-Range": content_range(offset, len(body)),
        "X-Muster-Crc32": crc32_hex(body),
        "X-Muster-Fence": str(rank.attempt_id),
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    return agent.http.patch(f"/agent/v1/allocations/{rank.pk}/outputs/{file_id}", content=body, headers=sent)


def send_whole(agent: Agent, rank: Allocation, path: str, body: bytes) -> OutputFile:
    (slot,) = slots(agent, rank, (path, len(body)))
    if slot.wanted:
        answer = send(agent, rank, slot.id, 0, body, X_Muster_Sha256=hashlib.sha256(body).hexdigest())
        assert (answer.status_code, answer.json()) == (202, {"size": len(body)})
    return OutputFile.objects.get(pk=slot.id)


def close(agent: Agent, rank: Allocation, *left_out: Excluded, **fields: Any) -> int:
    request = OutputsFinishRequest(rank.attempt_id, left_out, **fields)
    return agent.post(f"/agent/v1/allocations/{rank.pk}/outputs:finish", request).status_code


def files_path(rank: Allocation, file_id: int | str = "") -> str:
    return f"/api/v1/jobs/{rank.attempt.job_id}/files" + (f"/{file_id}" if file_id else "")


def listed(http: httpx.Client, rank: Allocation, **query: Any) -> dict[str, Any]:
    answer = http.get(files_path(rank), params=query)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def states(http: httpx.Client, rank: Allocation) -> dict[str, str]:
    return {file["path"]: file["state"] for file in listed(http, rank)["results"]}


def stored_files() -> list[Path]:
    return sorted(path for path in (settings.STATE_FOLDER / "outputs").rglob("*") if path.is_file())


class TestFromAgentToReader:
    def test_the_agents_own_stream_brings_files_to_their_reader(
        self, server: str, agent: Agent, http: httpx.Client, rank: Allocation, tmp_path: Path
    ) -> None:
        content = os.urandom(1_200_000)
        work = tmp_path / "work"
        (work / "ckpt").mkdir(parents=True)
        (work / "ckpt" / "last.pt").write_bytes(content)
        (work / "empty").touch()
        (work / "link").symlink_to("/etc/passwd")
        spec = agent.launch(rank)
        assert spec.outputs == ("**",)
        folder = WorkFolder(str(work), (), os.geteuid())
        stream = OutputStream(spec, folder=lambda: folder, client=Client(Dialled(server), agent.secret))
        while not stream.done:
            stream.step()
        stream.close()
        agent.end(rank)
        document = listed(http, rank)
        assert [(file["path"], file["size"], file["state"]) for file in document["results"]] == [
            ("ckpt/last.pt", len(content), "kept"),
            ("empty", 0, "kept"),
            ("link", 0, "not_a_file"),
        ]
        assert (document["summary"]["pending"], document["summary"]["kept_bytes"]) == (0, len(content))
        last, empty, link = document["results"]
        assert last["sha256"] == hashlib.sha256(content).hexdigest()
        assert http.get(files_path(rank, last["id"])).content == content
        assert http.get(files_path(rank, empty["id"])).content == b""
        assert http.get(files_path(rank, link["id"])).status_code == 404
        told = Event.objects.get(kind="attempt.outputs").data
        assert told == {"attempt": 1, "rank": 0, "files": 2, "bytes": len(content), "left_out": 1}

    def test_a_page_that_a_job_wrote_is_a_download_and_nothing_else(
        self, agent: Agent, http: httpx.Client, rank: Allocation
    ) -> None:
        file = send_whole(agent, rank, 'a/"x"; ü.html', b"<script>alert(1)</script>")
        answer = http.get(files_path(rank, file.pk))
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''%22x%22%3B%20%C3%BC.html"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert place_of(file).name == str(file.pk)

    def test_a_part_can_be_read(self, agent: Agent, http: httpx.Client, rank: Allocation) -> None:
        file = send_whole(agent, rank, "a", b"0123456789")
        answer = http.get(files_path(rank, file.pk), headers={"Range": "bytes=4-6"})
        assert (answer.status_code, answer.content) == (206, b"456")

    def test_others_see_nothing(
        self, agent: Agent, http: httpx.Client, stranger: httpx.Client, rank: Allocation, world: World
    ) -> None:
        file = send_whole(agent, rank, "a", b"secret")
        assert stranger.get(files_path(rank)).status_code == 404
        assert stranger.get(files_path(rank, file.pk)).status_code == 404
        assert httpx.get(f"{http.base_url}{files_path(rank, file.pk)}").status_code == 401
        other = ranks(start(world, outputs=["**"]))[0]
        assert http.get(files_path(other, file.pk)).status_code == 404

    def test_the_list_has_pages_and_can_be_of_one_attempt(
        self, agent: Agent, http: httpx.Client, rank: Allocation
    ) -> None:
        slots(agent, rank, *((f"{number}", 1) for number in range(5)))
        first = listed(http, rank, limit=3)
        second = listed(http, rank, limit=3, cursor=first["next"])
        paths = [file["path"] for file in first["results"] + second["results"]]
        assert (paths, second["next"]) == (["0", "1", "2", "3", "4"], None)
        assert listed(http, rank, attempt=2)["results"] == []
        assert http.get(files_path(rank), params={"cursor": "x"}).status_code == 422


class TestChunks:
    def test_a_lost_answer_is_asked_for_again_and_a_restart_goes_on(self, agent: Agent, rank: Allocation) -> None:
        (slot,) = slots(agent, rank, ("a", 10))
        assert slot == OutputSlot(slot.id, 0, wanted=True)
        for _ in range(2):
            assert send(agent, rank, slot.id, 0, b"012345").json() == {"size": 6}
        assert slots(agent, rank, ("a", 10)) == (OutputSlot(slot.id, 6, wanted=True),)
        gap = send(agent, rank, slot.id, 8, b"89")
        assert (gap.status_code, gap.json()) == (416, {"size": 6})
        digest = hashlib.sha256(b"0123456789").hexdigest()
        for _ in range(2):
            answer = send(agent, rank, slot.id, 6, b"6789", X_Muster_Sha256=digest)
            assert (answer.status_code, answer.json()) == (202, {"size": 10})
        assert slots(agent, rank, ("a", 10)) == (OutputSlot(slot.id, 10, wanted=False),)
        assert OutputFile.objects.get().state == FileState.KEPT

    def test_a_file_whose_digest_is_another_is_not_kept(
        self, agent: Agent, http: httpx.Client, rank: Allocation
    ) -> None:
        (slot,) = slots(agent, rank, ("a", 6))
        send(agent, rank, slot.id, 0, b"abc")
        other = hashlib.sha256(b"xbcdef").hexdigest()
        assert send(agent, rank, slot.id, 3, b"def", X_Muster_Sha256=other).json() == {"size": 6}
        assert states(http, rank) == {"a": "changed"}
        assert stored_files() == []
        assert http.get(files_path(rank, slot.id)).status_code == 404

    def test_it_refuses_what_makes_no_sense(self, agent: Agent, rank: Allocation) -> None:
        (slot,) = slots(agent, rank, ("a", 10))
        digest = {"X_Muster_Sha256": "0" * 64}
        wrong: dict[str, tuple[bytes, dict[str, str], int]] = {
            "more than was named": (b"0123456789x", digest, 422),
            "a digest too early": (b"01", digest, 422),
            "no digest in the end": (b"0123456789", {}, 422),
            "a digest that is none": (b"0123456789", {"X_Muster_Sha256": "x" * 64}, 422),
            "another checksum": (b"01", {"X_Muster_Crc32": "00000000"}, 422),
            "another range": (b"01", {"Content_Range": "bytes 0-5/*"}, 422),
            "another fence": (b"01", {"X_Muster_Fence": str(rank.attempt_id + 1)}, 409),
            "too large a body": (bytes(MAX_CHUNK_BYTES + 1), {}, 413),
        }
        found = {what: send(agent, rank, slot.id, 0, body, **headers) for what, (body, headers, _) in wrong.items()}
        assert {what: answer.status_code for what, answer in found.items()} == {
            what: status for what, (_, _, status) in wrong.items()
        }
        assert OutputFile.objects.get().stored == 0

    def test_a_file_that_is_another_now_begins_anew(self, agent: Agent, rank: Allocation) -> None:
        send_whole(agent, rank, "a", b"old one")
        file = send_whole(agent, rank, "a", b"a new one")
        assert (file.state, file.size, place_of(file).read_bytes()) == (FileState.KEPT, 9, b"a new one")
        assert len(stored_files()) == 1


class TestWhoMaySend:
    def test_only_the_node_that_has_the_rank(self, server: str, agent: Agent, rank: Allocation, world: World) -> None:
        (slot,) = slots(agent, rank, ("a", 1))
        other = agent_of(server, make_node(world.pool))
        with other.http:
            assert name(other, rank, ("b", 1)).status_code == 404
            assert send(other, rank, slot.id, 0, b"x", X_Muster_Sha256="0" * 64).status_code == 404
            assert close(other, rank) == 404
        assert name(agent, rank, ("b", 1), fence=rank.attempt_id + 1).status_code == 409

    def test_only_into_its_own_rank(self, agent: Agent, rank: Allocation, world: World) -> None:
        (slot,) = slots(agent, rank, ("a", 1))
        neighbour = ranks(start(world, outputs=["**"]))[0]
        assert send(agent, neighbour, slot.id, 0, b"x", X_Muster_Sha256="0" * 64).status_code == 404

    def test_only_for_a_job_that_asked_for_it_and_was_started(self, agent: Agent, world: World) -> None:
        assert name(agent, ranks(start(world))[0], ("a", 1)).status_code == 409
        assert name(agent, ranks(place(world, outputs=["**"]))[0], ("a", 1)).status_code == 409
        assert not OutputFile.objects.exists()

    def test_only_paths_below_the_folder(self, agent: Agent, rank: Allocation) -> None:
        for path in ("", "/etc/passwd", "a/../b", "a//b", ".", "a\nb", "\u202ea", "é" * 600):
            answer = name(agent, rank, ("fine", 1), (path, 1))
            assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "files[1].path")
        assert not OutputFile.objects.exists()

    def test_not_too_many_at_once(self, agent: Agent, rank: Allocation) -> None:
        assert name(agent, rank, *((f"{number}", 1) for number in range(201))).status_code == 422
        assert close(agent, rank, *(Excluded(f"{number}", "changed") for number in range(201))) == 422
        assert name(agent, rank, ("a", -1)).status_code == 422


class TestRoom:
    @pytest.fixture(autouse=True)
    def _a_hundred_bytes(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.OUTPUTS_MAX_BYTES = 100
        monkeypatch.setattr(store, "MAX_FILES", 4)

    def test_what_does_not_fit_is_said_and_what_fits_is_kept(
        self, agent: Agent, http: httpx.Client, rank: Allocation
    ) -> None:
        named = [("a", 60), ("b", 101), ("c", 60), ("d", 40), ("e", 1)]
        assert [slot.wanted for slot in slots(agent, rank, *named)] == [True, False, False, True, False]
        assert states(http, rank) == {
            "a": "arriving",
            "b": "too_large",
            "c": "over_limit",
            "d": "arriving",
            "e": "over_limit",
        }

    def test_the_number_of_files_is_bounded_and_that_of_rows_too(
        self, agent: Agent, rank: Allocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "MAX_ROWS", 6)
        found = slots(agent, rank, *((f"{number}", 0) for number in range(9)))
        assert [slot.id > 0 for slot in found] == [True] * 6 + [False] * 3
        assert OutputFile.objects.filter(state__in=HELD).count() == 4
        assert close(agent, rank, *(Excluded(f"x{number}", "changed") for number in range(5)), more=7) == 200
        assert OutputFile.objects.count() == 6

    def test_two_ranks_share_what_their_job_may_keep(self, server: str, agent: Agent, world: World) -> None:
        make_node(world.pool)
        first, second = ranks(start(world, nodes=2, outputs=["**"]))
        agents = {one.node_id: agent_of(server, one.node) for one in (first, second)}
        assert slots(agents[first.node_id], first, ("a", 70))[0].wanted
        assert not slots(agents[second.node_id], second, ("a", 31))[0].wanted
        assert slots(agents[second.node_id], second, ("b", 30))[0].wanted
        for one in agents.values():
            one.http.close()

    def test_a_later_attempt_takes_the_place_of_earlier_ones(
        self, agent: Agent, http: httpx.Client, rank: Allocation, world: World
    ) -> None:
        old = send_whole(agent, rank, "old", bytes(80))
        slots(agent, rank, ("half", 10))
        again = self.retried(rank, world)
        assert slots(agent, again, ("small", 10))[0].wanted
        assert OutputFile.objects.get(pk=old.pk).state == FileState.KEPT
        assert slots(agent, again, ("new", 60))[0].wanted
        assert states(http, rank) == {
            "small": "arriving",
            "new": "arriving",
            "old": "made_room",
            "half": "made_room",
        }
        assert stored_files() == []
        late = OutputFile.objects.get(path="half")
        assert send(agent, rank, late.pk, 0, b"x").json() == {"size": 10}
        assert stored_files() == []

    def test_an_earlier_attempt_that_comes_late_takes_nothing_from_a_later_one(
        self, agent: Agent, rank: Allocation, world: World
    ) -> None:
        again = self.retried(rank, world)
        assert slots(agent, again, ("new", 60))[0].wanted
        assert not slots(agent, rank, ("old", 60))[0].wanted

    def test_a_disk_that_is_nearly_full_is_left_to_the_platform_until_it_has_room(
        self, agent: Agent, http: httpx.Client, rank: Allocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(settings, "OUTPUTS_MAX_BYTES", 10_000)
        disk = SimpleNamespace(total=1000, free=60)
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: disk)
        first, second, never = slots(agent, rank, ("a", 10), ("b", 11), ("c", 951))
        assert (first.wanted, second.wanted, never.wanted) == (True, True, False)
        assert states(http, rank) == {"a": "arriving", "b": "arriving", "c": "no_space"}
        # All that is left of the file must fit, not just what came.
        refused = send(agent, rank, second.id, 0, b"x")
        assert (refused.status_code, refused.json()["status"], refused.headers["retry-after"]) == (507, 507, "1")
        assert send(agent, rank, first.id, 0, b"x").status_code == 202
        assert send(agent, rank, second.id, 0, b"x").status_code == 507
        kinds = Event.objects.filter(kind__startswith="outputs.").order_by("pk").values_list("kind", flat=True)
        assert list(kinds) == ["outputs.full"]  # the smaller file is no news
        disk.free = 61
        assert send(agent, rank, second.id, 0, b"x").status_code == 202
        assert list(kinds.all()) == ["outputs.full", "outputs.room"]

    def retried(self, rank: Allocation, world: World) -> Allocation:
        """The rank of the attempt that follows when this one has failed."""
        end(rank, Reason.EXIT_NONZERO, exit_code=1)
        Job.objects.filter(pk=rank.attempt.job_id).update(eligible_at=timezone.now() - timedelta(seconds=1))
        cycle(world)
        (again,) = ranks(live_attempt(rank.attempt.job))
        return claim(again)


class TestTheEnd:
    def test_what_was_left_out_has_its_reason_and_what_did_not_come_is_not_kept(
        self, agent: Agent, http: httpx.Client, rank: Allocation
    ) -> None:
        send_whole(agent, rank, "kept", b"x")
        half, _ = slots(agent, rank, ("half", 10), ("changed", 10))
        send(agent, rank, half.id, 0, b"01234")
        left_out = (
            Excluded("changed", "changed", 10),
            Excluded("fifo", "not_a_file"),
            Excluded("kept", "vanished"),
            Excluded("later", "a reason of a newer agent"),
            Excluded("bad\\nname", "bad_name", 3),
        )
        for _ in range(2):
            assert close(agent, rank, *left_out, more=3, cut_short=True) == 200
        assert states(http, rank) == {
            "kept": "kept",
            "half": "incomplete",
            "changed": "changed",
            "fifo": "not_a_file",
            "later": "incomplete",
            "bad\\nname": "bad_name",
        }
        assert len(stored_files()) == 1
        summary = listed(http, rank)["summary"]
        assert (summary["unnamed"], summary["cut_short"], summary["kept_files"]) == (3, True, 1)
        assert slots(agent, rank, ("new", 1), ("half", 10)) == (
            OutputSlot(0, 0, wanted=False),
            OutputSlot(half.id, 5, wanted=False),
        )
        assert Event.objects.filter(kind="attempt.outputs").count() == 1

    def test_who_waits_is_told_how_many_ranks_are_still_to_come(
        self, agent: Agent, http: httpx.Client, rank: Allocation, world: World
    ) -> None:
        assert listed(http, rank)["summary"]["pending"] == 1
        agent.end(rank, EndReason.EXIT_NONZERO)
        assert listed(http, rank)["summary"]["pending"] == 1
        close(agent, rank)
        assert listed(http, rank)["summary"]["pending"] == 0
        lost = ranks(start(world, outputs=["**"]))[0]
        end(lost, Reason.NODE_LOST)
        summary = listed(http, lost)["summary"]
        assert (summary["pending"], summary["lost"]) == (0, 1)

    def test_a_job_that_names_nothing_says_so(self, http: httpx.Client, world: World) -> None:
        job = submit(world)
        document = http.get(f"/api/v1/jobs/{job.pk}/files").json()
        assert (document["results"], document["summary"]["patterns"], document["summary"]["pending"]) == ([], [], 0)

    def test_files_go_when_their_time_has_come(
        self, agent: Agent, http: httpx.Client, rank: Allocation, settings: Any
    ) -> None:
        file = send_whole(agent, rank, "a", b"x")
        close(agent, rank)
        agent.end(rank)
        assert forget_old_outputs() == 0
        stray = place_of(file).with_name("999")  # what a crash may leave
        stray.write_bytes(b"x")
        long_ago = timezone.now() - settings.OUTPUTS_KEPT_FOR - timedelta(seconds=1)
        Job.objects.filter(pk=rank.attempt.job_id).update(ended_at=long_ago)
        assert forget_old_outputs() == 1
        assert stored_files() == []
        assert states(http, rank) == {"a": "expired"}
        assert http.get(files_path(rank, file.pk)).status_code == 404
        assert forget_old_outputs() == 0
