"""Times as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import overload


@overload
def moment(at: datetime) -> str: ...
@overload
def moment(at: None) -> None: ...
def moment(at: datetime | None) -> str | None:
    """A time as RFC 3339 in UTC."""
    return at.isoformat().replace("+00:00", "Z") if at else None
