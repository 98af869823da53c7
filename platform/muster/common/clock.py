"""The time of the platform, and times and figures as JSON."""

from __future__ import annotations

import math
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


def finite(value: float | None) -> float | None:
    """The number; None for one that is not finite."""
    return value if value is not None and math.isfinite(value) else None


def rounded(value: float | None, digits: int) -> float | None:
    """The number, rounded to this many decimals."""
    return None if value is None else round(value, digits)


def hours(seconds: float) -> float:
    """The hours that these seconds are."""
    return round(seconds / 3600, 6)
