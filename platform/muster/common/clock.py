"""The time of the platform, and times as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

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


@overload
def moment(at: datetime) -> str: ...
@overload
def moment(at: None) -> None: ...
def moment(at: datetime | None) -> str | None:
    """A time as RFC 3339 in UTC."""
    return at.isoformat().replace("+00:00", "Z") if at else None
