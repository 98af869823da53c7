"""Statements and transactions of each part of a job's life, in the web process and in a cycle.

The figures are exact, so that what makes a job cheaper lowers them in the same commit. Transactions are those that
Postgres begins and ends: a statement outside of a transaction is one by itself.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper

from muster import asgi
from muster.dispatch.snapshot import kept
from muster.failures import selectors as failures
from muster.fleet import leases
from muster.jobs.models import Allocation, Job
from nodeagent.protocol.messages import AllocationReport, Observed
from scheduler.model.lifecycle import JobState
from tests.db.agent_calls import Agent
from tests.db.stories import World, cycle, now_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

# Of each part: statements, transactions.
COSTS = {
    # One of them reads the share of the pool's nodes, for CPUs and memory that the spec leaves out.
    "submission": (8, 6),
    "cycle": (27, 8),
    "sync": (2, 2),
    "claim": (6, 4),
    "running": (4, 3),
    "log": (4, 2),
    "end": (7, 3),
    "cycle after the end": (3, 3),
}
ENDS_AT_ONCE = {"end": (9, 3)}
"""The end of a job of whose start its agent told nothing, because it was over by then; its log comes with it."""

LINE = b"done\n"


@dataclass(slots=True)
class Counts:
    """Statements of this process's threads to the database, by the part of a job's life."""

    statements: dict[str, list[str]] = field(default_factory=dict)
    transactions: Counter[str] = field(default_factory=Counter)
    part: str = ""

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count to this part what is sent within it."""
        self.part = part
        self.statements[part] = []
        yield
        self.part = ""

    def costs(self) -> dict[str, tuple[int, int]]:
        """The statements and transactions of each part."""
        return {part: (len(sent), self.transactions[part]) for part, sent in self.statements.items()}

    def told(self, parts: Iterable[str]) -> str:
        """The statements of these parts."""
        return "\n".join(f"{part}: {' '.join(sql.split())}" for part in parts for sql in self.statements[part])


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    counts, lock = Counts(), threading.Lock()
    execute, commit, is_usable = CursorWrapper._execute, DatabaseWrapper._commit, DatabaseWrapper.is_usable
    tick = leases._TICK._execute

    def count(sql: str, *, transactions: int) -> None:
        with lock:
            if counts.part:
                counts.statements[counts.part] += [sql] if sql else []
                counts.transactions[counts.part] += transactions

    def counting(self: CursorWrapper, sql: Any, *args: Any) -> Any:
        if str(sql) != tick:
            count(str(sql), transactions=int(not self.db.in_atomic_block))
        return execute(self, sql, *args)

    def committing(self: DatabaseWrapper) -> Any:
        count("", transactions=1)
        return commit(self)

    def asking(self: DatabaseWrapper) -> Any:
        count("SELECT 1", transactions=1)
        return is_usable(self)

    monkeypatch.setattr(CursorWrapper, "_execute", counting)
    monkeypatch.setattr(DatabaseWrapper, "_commit", committing)
    monkeypatch.setattr(DatabaseWrapper, "is_usable", asking)
    # The web process says every few seconds that it answers, whatever it is asked. One under way is not counted.
    monkeypatch.setattr(asgi, "tick", lambda name: name)
    # And it looks every few seconds which log rules are in force.
    monkeypatch.setattr(failures, "LOG_RULES_KEPT_S", 3600.0)
    # A thread of the web process that connects makes the next cycle read all rows, which says nothing of a job.
    connection_created.disconnect(kept.forget)
    yield counts
    connection_created.connect(kept.forget)
    failures.forget_log_rules()


def live(world: World, http: httpx.Client, agent: Agent, counts: Counts, *, told_of_start: bool) -> None:
    """Take a job that prints a line through its whole life."""
    with counts.of("submission"):
        answer = http.post("/api/v1/jobs", json={"command": "true", "gpus": 1, "vc": world.vc.name})
        assert answer.status_code == 201, answer.text
    job = Job.objects.get(pk=answer.json()["id"])
    with counts.of("cycle"):
        assert len(cycle(world).applied.started) == 1
    allocation = Allocation.objects.get(attempt__job=job)
    with counts.of("sync"):
        assert [one.id for one in agent.desired()] == [allocation.pk]
    with counts.of("claim"):
        (claimed,) = agent.say(agent.claim_item(allocation))
    assert claimed.launch is not None
    if told_of_start:
        report = AllocationReport(allocation.pk, allocation.attempt_id, Observed.RUNNING)
        with counts.of("running"):
            assert agent.sync(allocations=(report,)).status_code == 200
        with counts.of("log"):
            assert agent.log(allocation, 0, LINE).status_code == 202
    rest = b"" if told_of_start else LINE
    with counts.of("end"):
        outcomes = agent.say(agent.finish_item(allocation, LINE, rest), agent.end_item(allocation))
    assert [outcome.status for outcome in outcomes] == [200, 200]
    with counts.of("cycle after the end"):
        cycle(world)
    assert now_of(job).state == JobState.SUCCEEDED


@pytest.mark.parametrize("told_of_start", [True, False])
def test_what_a_job_costs(world: World, http: httpx.Client, agent: Agent, counts: Counts, told_of_start: bool) -> None:
    # The first one pays for what a process reads once.
    live(world, http, agent, counts, told_of_start=told_of_start)
    counts.transactions.clear()
    live(world, http, agent, counts, told_of_start=told_of_start)
    costs = counts.costs()
    expected = dict(COSTS)
    if not told_of_start:
        del expected["running"], expected["log"]
        expected |= ENDS_AT_ONCE
    assert costs == expected, counts.told(part for part in costs if costs[part] != expected[part])
