"""Writing events: each in the transaction that it tells of, in the order in which they were recorded."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from muster.events import services
from muster.events.models import Event
from muster.events.services import record, recorded_together
from scheduler.model.lifecycle import JobState

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed")]

DATA: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "nothing": (None, {}),
    "text that is not ASCII, and quotes": ({"detail": 'fünf "GPUs" — 100 %s'}, {"detail": 'fünf "GPUs" — 100 %s'}),
    "a status": ({"state": JobState.QUEUED}, {"state": "queued"}),
    "lists and numbers": ({"nodes": ["a", "b"], "x": [0.5, None]}, {"nodes": ["a", "b"], "x": [0.5, None]}),
    "what is nested": ({"evidence": {"free": 2**40, 7: True}}, {"evidence": {"free": 2**40, "7": True}}),
}


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The channels on which something was told."""
    found: list[str] = []
    monkeypatch.setattr(services, "publish", found.append)
    return found


def current_transaction() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize(("data", "stored"), DATA.values(), ids=DATA)
def test_what_is_told_is_stored(data: dict[str, Any] | None, stored: dict[str, Any]) -> None:
    record("job.held", actor="scheduler", tenant_id=1, job_id=2, node_id=3, data=data)
    event = Event.objects.get()
    assert (event.kind, event.actor, event.tenant_id, event.job_id, event.node_id) == ("job.held", "scheduler", 1, 2, 3)
    assert event.data == stored


def test_what_is_not_named_is_null() -> None:
    record("pool.fell_back", actor="platform")
    event = Event.objects.get()
    assert (event.tenant_id, event.job_id, event.node_id) == (None, None, None)


def test_an_event_has_the_transaction_and_the_time_of_its_writing() -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            (before,) = cursor.fetchone()
        record("job.held", actor="scheduler")
        event = Event.objects.get()
        assert event.tx == current_transaction()
        assert event.at >= before


class TestRecordedTogether:
    def test_they_are_stored_in_one_statement_in_their_order(self, announced: list[str]) -> None:
        with transaction.atomic(), CaptureQueriesContext(connection) as queries, recorded_together():
            for number in range(1000):
                record("job.held", actor="scheduler", job_id=1000 - number, data={"number": number})
            assert not Event.objects.exists()
        assert len([query for query in queries if "EXECUTE" in query["sql"]]) == 1
        stored = Event.objects.order_by("tx", "id").values_list("data__number", flat=True)
        assert list(stored) == list(range(1000))
        assert len(announced) == 1

    def test_an_inner_one_adds_to_the_outer_one(self) -> None:
        with transaction.atomic(), recorded_together():
            record("first", actor="scheduler")
            with recorded_together():
                record("second", actor="scheduler")
            assert not Event.objects.exists()
        assert list(Event.objects.order_by("id").values_list("kind", flat=True)) == ["first", "second"]

    def test_nothing_is_stored_or_announced_of_what_failed(self, announced: list[str]) -> None:
        def fail() -> None:
            with transaction.atomic(), recorded_together():
                record("job.held", actor="scheduler")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        record("after", actor="scheduler")
        assert list(Event.objects.values_list("kind", flat=True)) == ["after"]
        assert len(announced) == 1

    def test_where_nothing_was_recorded_nothing_is_announced(self, announced: list[str]) -> None:
        with transaction.atomic(), recorded_together():
            pass
        assert announced == []
