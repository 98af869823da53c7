"""The time of the platform."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection


def utc_now() -> datetime:
    """The aware UTC time of this process: for records and for what people read."""
    return datetime.now(UTC)


def database_now() -> datetime:
    """The database's clock at this statement: for every comparison that several machines must agree on."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
