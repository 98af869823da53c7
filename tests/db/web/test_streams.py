"""Streams over HTTP: logs as they grow, events as they happen."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from django.db import transaction

from muster.api.logs import stream as log_stream
from muster.events.services import record
from muster.fleet.services import cordon_node
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Allocation, Attempt
from muster.jobs.services import cancel_job, requeue_job
from muster.logs.store import Chunk, LogEnd, append, finish
from muster.sweeps.services import submit_sweep
from scheduler.model.reasons import Reason
from tests.db.conftest import client
from tests.db.stories import (
    WAIT_S,
    Other,
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    place,
    ranks,
    run,
    start,
    submit,
    until_settled,
)
from tests.factories import make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

Say = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    id: str
    data: Say


@contextmanager
def following(http: httpx.Client, path: str, **headers: str) -> Iterator[Iterator[Event]]:
    """The events of a stream, one at a time."""
    until_settled()
    with http.stream("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer)


def _events(answer: httpx.Response) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield Event(fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"]))
            fields = {}


def until(events: Iterator[Event], name: str) -> Event:
    """The next event of this name; what comes before it is passed over."""
    return next(event for event in events if event.name == name)


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


def say(allocation: Allocation, *texts: str | bytes) -> None:
    """The rank prints each of the texts as one chunk."""
    for text in texts:
        body = text.encode() if isinstance(text, str) else text
        offset = sum(allocation.log_chunks.values_list("size", flat=True))
        append(allocation, Chunk(offset, body, 0))


def all_is_said(attempt: Attempt) -> None:
    """The agents close the attempt's logs."""
    for allocation in ranks(attempt):
        size = sum(allocation.log_chunks.values_list("size", flat=True))
        finish(allocation, LogEnd(size=size, sha256="", holes=[]))


def succeed(attempt: Attempt) -> None:
    for allocation in ranks(attempt):
        end(allocation)
    all_is_said(attempt)


def log_path(of: Attempt, **query: object) -> str:
    return f"/api/v1/jobs/{of.job_id}/logs?" + "&".join(f"{name}={value}" for name, value in query.items())


class TestReading:
    def test_a_job_that_has_not_started_has_an_empty_log(self, http: httpx.Client, world: World) -> None:
        answer = http.get(f"/api/v1/jobs/{submit(world).pk}/logs")
        assert (answer.status_code, answer.content, answer.headers["X-Muster-Size"]) == (200, b"", "0")

    def test_bytes_are_read_from_an_offset_and_up_to_a_limit(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        say(ranks(attempt)[0], "0123456789", "abcdefghij")
        answer = http.get(log_path(attempt, offset=5, limit=8))
        assert answer.content == b"56789abc"
        assert [answer.headers[f"X-Muster-{name}"] for name in ("Attempt", "Size", "Offset", "Next-Offset")] == [
            "1",
            "20",
            "5",
            "13",
        ]
        assert http.get(log_path(attempt, offset=20)).content == b""
        assert http.get(log_path(attempt, offset=999)).headers["X-Muster-Next-Offset"] == "999"

    def test_what_the_job_wrote_comes_byte_by_byte_as_plain_text(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        body = bytes(range(256)) + b"<script>alert(1)</script>\x1b]8;;x\x07" + "\u202e\u2066".encode()
        say(ranks(attempt)[0], body)
        answer = http.get(log_path(attempt))
        assert answer.content == body
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")

    def test_each_rank_and_each_attempt_has_its_own_log(self, http: httpx.Client, world: World) -> None:
        first = start(world, nodes=2)
        say(ranks(first)[0], "rank 0")
        say(ranks(first)[1], "rank 1")
        requeue_job(user=world.user, job=first.job)
        for allocation in ranks(first):
            end(allocation, Reason.KILLED_BY_SIGNAL)
        cycle(world)
        second = live_attempt(first.job)
        claim(ranks(second)[0])
        say(ranks(second)[0], "again")
        assert http.get(log_path(first)).content == b"again"
        assert http.get(log_path(first, attempt=1, rank=0)).content == b"rank 0"
        assert http.get(log_path(first, attempt=1, rank=1)).content == b"rank 1"
        assert http.get(log_path(first, attempt=3)).status_code == 404
        assert http.get(log_path(first, rank=2)).status_code == 404

    def test_a_hole_is_stepped_over_and_shows_in_the_offsets(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        allocation = ranks(attempt)[0]
        say(allocation, "before")
        append(allocation, Chunk(100, b"after", 0, dropped=(6, 100)))
        first = http.get(log_path(attempt))
        assert (first.content, first.headers["X-Muster-Next-Offset"]) == (b"before", "6")
        second = http.get(log_path(attempt, offset=6))
        assert (second.content, second.headers["X-Muster-Offset"]) == (b"after", "100")
        assert http.get(log_path(attempt, download=1)).content == b"beforeafter"

    def test_a_download_is_an_attachment_of_every_byte(
        self, http: httpx.Client, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_stream, "MAX_READ_BYTES", 7)
        attempt = start(world)
        body = bytes(range(100))
        say(ranks(attempt)[0], body[:40], body[40:])
        answer = http.get(log_path(attempt, download=1))
        assert answer.content == body
        name = f"job-{attempt.job_id}-attempt-1.log"
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert http.get(log_path(attempt, download=1, offset=90)).content == body[90:]
        assert http.get(log_path(attempt, download=1, rank=1)).status_code == 404

    def test_all_ranks_are_read_in_the_order_of_arrival_and_each_byte_has_its_rank(
        self, http: httpx.Client, world: World
    ) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        say(first, "0123", "45")
        say(second, "abc\xff".encode("latin-1"), "def")
        say(first, "6789")
        whole = b"012345abc\xffdef6789"
        answer = http.get(log_path(attempt))
        assert answer.content == whole
        assert answer.headers["X-Muster-Ranks"] == "0:0:6,1:0:7,0:6:4"
        part = http.get(log_path(attempt, offset=4, limit=5))
        assert part.content == whole[4:9]
        names = ("Size", "Offset", "Next-Offset", "Ranks")
        assert [part.headers[f"X-Muster-{name}"] for name in names] == ["17", "4", "9", "0:4:2,1:0:3"]
        assert http.get(log_path(attempt, offset=17)).content == b""
        download = http.get(log_path(attempt, download=1))
        assert download.content == whole
        assert f'"job-{attempt.job_id}-attempt-1.log"' in download.headers["content-disposition"]
        alone = http.get(log_path(attempt, download=1, rank=1))
        assert alone.content == b"abc\xffdef"
        assert f'"job-{attempt.job_id}-attempt-1-rank-1.log"' in alone.headers["content-disposition"]

    @pytest.mark.parametrize("query", ["offset=-1", "offset=x", "limit=1e9", "rank=%D9%A3", "attempt=0", "follow=yes"])
    def test_a_wrong_number_is_named(self, http: httpx.Client, world: World, query: str) -> None:
        answer = http.get(f"/api/v1/jobs/{submit(world).pk}/logs?{query}")
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == query.partition("=")[0]

    @pytest.mark.parametrize("query", [{}, {"follow": 1}, {"download": 1}])
    def test_another_tenants_log_is_not_there(
        self, stranger: httpx.Client, world: World, query: dict[str, object]
    ) -> None:
        assert stranger.get(log_path(start(world), **query)).status_code == 404

    def test_without_a_token_nothing_is_read(self, server: str, world: World) -> None:
        attempt = start(world)
        assert httpx.get(server + log_path(attempt)).status_code == 401
        wrong = httpx.get(server + log_path(attempt), headers={"Authorization": "Bearer mst_wrong"})
        assert wrong.status_code == 401


class TestFollowing:
    def test_a_job_is_followed_from_the_queue_to_its_end(self, http: httpx.Client, world: World) -> None:
        job = submit(world)
        with following(http, f"/api/v1/jobs/{job.pk}/logs?follow=1") as events:
            assert next(events) == Event("state", "", {"attempt": 0, "state": "queued", "job": "queued"})
            cycle(world)
            attempt = live_attempt(job)
            (allocation,) = ranks(attempt)
            claim(allocation)
            run(allocation)
            say(allocation, "hello\n")
            first = until(events, "log")
            assert (first.id, first.data) == ("1:6", {"attempt": 1, "offset": 0, "rank": 0, "text": "hello\n"})
            say(allocation, "world\n")
            assert until(events, "log").data == {"attempt": 1, "offset": 6, "rank": 0, "text": "world\n"}
            end(allocation, Reason.EXIT_NONZERO, exit_code=3)
            all_is_said(attempt)
            last = until(events, "end")
            assert (last.id, last.data) == ("1:12", {"state": "failed", "exit_code": 3})
            assert list(events) == []

    def test_bytes_that_come_after_the_end_of_the_job_are_followed_too(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        with following(http, log_path(attempt, follow=1)) as events:
            until(events, "state")
            end(ranks(attempt)[0])
            say(ranks(attempt)[0], "late\n")
            all_is_said(attempt)
            assert until(events, "log").data["text"] == "late\n"
            assert until(events, "end").data == {"state": "succeeded", "exit_code": 0}

    def test_a_log_that_its_agent_never_closes_ends_after_a_while(
        self, http: httpx.Client, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_stream, "LAST_BYTES_WAIT_S", 0.1)
        attempt = start(world)
        say(ranks(attempt)[0], "hello\n")
        end(ranks(attempt)[0])
        with following(http, log_path(attempt, follow=1)) as events:
            assert [event.name for event in events] == ["log", "state", "end"]

    def test_a_reader_who_comes_back_misses_nothing_and_reads_nothing_twice(
        self, http: httpx.Client, world: World
    ) -> None:
        attempt = start(world)
        (allocation,) = ranks(attempt)
        lines = [f"line {number}\n" for number in range(20)]
        say(allocation, *lines[:10])
        read: list[str] = []
        last = ""
        for _ in range(4):
            with following(http, log_path(attempt, follow=1), **({"Last_Event_ID": last} if last else {})) as events:
                for _ in range(3):
                    event = until(events, "log")
                    read.append(event.data["text"])
                    last = event.id
            if len(read) == 6:
                say(allocation, *lines[10:])
        succeed(attempt)
        with following(http, log_path(attempt, follow=1), Last_Event_ID=last) as events:
            read += [event.data["text"] for event in events if event.name == "log"]
        assert read == lines

    def test_a_reader_may_come_back_to_the_middle_of_a_chunk(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        say(ranks(attempt)[0], "0123456789")
        succeed(attempt)
        with following(http, log_path(attempt, follow=1), Last_Event_ID="1:4") as events:
            assert until(events, "log").data == {"attempt": 1, "offset": 4, "rank": 0, "text": "456789"}

    def test_all_ranks_come_in_the_order_in_which_they_spoke(self, http: httpx.Client, world: World) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        say(first, "a")
        say(second, "b")
        say(first, "c")
        succeed(attempt)
        with following(http, log_path(attempt, follow=1)) as events:
            found = [(event.data["rank"], event.data["text"]) for event in events if event.name == "log"]
        assert found == [(0, "a"), (1, "b"), (0, "c")]

    def test_one_rank_can_be_followed_alone_and_come_back_to(self, http: httpx.Client, world: World) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        say(first, "a")
        say(second, "bb")
        say(first, "c")
        say(second, "dd")
        succeed(attempt)
        with following(http, log_path(attempt, follow=1, rank=1)) as events:
            found = [(event.id, event.data["text"]) for event in events if event.name == "log"]
        assert found == [("1:2", "bb"), ("1:4", "dd")]
        with following(http, log_path(attempt, follow=1, rank=1), Last_Event_ID="1:2") as events:
            assert [event.data["text"] for event in events if event.name == "log"] == ["dd"]

    def test_a_character_that_two_chunks_share_is_one_character(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        snow = "☃".encode()
        say(ranks(attempt)[0], b"a" + snow[:1], snow[1:] + b"b", b"\xff")
        succeed(attempt)
        with following(http, log_path(attempt, follow=1)) as events:
            text = "".join(event.data["text"] for event in events if event.name == "log")
        assert text == "a☃b\ufffd"

    # Each character of one to four bytes is cut wherever it can be cut, by a chunk's border and by the place itself.
    @pytest.mark.parametrize("by", ["id", "offset"])
    @pytest.mark.parametrize("alone", [True, False])
    def test_who_comes_back_inside_a_character_is_given_the_whole_of_it(
        self, http: httpx.Client, world: World, by: str, alone: bool
    ) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        body, borders = "aé☃😀z".encode(), {0, 1, 3, 6, 10, 11}
        for at in range(len(body)):
            say(second, body[at : at + 1])
        say(first, "x")
        succeed(attempt)
        query = {"rank": 1} if alone else {}
        for at in range(len(body) + 1):
            begin = max(border for border in borders if border <= at)
            if by == "id":
                events = following(http, log_path(attempt, follow=1, **query), Last_Event_ID=f"1:{at}")
            else:
                events = following(http, log_path(attempt, follow=1, offset=at, **query))
            with events as found:
                texts = [event.data["text"] for event in found if event.name == "log" and event.data["rank"] == 1]
            assert "".join(texts) == body[begin:].decode(), at

    def test_a_place_inside_a_chunk_and_a_character_shows_the_whole_character(
        self, http: httpx.Client, world: World
    ) -> None:
        attempt = start(world)
        say(ranks(attempt)[0], "a☃b", b"\x98\x83c")
        succeed(attempt)
        for at, text in ((1, "☃b"), (2, "☃b"), (3, "☃b"), (4, "b")):
            with following(http, log_path(attempt, follow=1, offset=at)) as events:
                found = "".join(event.data["text"] for event in events if event.name == "log")
            # The last chunk begins with what is no character at all, and stays so.
            assert found == f"{text}\ufffd\ufffdc"

    def test_the_two_sides_of_a_hole_make_no_character(self, http: httpx.Client, world: World) -> None:
        attempt = start(world)
        allocation = ranks(attempt)[0]
        snow = "☃".encode()
        say(allocation, b"a" + snow[:1])
        append(allocation, Chunk(100, snow[1:] + b"b", 0, dropped=(2, 100)))
        succeed(attempt)
        for at, text in (("1:0", "a\ufffd\ufffd\ufffdb"), ("1:2", "\ufffd\ufffdb")):
            with following(http, log_path(attempt, follow=1), Last_Event_ID=at) as events:
                assert "".join(event.data["text"] for event in events if event.name == "log") == text

    def test_the_next_try_of_a_job_is_followed_without_asking(self, http: httpx.Client, world: World) -> None:
        first = start(world)
        with following(http, log_path(first, follow=1)) as events:
            say(ranks(first)[0], "one\n")
            assert until(events, "log").data["attempt"] == 1
            requeue_job(user=world.user, job=first.job)
            end(ranks(first)[0], Reason.KILLED_BY_SIGNAL)
            all_is_said(first)
            cycle(world)
            second = live_attempt(first.job)
            claim(ranks(second)[0])
            say(ranks(second)[0], "two\n")
            event = until(events, "log")
            assert (event.id, event.data["attempt"], event.data["text"]) == ("2:4", 2, "two\n")
            succeed(second)
            assert until(events, "end").data["state"] == "succeeded"

    def test_the_next_try_is_followed_though_the_log_of_a_lost_one_was_never_closed(
        self, http: httpx.Client, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_stream, "LAST_BYTES_WAIT_S", 0.1)
        first = start(world)
        with following(http, log_path(first, follow=1)) as events:
            say(ranks(first)[0], "one\n")
            until(events, "log")
            node_id = ranks(first)[0].node_id
            lose_allocations(
                attempt_id=first.pk, node_id=node_id, reason=Reason.NODE_LOST, detail="gone", actor="platform"
            )
            cycle(world)
            second = live_attempt(first.job)
            claim(ranks(second)[0])
            say(ranks(second)[0], "two\n")
            assert until(events, "log").data["text"] == "two\n"

    def test_a_reader_who_comes_back_to_the_first_try_of_a_finished_job_reads_the_second_too(
        self, http: httpx.Client, world: World
    ) -> None:
        first = start(world)
        say(ranks(first)[0], "one\n")
        requeue_job(user=world.user, job=first.job)
        end(ranks(first)[0], Reason.KILLED_BY_SIGNAL)
        all_is_said(first)
        cycle(world)
        second = live_attempt(first.job)
        claim(ranks(second)[0])
        say(ranks(second)[0], "two\n")
        succeed(second)
        with following(http, log_path(first, follow=1), Last_Event_ID="1:4") as events:
            assert [event.data.get("text", event.name) for event in events] == ["state", "two\n", "state", "end"]

    def test_a_try_that_was_asked_for_by_number_is_followed_alone(self, http: httpx.Client, world: World) -> None:
        first = start(world)
        say(ranks(first)[0], "one\n")
        requeue_job(user=world.user, job=first.job)
        end(ranks(first)[0], Reason.KILLED_BY_SIGNAL)
        all_is_said(first)
        cycle(world)
        with following(http, log_path(first, follow=1, attempt=1)) as events:
            assert [event.data.get("text", event.name) for event in events] == ["one\n", "state", "end"]

    def test_a_place_that_no_stream_gave_is_refused(self, http: httpx.Client, world: World) -> None:
        answer = http.get(log_path(start(world), follow=1), headers={"Last-Event-ID": "nowhere"})
        assert answer.status_code == 422


class TestEvents:
    def test_every_event_of_the_users_jobs_arrives_and_no_other_tenants(
        self, http: httpx.Client, world: World, stranger: httpx.Client
    ) -> None:
        with following(http, "/api/v1/stream?topics=jobs") as events:
            assert next(events).data["kind"] == "open"
            other = make_world()
            submit(other)
            job = submit(world)
            told = next(events).data
            assert (told["topic"], told["kind"], told["job"]) == ("jobs", "job.submitted", job.pk)
            submit(other)
            cancel_job(user=world.user, job=job)
            # Both are of one transaction, and the stream was quiet before.
            assert [next(events).data["kind"] for _ in range(2)] == ["job.cancel_asked", "job.cancelled"]

    def test_the_first_transaction_after_the_opening_arrives_whole(self, http: httpx.Client, world: World) -> None:
        job = submit(world)
        with following(http, "/api/v1/stream") as events:
            next(events)
            cancel_job(user=world.user, job=job)
            assert [next(events).data["kind"] for _ in range(2)] == ["job.cancel_asked", "job.cancelled"]

    def test_what_happened_before_the_opening_is_not_told(self, http: httpx.Client, world: World) -> None:
        submit(world, name="before")
        with following(http, "/api/v1/stream") as events:
            next(events)
            submit(world, name="after")
            assert next(events).data["data"]["name"] == "after"

    def test_events_come_in_the_order_in_which_they_can_be_seen_and_a_late_commit_is_not_lost(
        self, http: httpx.Client, world: World
    ) -> None:
        job = submit(world)
        written, may_commit = threading.Event(), threading.Event()

        def write_and_wait() -> None:
            with transaction.atomic():
                record("job.late", actor="x", tenant_id=world.tenant.pk, job_id=job.pk)
                written.set()
                assert may_commit.wait(WAIT_S)

        with following(http, "/api/v1/stream") as events:
            next(events)
            late = Other(write_and_wait)
            assert written.wait(WAIT_S)
            record("job.early", actor="x", tenant_id=world.tenant.pk, job_id=job.pk)
            may_commit.set()
            late.result()
            assert [next(events).data["kind"] for _ in range(2)] == ["job.late", "job.early"]

    def test_what_happens_to_a_group_of_ones_own_tenant_is_told_among_the_jobs(
        self, http: httpx.Client, world: World
    ) -> None:
        spec = {"command": "true", "sweep": {"method": "grid", "metric": "loss", "params": {"lr": [1, 2]}}}
        with following(http, "/api/v1/stream") as events:
            next(events)
            submit_sweep(user=make_world().user, data=spec)
            group, _ = submit_sweep(user=world.user, data=spec)
            told = next(events).data
            assert (told["topic"], told["kind"], told["job"]) == ("jobs", "sweep.submitted", None)
            assert told["data"]["sweep"] == group.pk

    def test_one_job_can_be_watched(self, http: httpx.Client, world: World) -> None:
        watched, other = submit(world), submit(world)
        with following(http, f"/api/v1/stream?topics=job:{watched.pk}") as events:
            next(events)
            cancel_job(user=world.user, job=other)
            cancel_job(user=world.user, job=watched)
            told = next(events).data
            assert (told["topic"], told["job"]) == (f"job:{watched.pk}", watched.pk)

    def test_nodes_are_told_by_name(self, http: httpx.Client, world: World) -> None:
        with following(http, "/api/v1/stream?topics=nodes") as events:
            next(events)
            submit(world)
            cordon_node(node=world.nodes[0], reason="fan", actor="op")
            told = next(events).data
            assert (told["topic"], told["kind"], told["node"]) == ("nodes", "node.cordoned", world.nodes[0].name)

    def test_operators_see_every_tenants_jobs(self, server: str, world: World) -> None:
        with client(server, make_user(operator=True)) as http, following(http, "/api/v1/stream") as events:
            next(events)
            job = submit(world)
            assert next(events).data["job"] == job.pk

    def test_a_placed_job_is_told_with_its_nodes(self, http: httpx.Client, world: World) -> None:
        with following(http, "/api/v1/stream") as events:
            next(events)
            attempt = place(world)
            told = [next(events).data for _ in range(3)]
            assert [one["kind"] for one in told] == ["job.submitted", "job.active", "attempt.placed"]
            assert told[2]["data"]["nodes"] == [ranks(attempt)[0].node.name]

    @pytest.mark.parametrize("topics", ["tenants", "job:x", "job:1:2", ",".join(["jobs"] * 51)])
    def test_an_unknown_topic_is_refused(self, http: httpx.Client, topics: str) -> None:
        assert http.get(f"/api/v1/stream?topics={topics}").status_code == 422

    def test_another_tenants_job_cannot_be_watched(self, stranger: httpx.Client, world: World) -> None:
        assert stranger.get(f"/api/v1/stream?topics=job:{submit(world).pk}").status_code == 404

    def test_without_a_token_nothing_is_told(self, server: str) -> None:
        assert httpx.get(f"{server}/api/v1/stream").status_code == 401


def test_a_user_who_is_no_longer_active_reads_nothing(server: str, world: World) -> None:
    attempt = start(world)
    let_pass(0, attempt, "placed_at")
    with client(server, world.user) as http:
        type(world.user).objects.filter(pk=world.user.pk).update(is_active=False)
        assert http.get(log_path(attempt)).status_code == 401
