"""Moments and time spans as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster_client.local.terminal import clean

if TYPE_CHECKING:
    from muster_client.answers.jobs import JobInList

DAY_S = 86_400
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)")


def moment_text(at: str) -> str:
    """Return a moment as people read it, in the time zone of this machine."""
    moment = parse_moment(at)
    return clean(at) if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M %Z}"


def with_times_in_words(text: str, now: datetime) -> str:
    """Return the text with each moment in the local zone, and how far off it is: "11:40:12, in 4 s"."""

    def words(found: re.Match[str]) -> str:
        moment = parse_moment(found[0])
        if moment is None:
            return found[0]
        local, away_s = moment.astimezone(), (moment - now).total_seconds()
        clock = f"{local:%H:%M:%S}" if abs(away_s) < DAY_S / 2 else f"{local:%Y-%m-%d %H:%M}"
        return f"{clock}, in {duration(away_s, units=1)}" if away_s > 0 else f"{clock}, {ago(found[0], now)}"

    return _MOMENT.sub(words, text)


def ago(at: str | None, now: datetime) -> str:
    """Return roughly how long ago a moment was, such as "3 min ago"."""
    moment = parse_moment(at)
    return "-" if moment is None else f"{duration((now - moment).total_seconds(), units=1)} ago"


def took(start: str | None, end: str | None, now: datetime) -> str:
    """Return how long something lasted, or lasts already."""
    began = parse_moment(start)
    if began is None:
        return "-"
    return duration(((parse_moment(end) or now) - began).total_seconds())


def run_time(job: JobInList, now: datetime) -> str:
    """Return how long a job's attempts have run together, without the pauses between them."""
    since = parse_moment(job["running_since"])
    if since is None and not job["run_time_s"]:
        return "-"
    return duration(job["run_time_s"] + ((now - since).total_seconds() if since else 0.0))


def duration(seconds: float, *, units: int = 2) -> str:
    """Return a time span in its two largest units, or in the largest only."""
    whole = max(0, round(seconds))
    for unit_s, unit, small_s, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // small_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {small}" if rest and units > 1 else "")
    return f"{whole} s"


def utc_now() -> datetime:
    """Return the present, in UTC."""
    return datetime.now(UTC)


def parse_moment(at: str | None) -> datetime | None:
    """Return the moment, in UTC where it names no zone; None for a text that is not a time."""
    if not at:
        return None
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
