"""The clocks of the worker `default`: each task in its period, by one worker of a database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from muster.celery import celery_app
from muster.common.periodic import Clock, conditions_of
from muster.events.models import Outbox
from muster.events.services import record
from muster.links.models import Server
from muster.notices.tasks import read_events
from muster.predictions.tasks import read_waits
from muster.sweeps.services import submit_sweep
from muster.usage.tasks import grade
from tests.db.stories import make_world, until_settled
from tests.factories import make_node
from tests.waiting import eventually

NUMBER = 99
AT_ONCE = timedelta(0)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def clock(done: list[str]) -> Iterator[Clock]:
    yield started({"look": AT_ONCE}, done.append)
    connection.close()  # and with it the lock


def started(
    periods: dict[str, timedelta], do: Callable[[str], object], conditions: Mapping[str, str] | None = None
) -> Clock:
    """A clock whose thread is this one: it is asked for turns, and ends with the first wait."""
    clock = Clock(NUMBER, periods, do, conditions)
    clock.stop()
    clock.run()
    return clock


def test_every_task_exists() -> None:
    names = [name for periods in settings.PERIODIC_TASKS for name in periods]
    assert len(set(names)) == len(names)
    celery_app.loader.import_default_modules()
    assert set(names) <= set(celery_app.tasks)


def test_a_task_is_done_when_it_is_due_and_then_a_period_later(done: list[str]) -> None:
    clock = started({"often": AT_ONCE, "seldom": timedelta(hours=1)}, done.append)
    clock.turn()
    assert clock.turn() == 0.0
    assert "seldom" not in done
    assert set(done) == {"often"}
    only = started({"soon": timedelta(seconds=30), "seldom": timedelta(hours=1)}, done.append)
    assert 25 < only.turn() <= 30


def test_a_task_with_a_condition_is_done_only_while_that_holds(done: list[str]) -> None:
    mail = "EXISTS (SELECT FROM events_outbox)"
    periods = {"always": AT_ONCE, "mail": AT_ONCE, "never": AT_ONCE}
    clock = started(periods, done.append, {"mail": mail, "never": "false"})
    assert done == ["always"]
    Outbox.objects.create(topic="mail", payload={})
    clock.turn()
    assert done == ["always", "always", "mail"]


def mail_waits() -> None:
    Outbox.objects.create(topic="mail", payload={})


def webhook_waits() -> None:
    Outbox.objects.create(topic="webhook", payload={})


def event_comes() -> None:
    record("node.ready", actor="olga")


def server_wants_its_agent() -> None:
    Server.objects.create(node=make_node(), host="gpu7.example.org", user="muster", sealed_key="", public_key="")


def sweep_begins() -> None:
    world = make_world()
    search = {"method": "random", "metric": "loss", "params": {"lr": {"log": [1e-5, 0.1]}}, "members": 1}
    submit_sweep(
        user=world.user, data={"command": "true", "gpus": 1, "vc": world.vc.name, "sweep": {**search, "parallel": 1}}
    )
    until_settled()
    read_events()
    grade()
    read_waits()


@pytest.mark.parametrize(
    ("happens", "tasks"),
    [
        (mail_waits, {"events.deliver"}),
        (webhook_waits, {"notices.deliver_webhooks"}),
        (event_comes, {"notices.read_events", "usage.grade", "predictions.read_waits"}),
        (server_wants_its_agent, {"links.sweep"}),
        (sweep_begins, {"sweeps.look", "predictions.run_forward"}),
    ],
)
def test_the_condition_of_a_task_holds_when_there_is_something_to_do(
    happens: Callable[[], None], tasks: set[str]
) -> None:
    celery_app.loader.import_default_modules()
    conditions = conditions_of(name for periods in settings.PERIODIC_TASKS for name in periods)

    def with_work() -> set[str]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(conditions.values())}")
            return {name for name, holds in zip(conditions, cursor.fetchone(), strict=True) if holds}

    event_comes()
    until_settled()
    read_events()
    grade()
    read_waits()
    assert with_work() == set()
    happens()
    until_settled()
    assert with_work() == tasks


def test_one_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def do(name: str) -> None:
        done.append(name)
        if name == "bad":
            raise ValueError(name)

    started({"bad": AT_ONCE, "good": AT_ONCE}, do)
    assert done[:2] == ["bad", "good"]
    assert "task_failed name=bad" in caplog.text


def test_only_one_worker_does_them_until_it_has_gone(clock: Clock, done: list[str]) -> None:
    connection.close()
    clock.turn()
    count, others = len(done), list[str]()

    def other_worker() -> None:
        started({"look": AT_ONCE}, others.append)

    def at_the_same_time() -> list[str]:
        thread = threading.Thread(target=other_worker)
        thread.start()
        thread.join()
        return others

    assert at_the_same_time() == []
    connection.close()  # as when the worker ends, or Postgres ends its session
    eventually(lambda: at_the_same_time() != [])

    def goes_on() -> bool:
        clock.turn()
        return len(done) > count

    eventually(goes_on)  # the other one has gone again
