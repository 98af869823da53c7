"""Over which time GPU-hours are counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from muster.common.errors import Invalid
from muster.jobs.spec.units import parse_duration_s

USUAL = timedelta(days=7)
MAX_PERIOD = timedelta(days=400)
_NOTHING_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """The times [start, end), none of which is ahead."""

    start: datetime
    end: datetime


def period_of(*, start: datetime | None, end: datetime | None, since: str | None, now: datetime) -> Period:
    """The period that is asked for: by default the seven days before `end`, which is now by default.

    `since` is a duration such as 7d, and says the same as a start that long before the end. What is ahead has used
    nothing yet, so the end is now at the latest.
    """
    end = min(end or now, now)
    if end < _NOTHING_BEFORE:
        raise Invalid.field("to", f"nothing ran before {_NOTHING_BEFORE.year}")
    if since is not None:
        if start is not None:
            raise Invalid.field("since", "give it or `from`, not both")
        start = _before(end, since)
    if start is None:
        start = end - USUAL
    if start >= end:
        raise Invalid.field("from", "it must be before `to` and before now")
    if end - start > MAX_PERIOD:
        raise Invalid.field(
            "from" if since is None else "since", f"a period may have {MAX_PERIOD.days} days at most; ask for several"
        )
    return Period(start, end)


def _before(end: datetime, since: str) -> datetime:
    try:
        seconds = parse_duration_s(since)
    except ValueError as error:
        raise Invalid.field("since", str(error)) from error
    # No further than one step over what is refused: the number may be larger than any date.
    return end - timedelta(seconds=min(seconds, MAX_PERIOD.total_seconds() + 1))
