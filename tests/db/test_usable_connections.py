"""Detection that Postgres has ended a session, without a statement for it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
from celery import Task
from celery.fixups.django import DjangoWorkerFixup
from celery.signals import task_postrun, task_prerun
from django.db import close_old_connections, connection
from django.test.utils import CaptureQueriesContext

from muster.celery import celery_app
from muster.dispatch.tasks import run_cycle
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid: int = cursor.fetchone()[0]
    return pid


def end(pid: int) -> None:
    """End the session, and return once this process can know it."""
    other = psycopg2.connect(**connection.get_connection_params())
    with other, other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    other.close()
    eventually(lambda: not connection.is_usable())


@pytest.fixture
def task() -> Iterator[Task]:
    """A task as Celery's worker runs it, with what Celery does to Django's connections before and after each."""
    fixup = DjangoWorkerFixup(celery_app).install()
    yield run_cycle
    task_prerun.disconnect(fixup.on_task_prerun)
    task_postrun.disconnect(fixup.on_task_postrun)


def test_a_session_that_goes_on_is_used_again_without_a_statement() -> None:
    pid = backend()
    with CaptureQueriesContext(connection) as queries:
        close_old_connections()
        assert connection.is_usable()
    assert list(queries) == []
    assert backend() == pid


def test_a_session_that_postgres_has_ended_is_replaced_before_the_next_statement() -> None:
    pid = backend()
    end(pid)
    close_old_connections()
    assert backend() != pid


def test_the_tasks_of_a_worker_share_a_session(task: Task) -> None:
    pid = backend()
    task_postrun.send(sender=task)
    task_prerun.send(sender=task)
    assert backend() == pid


def test_a_task_begins_with_a_usable_session(task: Task) -> None:
    pid = backend()
    end(pid)
    task_prerun.send(sender=task)
    assert backend() != pid


def test_a_closed_connection_is_not_usable() -> None:
    backend()
    connection.connection.close()
    assert not connection.is_usable()
    connection.close()
    assert not connection.is_usable()
