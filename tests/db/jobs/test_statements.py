"""Statements that a connection prepares once."""

from __future__ import annotations

import pytest
from django.db import DataError, connection, transaction

from muster.common.statements import Statement

pytestmark = pytest.mark.django_db(transaction=True)

# It is another one for each test: connections outlive them.
SUM = "SELECT %s::int + %s::int, 7 %% 4"


def prepared() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE name LIKE 'muster%'")
        return [statement for (statement,) in cursor.fetchall()]


def test_it_is_prepared_once_a_connection() -> None:
    statement = Statement(f"{SUM} AS once")
    assert [statement.rows(1, 2), statement.rows(3, 4)] == [[(3, 3)], [(7, 3)]]
    assert sum("AS once" in text for text in prepared()) == 1
    connection.close()
    assert statement.rows(1, 2) == [(3, 3)]
    assert sum("AS once" in text for text in prepared()) == 1


def test_a_rollback_leaves_it_prepared() -> None:
    statement = Statement(f"{SUM} AS rolled_back")
    with transaction.atomic():
        statement.rows(1, 2)
        transaction.set_rollback(True)
    assert statement.rows(3, 4) == [(7, 3)]


def test_it_says_how_many_rows_it_changed() -> None:
    change = Statement("UPDATE fleet_pool SET beat_s = beat_s WHERE id = %s")
    assert change.run(-1) == 0


def test_its_errors_are_those_of_django() -> None:
    with pytest.raises(DataError), transaction.atomic():
        Statement("SELECT 1 / %s::int").rows(0)
    assert Statement("SELECT 1 / %s::int").rows(1) == [(1,)]
