"""Shells against the real web process: who may open one, whose bytes go where, and what ends it."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.utils import timezone

from muster.accounts.models import ApiToken, User
from muster.accounts.services import revoke_token
from muster.common.secrets import digest
from muster.events.models import AuditEntry, Event
from muster.fleet.models import NodeLease, Pool
from muster.jobs.models import Attempt
from muster.jobs.services import cancel_job
from muster.shells import watch
from muster.shells.models import Shell, ShellReason
from muster.shells.relay import Closed, Relays, Window
from muster.shells.selectors import AGENT_LOST_AFTER_S, CLIENT_LOST_AFTER_S, NOT_OPENED_AFTER, Silence
from muster.shells.watch import sweep
from muster.tenants.models import Membership
from muster.tenants.roles import Role
from nodeagent.protocol.calls import shell_path
from nodeagent.protocol.messages import SyncResponse
from nodeagent.protocol.shellwire import (
    SHELL_WINDOW_BYTES,
    ShellEnd,
    ShellEndRequest,
    ShellInputAnswer,
    ShellInputRequest,
    ShellOpenAnswer,
    ShellOpenRequest,
    ShellOutputAnswer,
    ShellOutputRequest,
    WantedShell,
)
from tests.db.agent_calls import Agent, agent_of
from tests.db.conftest import client
from tests.db.stories import World, let_pass, live_attempt, make_world, now_of, ranks, start, submit
from tests.factories import make_user
from tests.waiting import stretched

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


@pytest.fixture
def world() -> World:
    return make_world(nodes=2, shells=True)


@pytest.fixture
def running(world: World) -> Attempt:
    return start(world)


@pytest.fixture
def agent(server: str, running: Attempt) -> Iterator[Agent]:
    """The agent of the node that the job runs on."""
    agent = agent_of(server, ranks(running)[0].node)
    with agent.http:
        yield agent


def ask(http: httpx.Client, attempt: Attempt, **fields: Any) -> httpx.Response:
    return http.post(f"/api/v1/jobs/{attempt.job_id}/shells", json=fields)


class Talk:
    """A shell from both its ends: the agent's calls, and its user's."""

    def __init__(self, server: str, agent: Agent, http: httpx.Client, attempt: Attempt, **fields: Any) -> None:
        answer = ask(http, attempt, **fields)
        assert answer.status_code == 201, answer.text
        self.document = answer.json()
        self.id = self.document["id"]
        self.agent = agent
        (allocation,) = [one for one in ranks(attempt) if one.rank == fields.get("rank", 0)]
        self.allocation_id, self.fence = allocation.pk, attempt.pk
        headers = bearer_of(self.document["token"])
        self.user = httpx.Client(base_url=server, timeout=30, headers=headers, verify=False, trust_env=False)

    @property
    def row(self) -> Shell:
        return Shell.objects.get(pk=self.id)

    def call(self, act: str, message: Any, *, agent: Agent | None = None, secret: str | None = None) -> httpx.Response:
        return (agent or self.agent).post(shell_path(self.allocation_id, self.id, act), message, secret=secret)

    def open(self, *, epoch: int | None = None, **options: Any) -> httpx.Response:
        return self.call("open", ShellOpenRequest(self.fence, self.epoch(epoch)), **options)

    def write(self, start: int, data: bytes, *, first: int = 0, epoch: int | None = None) -> httpx.Response:
        text = base64.b64encode(data).decode()
        return self.call("output", ShellOutputRequest(self.fence, self.epoch(epoch), first, start, text))

    def listen(self, taken: int = 0, *, wait_s: float = 0.0, **fields: Any) -> httpx.Response:
        values = {"rows": 24, "cols": 80, "over": False, **fields}
        return self.call("input", ShellInputRequest(self.fence, self.agent.epoch, taken, wait_s=wait_s, **values))

    def end(self, reason: ShellEnd = ShellEnd.EXITED, **fields: Any) -> httpx.Response:
        return self.call("end", ShellEndRequest(self.fence, self.agent.epoch, reason, **fields))

    def read(self, offset: int = 0, *, wait_s: int = 0) -> httpx.Response:
        return self.user.get(f"/api/v1/shells/{self.id}/output", params={"offset": offset, "wait": wait_s})

    def type(self, start: int, data: bytes, *, first: int = 0, **fields: Any) -> httpx.Response:
        body = {"first": first, "start": start, "data": base64.b64encode(data).decode(), **fields}
        return self.user.post(f"/api/v1/shells/{self.id}/input", json=body)

    def epoch(self, epoch: int | None) -> int:
        return self.agent.epoch if epoch is None else epoch


def bearer_of(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def data_of(answer: httpx.Response) -> bytes:
    assert answer.status_code == 200, answer.text
    return base64.b64decode(answer.json()["data"])


@pytest.fixture
def talk(server: str, agent: Agent, http: httpx.Client, running: Attempt) -> Iterator[Talk]:
    """A shell that is open."""
    talk = Talk(server, agent, http, running)
    with talk.user:
        answer = talk.open()
        assert answer.status_code == 200, answer.text
        yield talk


def wanted(agent: Agent) -> tuple[WantedShell, ...]:
    return SyncResponse.from_dict(agent.sync().json()).shells


def closed(talk: Talk) -> tuple[str, str]:
    """The reason for its end, as the database and its user have it."""
    return talk.row.reason, talk.read(wait_s=25).json()["reason"]


class TestAsking:
    def test_the_owner_gets_a_token_and_the_agent_hears_of_it(
        self, http: httpx.Client, agent: Agent, running: Attempt
    ) -> None:
        before = SyncResponse.from_dict(agent.sync().json())
        assert before.shells == ()
        answer = ask(http, running, rank=0, command=["top"], term="xterm-256color", rows=50, cols=200)
        assert answer.status_code == 201, answer.text
        document = answer.json()
        node = ranks(running)[0].node.name
        assert (document["job"], document["attempt"], document["rank"], document["node"]) == (
            running.job_id,
            1,
            0,
            node,
        )
        shell = Shell.objects.get(pk=document["id"])
        assert shell.token_digest == digest(document["token"])
        after = SyncResponse.from_dict(agent.sync().json())
        assert after.shells == (WantedShell(shell.pk, ranks(running)[0].pk, running.pk),)
        assert after.generation != before.generation

    def test_it_is_on_the_timeline_and_in_the_audit_log_without_its_command_or_token(
        self, http: httpx.Client, agent: Agent, running: Attempt, world: World
    ) -> None:
        document = ask(http, running, command=["mysql", "-psecret"]).json()
        told = Event.objects.get(kind="shell.requested")
        assert (told.job_id, told.actor) == (running.job_id, world.user.username)
        assert told.data == {
            "shell": document["id"],
            "user": world.user.username,
            "attempt": 1,
            "rank": 0,
        }
        entry = AuditEntry.objects.get(object_type="shell")
        assert (entry.action, entry.object_id, entry.actor) == ("open", str(document["id"]), world.user.username)
        assert (entry.after or {})["address"] == "127.0.0.1"
        written = f"{told.data}{entry.after}"
        assert "secret" not in written
        assert document["token"] not in written

    def test_others_find_no_such_job_and_members_are_told_who_may(
        self, server: str, http: httpx.Client, stranger: httpx.Client, running: Attempt, world: World
    ) -> None:
        unknown = stranger.post("/api/v1/jobs/999999/shells", json={})
        foreign = ask(stranger, running)
        assert (foreign.status_code, unknown.status_code) == (404, 404)
        with client(server, make_user(tenant=world.tenant)) as member:
            assert ask(member, running).status_code == 403
        with client(server, make_user(tenant=world.tenant, role=Role.MANAGER)) as manager:
            assert ask(manager, running).status_code == 201
        assert Shell.objects.count() == 1

    def test_a_pool_without_shells_refuses_and_names_the_switch(
        self, http: httpx.Client, running: Attempt, world: World
    ) -> None:
        Pool.objects.filter(pk=world.pool.pk).update(shells=False)
        answer = ask(http, running)
        assert answer.status_code == 403
        assert "`shells`" in answer.json()["detail"]
        assert make_world().pool.shells is False

    def test_a_session_of_the_pages_is_not_enough(self, client: Any, running: Attempt, world: World) -> None:
        client.force_login(world.user)
        answer = client.post(f"/api/v1/jobs/{running.job_id}/shells", {}, content_type="application/json")
        assert answer.status_code == 403
        assert "token" in answer.json()["detail"]

    def test_a_job_that_does_not_run_is_a_conflict_with_its_reason(self, http: httpx.Client, world: World) -> None:
        job = submit(world)
        queued = http.post(f"/api/v1/jobs/{job.pk}/shells", json={})
        assert (queued.status_code, queued.json()["detail"]) == (
            409,
            f"job {job.pk} is queued: a shell needs one that runs",
        )
        attempt = start(world)
        cancel_job(user=world.user, job=attempt.job)
        stopping = ask(http, attempt)
        assert (stopping.status_code, stopping.json()["detail"]) == (409, f"job {attempt.job_id} is being stopped")

    def test_a_rank_that_there_is_not_is_named(self, http: httpx.Client, running: Attempt) -> None:
        answer = ask(http, running, rank=1)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "rank")

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"rows": 0}, "rows"),
            ({"cols": 1001}, "cols"),
            ({"rows": "many"}, "rows"),
            ({"term": "x" * 65}, "term"),
            ({"term": "xterm; rm -rf"}, "term"),
            ({"command": ["a" * 20_000]}, "command.0"),
            ({"command": ["a" * 10_000, "b" * 10_000]}, "command"),
            ({"command": ["a"] * 201}, "command"),
            ({"command": [""]}, "command"),
            ({"command": ["a\x00b"]}, "command"),
            ({"command": "sh"}, "command"),
            ({"rank": -1}, "rank"),
            ({"terminal": "perhaps"}, "terminal"),
        ],
    )
    def test_what_makes_no_sense_is_named_and_stores_nothing(
        self, http: httpx.Client, running: Attempt, fields: dict[str, Any], named: str
    ) -> None:
        answer = ask(http, running, **fields)
        assert answer.status_code in {400, 422}, answer.text
        assert answer.json()["errors"][0]["field"].startswith(named.partition(".")[0])
        assert not Shell.objects.exists()

    def test_shells_are_bounded_by_job_and_by_user(
        self, http: httpx.Client, running: Attempt, world: World, settings: Any
    ) -> None:
        settings.SHELLS_PER_JOB, settings.SHELLS_PER_USER = 2, 3
        assert [ask(http, running).status_code for _ in range(3)] == [201, 201, 409]
        other = start(world)
        answers = [ask(http, other) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 409]
        assert "you have 3 shells open" in answers[1].json()["detail"]

    def test_of_two_that_ask_at_once_for_the_last_one_one_gets_it(
        self, http: httpx.Client, running: Attempt, settings: Any
    ) -> None:
        settings.SHELLS_PER_JOB = 1
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(ask(http, running).status_code)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [201, 409, 409, 409]


class TestBytes:
    def test_what_is_typed_reaches_the_agent_and_what_is_written_the_user(self, talk: Talk) -> None:
        assert talk.type(0, b"ls\n").json()["size"] == 3
        assert ShellInputAnswer.from_dict(talk.listen().json()).data == base64.b64encode(b"ls\n").decode()
        answer = ShellOutputAnswer.from_dict(talk.write(0, b"a\r\nb\r\n").json())
        assert (answer.size, answer.acked) == (6, 0)
        assert data_of(talk.read()) == b"a\r\nb\r\n"
        assert data_of(talk.read(6)) == b""
        assert ShellOutputAnswer.from_dict(talk.write(6, b"", first=0).json()).acked == 6

    def test_a_wait_ends_when_there_is_something(self, talk: Talk) -> None:
        found: list[bytes] = []
        waiting = threading.Thread(target=lambda: found.append(data_of(talk.read(wait_s=25))))
        waiting.start()
        talk.write(0, b"now")
        waiting.join(20)
        assert found == [b"now"]

    def test_bytes_that_are_sent_twice_are_taken_once_and_none_are_taken_behind_a_gap(self, talk: Talk) -> None:
        talk.write(0, b"abc")
        talk.write(0, b"abcdef")
        assert talk.write(9, b"xyz").json()["size"] == 6
        assert data_of(talk.read()) == b"abcdef"

    def test_a_slow_reader_fills_a_window_and_no_more(self, talk: Talk) -> None:
        sent = 0
        while sent < SHELL_WINDOW_BYTES:
            sent = talk.write(sent, b"x" * 60_000).json()["size"]
        assert sent == SHELL_WINDOW_BYTES
        answers: list[int] = []
        waiting = threading.Thread(target=lambda: answers.append(talk.write(sent, b"y" * 1000).json()["size"]))
        waiting.start()
        got = data_of(talk.read())
        talk.read(len(got))
        waiting.join(20)
        assert answers == [SHELL_WINDOW_BYTES + 1000]

    def test_the_terminals_size_reaches_the_agent_without_any_byte(self, talk: Talk) -> None:
        talk.type(0, b"", rows=60, cols=190)
        answer = ShellInputAnswer.from_dict(talk.listen(wait_s=20.0).json())
        assert (answer.rows, answer.cols, answer.data) == (60, 190, "")

    def test_the_end_of_the_input_comes_after_its_last_byte(self, talk: Talk) -> None:
        talk.type(0, b"last", over=True)
        answer = ShellInputAnswer.from_dict(talk.listen().json())
        assert (answer.data, answer.over) == (base64.b64encode(b"last").decode(), True)

    def test_its_end_is_told_when_all_of_its_output_is_read(self, talk: Talk) -> None:
        talk.write(0, b"bye")
        assert talk.end(exit_code=7).status_code == 200
        first, second = talk.read().json(), talk.read(3).json()
        assert (first["closed"], second["closed"], second["reason"], second["exit_code"]) == (False, True, "exited", 7)
        assert (talk.row.exit_code, talk.row.command) == (7, [])
        told = Event.objects.get(kind="shell.closed").data
        assert (told["reason"], told["exit_code"]) == ("exited", 7)

    @pytest.mark.parametrize(
        "body",
        [
            b"[]",
            b"{",
            b'{"start": -1}',
            b'{"start": true}',
            b'{"data": "*"}',
            b'{"data": 7}',
            b'{"rows": 0}',
            b'{"cols": "x"}',
            b'{"over": 1}',
            b'{"what": 1}',
            b"[" * 100_000,
        ],
    )
    def test_input_that_makes_no_sense_is_refused(self, talk: Talk, body: bytes) -> None:
        answer = talk.user.post(f"/api/v1/shells/{talk.id}/input", content=body)
        assert answer.status_code in {400, 422}, answer.text

    def test_a_body_that_is_too_large_is_refused(self, talk: Talk) -> None:
        assert talk.type(0, b"x" * 70_000).status_code == 422
        assert talk.type(0, b"x" * 200_000).status_code == 413
        assert talk.write(0, b"x" * 70_000).status_code == 422
        assert data_of(talk.read()) == b""


class TestWhoseItIs:
    def test_only_its_own_token_opens_it(
        self, server: str, talk: Talk, agent: Agent, http: httpx.Client, world: World
    ) -> None:
        other = Talk(server, agent, http, live_attempt_of(talk))
        for token in (other.document["token"], "msh_wrong", http.headers["Authorization"].split()[1]):
            for method, path in (("GET", "/output"), ("POST", "/input"), ("POST", ":close")):
                answer = httpx.request(
                    method, f"{server}/api/v1/shells/{talk.id}{path}", headers=bearer_of(token), json={}
                )
                assert answer.status_code == 404, (token, path)
        assert httpx.get(f"{server}/api/v1/shells/{talk.id}/output").status_code == 401
        assert talk.row.state == "open"

    def test_the_shells_token_opens_nothing_else(self, server: str, talk: Talk) -> None:
        assert talk.user.get("/api/v1/me").status_code == 401
        assert talk.user.get(f"/api/v1/jobs/{talk.document['job']}").status_code == 401

    def test_an_agent_of_another_node_finds_no_such_shell(self, server: str, talk: Talk, world: World) -> None:
        mine = ranks(live_attempt_of(talk))[0].node_id
        other = agent_of(server, next(node for node in world.nodes if node.pk != mine))
        with other.http:
            for act, message in calls_of(talk):
                assert talk.call(act, message, agent=other).status_code == 404, act
        assert talk.row.state == "open"

    def test_another_fence_or_an_old_epoch_is_refused(self, talk: Talk) -> None:
        fence = talk.fence
        talk.fence = fence + 1
        assert [talk.call(act, message).status_code for act, message in calls_of(talk)] == [409] * 4
        talk.fence = fence
        NodeLease.objects.filter(pk=ranks(live_attempt_of(talk))[0].node_id).update(epoch=talk.agent.epoch + 1)
        assert [talk.call(act, message).status_code for act, message in calls_of(talk)] == [409] * 4
        assert talk.row.state == "open"

    def test_a_wrong_credential_is_refused(self, talk: Talk) -> None:
        assert talk.open(secret="not-the-credential-of-anybody-at-all").status_code == 401

    def test_nothing_is_read_or_written_before_it_is_opened(
        self, server: str, agent: Agent, http: httpx.Client, running: Attempt
    ) -> None:
        talk = Talk(server, agent, http, running)
        assert (talk.write(0, b"x").status_code, talk.listen().status_code, talk.end().status_code) == (409, 409, 409)

    def test_the_same_run_of_the_agent_may_ask_again_and_gets_the_same(self, talk: Talk) -> None:
        again = ShellOpenAnswer.from_dict(talk.open().json())
        assert (again.term, again.rows, again.terminal) == ("xterm", 24, True)
        assert Event.objects.filter(kind="shell.open").count() == 1

    def test_the_next_run_of_the_agent_cannot_have_it_and_it_is_closed(self, talk: Talk) -> None:
        NodeLease.objects.filter(pk=ranks(live_attempt_of(talk))[0].node_id).update(epoch=talk.agent.epoch + 1)
        assert talk.open(epoch=talk.agent.epoch + 1).status_code == 409
        assert talk.row.reason == "agent_lost"
        assert wanted(agent_at(talk, talk.agent.epoch + 1)) == ()

    def test_a_closed_shell_is_wanted_no_more_and_takes_nothing(self, talk: Talk) -> None:
        assert wanted(talk.agent) != ()
        assert talk.user.post(f"/api/v1/shells/{talk.id}:close").json()["reason"] == "left"
        assert wanted(talk.agent) == ()
        assert (talk.write(0, b"x").status_code, talk.open().status_code) == (409, 409)
        assert talk.end(exit_code=0).status_code == 200
        assert closed(talk) == ("left", "left")


class TestEndsAtOnce:
    @pytest.fixture(autouse=True)
    def _only_announcements_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch, "LOOK_EVERY_S", 600.0)

    def test_a_shell_ends_when_its_token_is_revoked(self, talk: Talk, world: World) -> None:
        token = ApiToken.objects.get(user=world.user)
        revoking = threading.Timer(0.2, revoke_token, kwargs={"user": world.user, "token_id": token.pk})
        revoking.start()
        began_at = time.monotonic()
        assert talk.read(wait_s=20).json()["reason"] == "access_ended"
        assert time.monotonic() - began_at < stretched(2)


class TestEnds:
    def test_nothing_ends_a_shell_that_is_in_order(self, talk: Talk) -> None:
        assert sweep({talk.id: Silence()}).closed == {}
        assert talk.row.state == "open"

    def test_it_ends_when_its_job_is_told_to_stop(self, talk: Talk, world: World) -> None:
        cancel_job(user=world.user, job=live_attempt_of(talk).job)
        self._ends(talk, ShellReason.JOB_ENDED)

    def test_it_ends_when_the_switch_is_turned_off(self, talk: Talk, world: World) -> None:
        Pool.objects.filter(pk=world.pool.pk).update(shells=False)
        self._ends(talk, ShellReason.SWITCHED_OFF)

    def test_it_ends_when_its_user_is_disabled(self, talk: Talk, world: World) -> None:
        User.objects.filter(pk=world.user.pk).update(is_active=False)
        self._ends(talk, ShellReason.ACCESS_ENDED)

    def test_it_ends_when_its_user_leaves_the_tenant(self, talk: Talk, world: World) -> None:
        Membership.objects.filter(user=world.user).delete()
        self._ends(talk, ShellReason.ACCESS_ENDED)

    def test_a_managers_shell_ends_with_the_role(
        self, server: str, agent: Agent, running: Attempt, world: World
    ) -> None:
        user = make_user(tenant=world.tenant, role=Role.MANAGER)
        with client(server, user) as manager:
            talk = Talk(server, agent, manager, running)
            Membership.objects.filter(user=user).update(role=Role.MEMBER)
            self._ends(talk, ShellReason.ACCESS_ENDED)

    @pytest.mark.parametrize("change", ["revoked", "expired", "deleted"])
    def test_it_ends_with_the_token_that_asked_for_it(self, talk: Talk, world: World, change: str) -> None:
        tokens = ApiToken.objects.filter(user=world.user)
        if change == "revoked":
            tokens.update(revoked_at=timezone.now())
        elif change == "expired":
            tokens.update(expires_at=timezone.now() - timedelta(seconds=1))
        else:
            tokens.delete()
        self._ends(talk, ShellReason.ACCESS_ENDED)

    def test_it_ends_when_it_was_idle_for_too_long(self, talk: Talk, settings: Any) -> None:
        settings.SHELL_IDLE = timedelta(seconds=100)
        assert sweep({talk.id: Silence(bytes_s=99)}).closed == {}
        self._ends(talk, ShellReason.IDLE, Silence(bytes_s=101))

    def test_it_ends_when_it_lasted_for_too_long(self, talk: Talk, settings: Any) -> None:
        settings.SHELL_LONGEST = timedelta(hours=1)
        let_pass(3500, talk.row, "requested_at")
        assert sweep({talk.id: Silence()}).closed == {}
        let_pass(200, talk.row, "requested_at")
        self._ends(talk, ShellReason.TIME_LIMIT)

    def test_it_ends_when_its_user_or_its_agent_is_gone(self, talk: Talk, http: httpx.Client) -> None:
        assert sweep({talk.id: Silence(client_s=CLIENT_LOST_AFTER_S, agent_s=AGENT_LOST_AFTER_S)}).closed == {}
        self._ends(talk, ShellReason.CLIENT_LOST, Silence(client_s=CLIENT_LOST_AFTER_S + 1))

    def test_a_silent_agent_ends_it(self, talk: Talk) -> None:
        self._ends(talk, ShellReason.AGENT_LOST, Silence(agent_s=AGENT_LOST_AFTER_S + 1))

    def test_one_that_no_agent_opens_is_given_up(
        self, server: str, agent: Agent, http: httpx.Client, running: Attempt
    ) -> None:
        talk = Talk(server, agent, http, running)
        assert [shell.pk for shell in sweep({}).live] == [talk.id]
        let_pass(NOT_OPENED_AFTER.total_seconds() + 1, talk.row, "requested_at")
        self._ends(talk, ShellReason.NOT_OPENED)

    def test_the_end_of_the_attempt_ends_it_though_nobody_sweeps_for_it(self, talk: Talk) -> None:
        talk.agent.end(ranks(live_attempt_of(talk))[0])
        self._ends(talk, ShellReason.JOB_ENDED)

    def test_one_that_nobody_asks_for_after_a_start_of_the_web_process_is_given_up(self, talk: Talk) -> None:
        anew = Relays()
        assert anew.silences() == {}
        anew.take({}, sweep({}).live)
        assert list(anew.silences()) == [talk.id]
        anew.take({talk.id: Closed("client_lost", "", None)}, [])
        assert anew.silences() == {}

    def test_what_the_web_process_closes_by_itself_its_user_hears_of(self, talk: Talk, world: World) -> None:
        Pool.objects.filter(pk=world.pool.pk).update(shells=False)
        answer = talk.read(wait_s=25).json()
        assert (answer["closed"], answer["reason"]) == (True, "switched_off")

    def test_a_shell_that_could_not_be_started_says_why(self, talk: Talk) -> None:
        talk.end(ShellEnd.NOT_STARTED, detail="the job has ended")
        answer = talk.read().json()
        assert (answer["reason"], answer["detail"]) == ("not_started", "the job has ended")

    @staticmethod
    def _ends(talk: Talk, reason: ShellReason, silence: Silence | None = None) -> None:
        sweep({talk.id: silence or Silence()})
        assert closed(talk) == (reason, reason)
        assert now_of(talk.row).closed_at is not None


class TestWindow:
    """The window between a writer and a reader, when the process between them has forgotten all."""

    def test_a_new_window_takes_what_is_not_confirmed_from_where_it_is(self) -> None:
        window = Window()
        assert window.take(700) == b""
        window.begin(500)
        assert (window.end, window.acked) == (700, 700)
        assert window.put(650, b"x" * 60) == 10
        assert window.take(700) == b"x" * 10

    def test_a_reader_that_comes_after_the_writer_goes_on_where_it_was(self) -> None:
        window = Window()
        window.begin(500)
        assert window.put(500, b"0123456789") == 10
        assert window.take(505) == b"56789"

    def test_a_reader_that_has_more_than_the_writer_has_sent_again_misses_nothing_behind_it(self) -> None:
        window = Window()
        window.begin(500)
        window.put(500, b"01234")
        assert window.take(508) == b""
        assert window.put(500, b"0123456789") == 2
        assert window.take(508) == b"89"


def live_attempt_of(talk: Talk) -> Attempt:
    return live_attempt(Shell.objects.select_related("job").get(pk=talk.id).job)


def calls_of(talk: Talk) -> list[tuple[str, Any]]:
    """Each call that an agent makes of a shell."""
    epoch = talk.agent.epoch
    return [
        ("open", ShellOpenRequest(talk.fence, epoch)),
        ("output", ShellOutputRequest(talk.fence, epoch, 0, 0, "eA==")),
        ("input", ShellInputRequest(talk.fence, epoch, 0, 24, 80, 0.0)),
        ("end", ShellEndRequest(talk.fence, epoch, ShellEnd.EXITED, exit_code=0)),
    ]


def agent_at(talk: Talk, epoch: int) -> Agent:
    talk.agent.epoch = epoch
    return talk.agent
