"""Several items in one call: each has its own outcome, its own fence and its own failure, and waits for no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from muster.agents import batches, services
from muster.events.models import AuditEntry
from muster.fleet.leases import node_of_credential
from muster.fleet.models import NodeLease
from muster.jobs.attempt.gangs import Held
from muster.jobs.models import Allocation, Job
from muster.logs.models import LogFile
from muster.logs.store import read
from nodeagent.protocol.messages import (
    AGAIN,
    MAX_BATCH_ITEMS,
    BatchItem,
    EndReason,
    EndRequest,
)
from scheduler.model.lifecycle import AllocationState, JobState
from tests.db.agent_calls import Agent, agent_of
from tests.db.stories import WAIT_S, Other, World, make_world, now_of, place, ranks, start, states, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]

TEXT = b"hello\nworld\n"


@pytest.fixture
def world() -> World:
    return make_world(gpus=8)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, what is done alone is waited for."""
    monkeypatch.setattr(batches, "PATIENCE_S", WAIT_S)


@pytest.fixture
def agent(server: str, world: World) -> Iterator[Agent]:
    agent = agent_of(server, world.nodes[0])
    yield agent
    agent.http.close()


def placed(world: World) -> Allocation:
    (allocation,) = ranks(place(world, gpus=1))
    return allocation


def running(world: World) -> Allocation:
    (allocation,) = ranks(start(world, gpus=1))
    return allocation


def statuses(agent: Agent, *items: BatchItem) -> list[int]:
    return [outcome.status for outcome in agent.say(*items)]


@contextmanager
def job_held(allocation: Allocation) -> Iterator[None]:
    """Another transaction has the job locked, as an applier has for a moment."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT FROM jobs_job WHERE id = %s FOR NO KEY UPDATE", [allocation.attempt.job_id])
        yield


def state_of(allocation: Allocation) -> str:
    state: str = now_of(allocation).state
    return state


class TestOutcomes:
    def test_each_item_is_answered_as_its_own_call(self, agent: Agent, world: World) -> None:
        new, over = placed(world), running(world)
        claimed, closed, ended = agent.say(agent.claim_item(new), agent.finish_item(over, TEXT), agent.end_item(over))
        assert (claimed.status, closed.status, ended.status) == (200, 200, 200)
        assert claimed.launch is not None
        assert claimed.launch.to_dict() == agent.launch(new).to_dict()
        assert (state_of(new), state_of(over)) == (AllocationState.ACTIVE, AllocationState.RELEASED)
        assert states(over.attempt.job)[0] == JobState.SUCCEEDED
        log = LogFile.objects.get(pk=over.pk)
        assert (log.size, log.complete, log.finished_at is not None) == (len(TEXT), True, True)
        log.allocation.log_file = log
        assert read(log.allocation, start=0, end=len(TEXT)) == TEXT

    def test_a_batch_that_is_sent_again_changes_nothing(self, agent: Agent, world: World) -> None:
        new, over = placed(world), running(world)
        items = agent.claim_item(new), agent.finish_item(over, TEXT), agent.end_item(over)
        first = agent.say(*items)
        before = now_of(over).ended_at
        assert agent.say(*items) == first
        assert now_of(over).ended_at == before

    def test_an_item_that_is_refused_leaves_the_others(self, agent: Agent, world: World) -> None:
        one, other, over = placed(world), placed(world), running(world)
        stranger = BatchItem(4711, end=EndRequest(1, agent.boot_id, agent.state_id, EndReason.COMPLETED))
        items = (
            agent.claim_item(one, fence=one.attempt_id - 1),
            agent.end_item(over, fence=over.attempt_id - 1),
            agent.finish_item(over, TEXT, fence=over.attempt_id - 1),
            stranger,
            agent.claim_item(other),
            agent.finish_item(over, TEXT),
            agent.end_item(over),
        )
        assert statuses(agent, *items) == [409, 409, 409, 404, 200, 200, 200]
        assert state_of(one) == AllocationState.RESERVED
        entry = AuditEntry.objects.get(action="refused_claim")
        assert (entry.object_id, entry.after and entry.after["status"]) == (str(one.pk), 409)

    def test_an_item_that_cannot_be_read_leaves_the_others(self, agent: Agent, world: World) -> None:
        over = running(world)
        good = agent.end_item(over).to_dict()
        wrong = [{"id": over.pk}, {**good, "claim": agent.claim_item(over).to_dict()["claim"]}, {"id": "x"}, 7]
        headers = {"Authorization": f"Bearer {agent.secret}"}
        answer = agent.http.post("/agent/v1/batch", json={"items": [*wrong, good]}, headers=headers)
        assert [one["status"] for one in answer.json()["outcomes"]] == [422, 422, 422, 422, 200]

    @pytest.mark.parametrize("body", [{}, [], {"items": 1}, {"items": [{}] * (MAX_BATCH_ITEMS + 1)}])
    def test_what_is_no_batch_is_refused_whole(self, agent: Agent, body: object) -> None:
        headers = {"Authorization": f"Bearer {agent.secret}"}
        assert agent.http.post("/agent/v1/batch", json=body, headers=headers).status_code == 422

    def test_an_unknown_credential_applies_nothing(self, agent: Agent, world: World) -> None:
        over = running(world)
        agent.secret = "a-credential-that-is-not-that-of-any-node"
        assert agent.batch(agent.end_item(over)).status_code == 401
        assert state_of(over) == AllocationState.ACTIVE

    def test_an_allocation_of_another_node_is_not_there(self, server: str) -> None:
        world = make_world(nodes=2, gpus=1)
        one, other = running(world), running(world)
        agent = agent_of(server, one.node)
        assert statuses(agent, agent.end_item(other), agent.finish_item(other, TEXT), agent.end_item(one)) == [
            404,
            404,
            200,
        ]
        assert state_of(other) == AllocationState.ACTIVE
        agent.http.close()

    @pytest.mark.usefixtures("patient")
    def test_an_end_that_failed_is_applied_with_its_log(self, agent: Agent, world: World) -> None:
        over = running(world)
        end = agent.end_item(over, EndReason.EXIT_NONZERO, exit_code=3, tail="boom\n")
        assert statuses(agent, agent.finish_item(over, TEXT), end) == [200, 200]
        assert (now_of(over).exit_code, states(over.attempt.job)[0]) == (3, JobState.FAILED)


class TestLogs:
    def test_a_rest_behind_the_end_leaves_the_log_open(self, agent: Agent, world: World) -> None:
        over = running(world)
        agent.log(over, 0, TEXT[:2])
        (gap,) = agent.say(agent.finish_item(over, TEXT, TEXT[6:]))
        assert (gap.status, gap.size) == (416, 2)
        assert LogFile.objects.get(pk=over.pk).finished_at is None
        assert statuses(agent, agent.finish_item(over, TEXT, TEXT[2:])) == [200]
        assert LogFile.objects.get(pk=over.pk).complete

    def test_a_rest_of_other_bytes_is_refused(self, agent: Agent, world: World) -> None:
        over = running(world)
        agent.log(over, 0, TEXT)
        assert statuses(agent, agent.finish_item(over, b"HELLO\nWORLD\n")) == [409]

    @pytest.mark.parametrize("rest", ["%%%", "YQ", "YQ==" * 2])
    def test_a_rest_that_is_no_base64_is_refused(self, agent: Agent, world: World, rest: str) -> None:
        assert statuses(agent, agent.finish_item(running(world), TEXT, rest=rest)) == [422]


class TestClaims:
    def test_a_superseded_epoch_claims_nothing_and_the_end_is_taken(self, agent: Agent, world: World) -> None:
        new, over = placed(world), running(world)
        assert statuses(agent, agent.claim_item(new, epoch=agent.epoch - 1), agent.end_item(over)) == [409, 200]
        assert state_of(new) == AllocationState.RESERVED

    def test_a_registration_that_comes_first_refuses_all_claims_and_no_end(self, agent: Agent, world: World) -> None:
        """The epoch is held under its lock: what was read with the credential may be old by then."""
        one, other, over = placed(world), placed(world), running(world)
        node = node_of_credential(agent.secret)
        NodeLease.objects.filter(pk=node.pk).update(epoch=node.lease.epoch + 1)
        items = {0: agent.claim_item(one), 1: agent.claim_item(other), 2: agent.end_item(over)}
        assert {at: one.status for at, one in batches.apply_together(node, items).items()} == {0: 409, 1: 409, 2: 200}
        assert (state_of(one), state_of(other)) == (AllocationState.RESERVED, AllocationState.RESERVED)
        assert state_of(over) == AllocationState.RELEASED


class TestWaiting:
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("patient")
    def test_jobs_that_others_wait_for_end_one_by_one_so_that_no_batch_locks_those_out_of_order(
        self, agent: Agent, world: World
    ) -> None:
        first, second = running(world), running(world)
        early, late = (submit(world, after=[f"{one.attempt.job_id}:any"]) for one in (first, second))
        node, items = node_of_credential(agent.secret), {0: agent.end_item(second), 1: agent.end_item(first)}
        with transaction.atomic():
            # As a user does who holds both: by primary key.
            Job.objects.select_for_update(no_key=True).get(pk=early.pk)
            assert Other(partial(batches.apply_together, node, items)).result() == {}
            Job.objects.select_for_update(no_key=True).get(pk=late.pk)
        assert statuses(agent, *items.values()) == [200, 200]
        assert not Job.objects.filter(pk__in=[early.pk, late.pk], blocked_by__gt=0).exists()

    @pytest.mark.django_db(transaction=True)
    def test_an_item_whose_job_is_locked_delays_no_other(self, agent: Agent, world: World) -> None:
        held, new, over = running(world), placed(world), running(world)
        items = agent.end_item(held), agent.claim_item(new), agent.end_item(over)
        with job_held(held):
            assert Other(lambda: statuses(agent, *items)).result() == [AGAIN, 200, 200]
            # It still waits, and sent again it does not wait twice.
            assert statuses(agent, items[0]) == [AGAIN]
            assert len(batches._under_way) == 1
        until_done(agent, items[0])
        assert state_of(held) == AllocationState.RELEASED

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("patient")
    def test_an_item_that_waits_for_a_moment_is_answered_at_once(self, agent: Agent, world: World) -> None:
        held = placed(world)
        with job_held(held):
            waiting = Other(lambda: statuses(agent, agent.claim_item(held)))
            assert waiting.is_alive()
        assert waiting.result() == [200]

    @pytest.mark.usefixtures("patient")
    def test_where_the_database_refuses_one_the_others_are_done_alone(
        self, agent: Agent, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad, good = running(world), running(world)
        real = services.end

        def end(node: Any, allocation_id: int, request: EndRequest, *, held: Held) -> None:
            if allocation_id == bad.pk:
                raise DatabaseError("deadlock detected")
            real(node, allocation_id, request, held=held)

        monkeypatch.setattr(services, "end", end)
        assert statuses(agent, agent.end_item(bad), agent.end_item(good)) == [500, 200]
        assert (state_of(bad), state_of(good)) == (AllocationState.ACTIVE, AllocationState.RELEASED)


def until_done(agent: Agent, item: BatchItem) -> None:
    for _ in range(int(WAIT_S / batches.PATIENCE_S)):
        (status,) = statuses(agent, item)
        if status != AGAIN:
            assert status == 200
            return
    raise AssertionError("it still waits")
