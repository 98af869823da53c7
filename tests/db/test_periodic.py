"""The clocks of the worker `default`: each task in its period, by one worker of a database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from muster.celery import celery_app
from muster.common.periodic import Clock
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


def started(periods: dict[str, timedelta], do: Callable[[str], object]) -> Clock:
    """A clock whose thread is this one: it is asked for turns, and ends with the first wait."""
    clock = Clock(NUMBER, periods, do)
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
