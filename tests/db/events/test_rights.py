"""Rights of the role of the platform's processes in the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from psycopg2.errors import InsufficientPrivilege

from muster.events.models import AuditEntry, Event
from muster.events.services import audit

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery staple"
AUDIT = AuditEntry._meta.db_table


@pytest.fixture
def app(settings: Any) -> Iterator[Any]:
    """A connection of the processes' role, which `migrate` has made."""
    owner = connection.settings_dict
    role = f"app_of_{owner['NAME']}"
    settings.MIGRATE_DATABASE = {name: owner[name] for name in ("USER", "PASSWORD", "HOST", "PORT")}
    connection.close()
    connection.settings_dict = {**owner, "USER": role, "PASSWORD": PASSWORD}
    try:
        call_command("migrate", verbosity=0)
        assert connection.settings_dict["USER"] == role
    finally:
        connection.close()
        connection.settings_dict = owner
    address = {
        "user": role,
        "password": PASSWORD,
        "dbname": owner["NAME"],
        "host": owner["HOST"],
        "port": owner["PORT"],
    }
    with closing(psycopg2.connect(**{name: value for name, value in address.items() if value})) as link:
        link.autocommit = True
        with link.cursor() as cursor:
            yield cursor
    with connection.cursor() as cursor:
        cursor.execute(f"GRANT {role} TO CURRENT_USER")
        cursor.execute(f"DROP OWNED BY {role}")
        cursor.execute(f"DROP ROLE {role}")


def test_it_reads_and_writes_rows_of_all_tables(app: Any) -> None:
    Event.objects.create(kind="told", actor="test")
    for model in apps.get_models():
        app.execute(f'SELECT count(*) FROM "{model._meta.db_table}"')
    app.execute("UPDATE events_event SET actor = 'other'")
    app.execute("DELETE FROM events_event WHERE actor = 'other'")
    assert app.rowcount == 1


def test_it_adds_and_reads_audit_rows(app: Any) -> None:
    columns = "actor, action, object_type, object_id"
    app.execute(f"INSERT INTO {AUDIT} ({columns}) VALUES ('ada', 'create', 'token', '1') RETURNING id")
    app.execute(f"SELECT actor FROM {AUDIT}")
    assert app.fetchall() == [("ada",)]


@pytest.mark.parametrize(
    "statement",
    [
        f"ALTER TABLE {AUDIT} DISABLE TRIGGER audit_is_final",
        f"ALTER TABLE {AUDIT} DISABLE TRIGGER ALL",
        f"DROP TRIGGER audit_is_final ON {AUDIT}",
        "CREATE OR REPLACE FUNCTION events_audit_is_final() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
        "SET session_replication_role = replica",
        f"UPDATE {AUDIT} SET actor = 'other'",
        f"DELETE FROM {AUDIT}",
        f"TRUNCATE {AUDIT}",
        f"DROP TABLE {AUDIT}",
        "CREATE TABLE mine (id int)",
    ],
)
def test_it_can_neither_change_audit_rows_nor_what_protects_them(app: Any, statement: str) -> None:
    audit("create", actor="ada", object_type="token", object_id=1)
    with pytest.raises(InsufficientPrivilege):
        app.execute(statement)
    assert AuditEntry.objects.get().actor == "ada"
