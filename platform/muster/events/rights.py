"""Rights of the platform's processes in the database: read and write rows, and only add audit rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection, transaction
from psycopg2 import sql
from psycopg2.extensions import encrypt_password

from muster.events.models import AuditEntry

_GRANT = """
GRANT USAGE ON SCHEMA public TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role};
REVOKE UPDATE, DELETE ON {audit} FROM {role};
"""


def grant_rows(*, role: str, password: str) -> None:
    """Grant `role` its rights, as the owner of the tables; make the role if it does not exist, and set its password."""
    with transaction.atomic(), connection.cursor() as cursor:
        name = sql.Identifier(role)
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
        if cursor.fetchone() is None:
            cursor.execute(sql.SQL("CREATE ROLE {role} LOGIN").format(role=name))
        if password:
            # Hashed here, so that the server's log never has it.
            hashed = encrypt_password(password, role, scope=connection.connection, algorithm="scram-sha-256")
            cursor.execute(
                sql.SQL("ALTER ROLE {role} PASSWORD {password}").format(role=name, password=sql.Literal(hashed))
            )
        cursor.execute(sql.SQL(_GRANT).format(role=name, audit=sql.Identifier(AuditEntry._meta.db_table)))


@contextmanager
def as_owner() -> Iterator[None]:
    """Connects as the role of MUSTER_MIGRATE_DATABASE_URL while the block lasts, if that is set."""
    if settings.MIGRATE_DATABASE is None:
        yield
        return
    usual = connection.settings_dict
    connection.close()
    connection.settings_dict = {**usual, **settings.MIGRATE_DATABASE}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual
