"""Moments as `--begin` and `--deadline` spell them."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_DAYS_LATER = {"today": 0, "tomorrow": 1}
_NAMED = {"midnight": time(0), "noon": time(12), "fika": time(15), "teatime": time(16)}
_LATER = re.compile(r"now ?\+ ?(\d+)([a-z]*)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))? ?(am|pm)?", re.ASCII)
_THIS_YEAR = "%Y/%m/%d"
_DATES = ("%Y-%m-%d", "%m/%d/%y", "%m%d%y", _THIS_YEAR)


def moment(text: str, now: datetime) -> datetime:
    """The moment that a text means at `now`, whose time zone it has.

    Raises:
        ValueError: it is none of the forms.
    """
    text = text.strip()
    if text in {"now", "today"}:
        return now
    if found := _LATER.fullmatch(text):
        unit = found[2].removesuffix("s") or "second"
        if unit not in _UNITS_S:
            raise ValueError(f"the units are {', '.join(_UNITS_S)}")
        try:
            return now + timedelta(seconds=int(found[1]) * _UNITS_S[unit])
        except OverflowError as error:
            raise ValueError("that is too late") from error
    date_text, clock_text = _halves(text)
    clock = _clock(clock_text) if clock_text else time(0)
    if clock_text and not date_text:
        at = _at(now, clock)
        return at if at > now else at + timedelta(days=1)
    return _at(_date(date_text, now), clock)


def _halves(text: str) -> tuple[str, str]:
    """The date and the time of day in a text; empty where one is missing."""
    if text in _NAMED or _CLOCK.fullmatch(text):
        return "", text
    for part in (r"(.+)T([\d:]+)", r"(\d\S*/\S+)-([\d:]+)", r"(\S*[-/]\S*)\s+(\S+)"):
        if found := re.fullmatch(part, text, re.ASCII):
            return found[1], found[2]
    if found := re.fullmatch(r"(\S+)\s+(\S+)", text, re.ASCII):
        return found[2], found[1]
    return text, ""


def _clock(text: str) -> time:
    if text in _NAMED:
        return _NAMED[text]
    found = _CLOCK.fullmatch(text)
    if not found:
        raise ValueError(f"{text} is no time of day: write HH:MM or HH:MM:SS")
    hour = int(found[1])
    if found[4]:
        if not 1 <= hour <= 12:
            raise ValueError(f"{text} is no time of day")
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    try:
        return time(hour, int(found[2]), int(found[3] or 0))
    except ValueError as error:
        raise ValueError(f"{text} is no time of day") from error


def _date(text: str, now: datetime) -> datetime:
    if text in _DAYS_LATER:
        return now + timedelta(days=_DAYS_LATER[text])
    for form in _DATES:
        try:
            found = datetime.strptime(f"{now.year}/{text}" if form == _THIS_YEAR else text, form)  # noqa: DTZ007 (the zone follows)
        except ValueError:
            continue
        return found.replace(tzinfo=now.tzinfo)
    raise ValueError("write now+2hours, HH:MM, YYYY-MM-DD, YYYY-MM-DDTHH:MM, tomorrow, noon or midnight")


def _at(day: datetime, clock: time) -> datetime:
    return day.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
