"""How a process learns that Postgres has ended its session, without a statement for it."""

from __future__ import annotations

import psycopg2
import pytest
from django.db import close_old_connections, connection
from django.test.utils import CaptureQueriesContext

from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid: int = cursor.fetchone()[0]
    return pid


def test_a_session_that_goes_on_is_used_again_without_a_statement() -> None:
    pid = backend()
    with CaptureQueriesContext(connection) as queries:
        close_old_connections()
        assert connection.is_usable()
    assert list(queries) == []
    assert backend() == pid


def test_a_session_that_postgres_has_ended_is_replaced_before_the_next_statement() -> None:
    pid = backend()
    other = psycopg2.connect(**connection.get_connection_params())
    with other, other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    other.close()
    eventually(lambda: not connection.is_usable())
    close_old_connections()
    assert backend() != pid


def test_a_closed_connection_is_not_usable() -> None:
    backend()
    connection.connection.close()
    assert not connection.is_usable()
    connection.close()
    assert not connection.is_usable()
