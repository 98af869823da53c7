"""Operators' rules on what jobs print: found as it is stored, acted upon once, and written with care."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from muster.common.errors import Conflict, Invalid
from muster.events.models import AuditEntry, Event, Outbox
from muster.failures import log_watch, selectors
from muster.failures.models import LogMatch, LogRuleBook
from muster.failures.selectors import text_in_force
from muster.failures.services import draft, put_into_force
from muster.fleet.models import Strike
from muster.jobs.models import Allocation, Attempt, ExcludedNode, Job
from muster.logs.store import Chunk, append
from scheduler.model.reasons import Reason
from tests.db.agent_calls import Agent
from tests.db.stories import World, end, make_world, ranks, start

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_rule_is_remembered")]


@pytest.fixture
def world(db: None) -> World:
    return make_world(nodes=2)


def rule(*actions: str, match: str = "NCCL WARN .*timeout", **more: str) -> str:
    line = more.pop("line", "NCCL WARN a timeout")
    fields = "".join(f", {name}: '{value}'" for name, value in more.items())
    return f"hang: {{match: '{match}', line: '{line}', actions: [{', '.join(actions)}]{fields}}}\n"


def in_force(text: str) -> LogRuleBook:
    book = draft(LogRuleBook, text=text, note="", actor="olga")
    put_into_force(book, actor="olga")
    selectors.forget_log_rules()
    return book


def prints(allocation: Allocation, *chunks: bytes) -> None:
    """Store the chunks as the endpoint does, and look at each."""
    offset = 0
    for chunk in chunks:
        append(allocation, Chunk(offset, chunk, crc32(chunk)))
        log_watch.look_at(allocation, start=offset, body=chunk)
        offset += len(chunk)


def rank_of(attempt: Attempt) -> Allocation:
    (allocation,) = ranks(attempt)
    return Allocation.objects.select_related("attempt__job__pool", "node").get(pk=allocation.pk)


class TestFound:
    def test_without_rules_nothing_is_read(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_watch, "read", None)
        prints(rank_of(start(world)), b"NCCL WARN a timeout\n")
        assert not LogMatch.objects.exists()

    def test_after_whole_lines_nothing_is_read_back(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        in_force(rule("notify_owner"))
        allocation = rank_of(start(world))
        monkeypatch.setattr(log_watch, "read", None)
        prints(allocation, b"step 1\n", b"step 2\n" * 9000, b"bar 1 %\r", b"NCCL WARN a timeout\n")
        assert LogMatch.objects.get().line == "NCCL WARN a timeout"

    def test_of_what_came_before_no_more_is_read_back_than_a_line_may_have(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_force(rule("notify_owner"))
        allocation = rank_of(start(world))
        asked: list[tuple[int, int]] = []
        read = log_watch.read

        def noted(allocation: Allocation, *, start: int, end: int) -> bytes:
            asked.append((start, end))
            return read(allocation, start=start, end=end)

        monkeypatch.setattr(log_watch, "read", noted)
        prints(allocation, b"step 1\n" * 10_000 + b"NCCL WARN a tim", b"eout\n")
        assert asked == [(70_015 - 4096, 70_015)]
        assert LogMatch.objects.get().line == "NCCL WARN a timeout"

    def test_a_line_is_found_once_a_job_and_is_the_evidence(self, world: World) -> None:
        in_force(rule("notify_owner"))
        attempt = start(world)
        prints(rank_of(attempt), b"step 1\n", b"n1: NCCL WARN a timeout\nNCCL WARN b timeout\n", b"NCCL WARN timeout\n")
        (match,) = LogMatch.objects.all()
        assert (match.rule, match.line, match.actions) == ("hang", "n1: NCCL WARN a timeout", ["notify_owner"])
        (event,) = Event.objects.filter(job_id=attempt.job_id, kind="job.log_rule")
        assert (event.data["rule"], event.data["detail"], event.data["tells_owner"]) == (
            "hang",
            "n1: NCCL WARN a timeout",
            True,
        )
        log_watch.forget_meetings()
        prints(rank_of(attempt), b"step 1\n")
        log_watch.look_at(rank_of_stored(attempt), start=7, body=b"n1: NCCL WARN a timeout\n")
        assert Event.objects.filter(kind="job.log_rule").count() == 1, "another process finds it in the database"

    @pytest.mark.parametrize("cut", range(1, 20))
    def test_a_line_that_chunks_share_is_found(self, world: World, cut: int) -> None:
        in_force(rule("notify_owner"))
        line = b"NCCL WARN a timeout\n"
        prints(rank_of(start(world)), b"before\n" + line[:cut], line[cut:])
        assert LogMatch.objects.get().line == "NCCL WARN a timeout"

    def test_half_a_line_waits_for_what_rules_it_out(self, world: World) -> None:
        in_force(rule("notify_owner", unless="simulated"))
        prints(rank_of(start(world)), b"NCCL WARN a timeout", b" that was simulated\n")
        assert not LogMatch.objects.exists()

    def test_of_a_line_without_end_each_part_is_looked_at(self, world: World) -> None:
        in_force(rule("notify_owner"))
        prints(rank_of(start(world)), *(b"x" * 65_536 for _ in range(5)), b"NCCL WARN a tim", b"eout" + b"y" * 60_000)
        assert "NCCL WARN a timeout" in LogMatch.objects.get().line

    def test_a_job_that_prints_it_a_million_times_is_asked_about_once(
        self, world: World, django_assert_num_queries: Any
    ) -> None:
        in_force(rule("notify_owner"))
        allocation = rank_of(start(world))
        many = b"NCCL WARN a timeout\n" * 3000
        prints(allocation, many)
        append(allocation, Chunk(len(many), many, crc32(many)))
        with django_assert_num_queries(0):
            log_watch.look_at(allocation, start=len(many), body=many)
        assert LogMatch.objects.count() == 1

    @pytest.mark.parametrize(("scope", "found"), [("own", 1), ("other", 0)])
    @pytest.mark.parametrize("kind", ["pool", "tenant"])
    def test_a_rule_may_be_for_a_pool_or_a_tenant(self, world: World, kind: str, scope: str, found: int) -> None:
        other = make_world()
        whose = world if scope == "own" else other
        name = whose.pool.name if kind == "pool" else whose.vc.tenant.name
        in_force(rule("notify_owner", **{kind: name}))
        prints(rank_of(start(world)), b"NCCL WARN a timeout\n")
        assert LogMatch.objects.count() == found


def rank_of_stored(attempt: Attempt) -> Allocation:
    return Allocation.objects.select_related("attempt__job__pool", "node", "log_file").get(attempt=attempt, rank=0)


class TestActions:
    def test_cancel_stops_the_job_and_it_is_not_tried_again(self, world: World) -> None:
        in_force(rule("cancel"))
        attempt = start(world, retry={"max": 5, "on": ["anything"]})
        prints(rank_of(attempt), b"NCCL WARN a timeout\n")
        attempt.refresh_from_db()
        assert (attempt.state, attempt.reason) == ("stopping", "log_rule")
        (allocation,) = ranks(attempt)
        end(allocation, reason=Reason.KILLED_BY_SIGNAL, exit_code=143)
        job = Job.objects.get(pk=attempt.job_id)
        assert (job.state, job.reason) == ("failed", "log_rule")
        assert job.reason_detail == "rule hang: NCCL WARN a timeout"

    def test_a_log_that_comes_after_the_end_keeps_the_job_from_another_try(self, world: World) -> None:
        in_force(rule("cancel"))
        attempt = start(world, retry={"max": 5, "on": ["anything"]})
        (allocation,) = ranks(attempt)
        end(allocation, reason=Reason.EXIT_NONZERO)
        assert Job.objects.get(pk=attempt.job_id).state == "queued"
        prints(rank_of(attempt), b"NCCL WARN a timeout\n")
        job = Job.objects.get(pk=attempt.job_id)
        assert (job.state, job.reason) == ("failed", "log_rule")

    def test_an_excluded_node_stays_excluded_whatever_fails_next(self, world: World) -> None:
        in_force(rule("exclude_node", "strike"))
        attempt = start(world, retry={"max": 5, "on": ["anything"]})
        allocation = rank_of(attempt)
        prints(allocation, b"NCCL WARN a timeout\n")
        job = Job.objects.get(pk=attempt.job_id)
        assert (job.state, job.avoid_nodes) == ("active", [allocation.node_id])
        assert ExcludedNode.objects.get(job=job).node_id == allocation.node_id
        assert Strike.objects.get(node=allocation.node).reason == "told_by_jobs"
        end(allocation, reason=Reason.AGENT_STOPPED, exit_code=1)
        assert allocation.node_id in Job.objects.get(pk=job.pk).avoid_nodes

    def test_operators_are_told_by_mail(self, world: World, settings: Any) -> None:
        settings.OPERATORS_MAIL = ["ops@example.org"]
        in_force(rule("notify_operators"))
        attempt = start(world)
        prints(rank_of(attempt), b"NCCL WARN a timeout\n")
        (mail,) = [row.payload for row in Outbox.objects.filter(topic="mail")]
        assert mail["subject"] == f"Rule hang met job {attempt.job_id}"
        assert "NCCL WARN a timeout" in mail["body"]
        (event,) = Event.objects.filter(kind="job.log_rule")
        assert event.data["tells_owner"] is False


class TestBook:
    def test_versions_are_audited_and_the_last_one_put_into_force_counts(self, world: World) -> None:
        first, second = in_force(rule("cancel")), in_force("")
        assert text_in_force(LogRuleBook) == ""
        put_into_force(first, actor="olga")
        selectors.forget_log_rules()
        assert [one.name for one in selectors.log_rules_in_force().rules] == ["hang"]
        with pytest.raises(Conflict, match="in force already"):
            put_into_force(first, actor="olga")
        acts = AuditEntry.objects.filter(object_type="log_rules").order_by("pk")
        assert [(one.action, one.object_id) for one in acts] == [
            ("create", str(first.pk)),
            ("put_into_force", str(first.pk)),
            ("create", str(second.pk)),
            ("put_into_force", str(second.pk)),
            ("put_into_force", str(first.pk)),
        ]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (rule("cancel", match="(a"), "match: is not a valid pattern"),
            (rule("cancel", pool="nowhere"), "there is no pool 'nowhere'"),
            (rule("cancel", tenant="absent"), "there is no tenant 'absent'"),
        ],
    )
    def test_what_is_wrong_is_refused_and_nothing_is_stored(self, world: World, text: str, said: str) -> None:
        with pytest.raises(Invalid) as error:
            draft(LogRuleBook, text=text, note="", actor="olga")
        assert said in error.value.errors[0].message
        assert not LogRuleBook.objects.exists()

    def test_a_version_is_previewed_on_past_failures(self, world: World) -> None:
        attempt = start(world, retry={"max": 0, "on": []})
        allocation = rank_of(attempt)
        prints(allocation, b"NCCL WARN a timeout\n")
        end(allocation, reason=Reason.EXIT_NONZERO, tail="NCCL WARN a timeout\n")
        book = draft(LogRuleBook, text=rule("cancel"), note="", actor="olga")
        assert (book.preview["tried"], book.preview["met"]) == (1, 1)
        assert book.preview["matches"][0]["line"] == "NCCL WARN a timeout"
        assert Job.objects.get(pk=attempt.job_id).reason == "exit_nonzero", "trying does nothing"


@pytest.mark.django_db(transaction=True)
def test_the_endpoint_looks_at_what_agents_send_and_at_the_end_of_a_log(agent: Agent, world: World) -> None:
    in_force(rule("notify_owner"))
    attempt = start(world)
    (allocation,) = ranks(attempt)
    assert agent.log(allocation, 0, b"step 1\nNCCL WARN a timeout").status_code == 202
    assert not LogMatch.objects.exists(), "it is half a line yet"
    assert agent.finish(allocation, 27, "").status == 200
    assert LogMatch.objects.get().line == "NCCL WARN a timeout"
