"""Moments and time spans as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from muster_client.shapes import Job
from muster_client.terminal import clean


def moment_text(at: str) -> str:
    """Return a moment as people read it, in the time zone of this machine."""
    moment = parse_moment(at)
    return clean(at) if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M %Z}"


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


def run_time(job: Job, now: datetime) -> str:
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
    """Return the moment, in UTC where it names no zone; None for a text that is no moment."""
    if not at:
        return None
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
