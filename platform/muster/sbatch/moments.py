"""Moments as `--begin` and `--deadline` spell them."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_DAYS_LATER = {"today": 0, "tomorrow": 1}
_NAMED = {"midnight": time(0), "noon": time(12), "fika": time(15), "teatime": time(16)}
_AWAY = re.compile(r"now ?([+-]) ?(\d+)([a-z]*)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))? ?(am|pm)?", re.ASCII)
_DATES = ("%Y-%m-%d", "%m/%d/%y", "%m.%d.%y")
_DAYS_OF_YEAR = ("%Y/%m/%d", "%Y/%m.%d")
_NO_YEAR = re.compile(r"\d+[/.]\d+|\d{4}", re.ASCII)
_COMPACT = re.compile(r"(\d\d)(\d\d)(\d\d)?", re.ASCII)


def moment(text: str, now: datetime, *, coming: bool = True) -> datetime:
    """The moment that a text means at `now`, whose time zone it has.

    `coming`: a time of day that has passed is tomorrow's, and `today` is now and not its beginning.

    Raises:
        ValueError: it is none of the forms.
    """
    text = text.strip()
    if text == "now" or (text == "today" and coming):
        return now
    if found := _AWAY.fullmatch(text):
        unit = found[3].removesuffix("s") or "second"
        if unit not in _UNITS_S:
            raise ValueError(f"the units are {', '.join(_UNITS_S)}")
        try:
            return now + timedelta(seconds=int(f"{found[1]}{found[2]}") * _UNITS_S[unit])
        except OverflowError as error:
            raise ValueError("that is too far away") from error
    date_text, clock_text = _halves(text)
    clock = _clock(clock_text) if clock_text else time(0)
    if clock_text and not date_text:
        at = _at(now, clock)
        return at if at > now or not coming else at + timedelta(days=1)
    at = _at(_date(date_text, now), clock)
    return _next_year(at) if coming and at < now and _NO_YEAR.fullmatch(date_text) else at


def _halves(text: str) -> tuple[str, str]:
    """The date and the time of day in a text; empty where one is missing."""
    if text in _NAMED or _CLOCK.fullmatch(text):
        return "", text
    for part in (r"(.+)T([\d:]+)", r"(\d\S*[-/.]\S+)-(\d+:[\d:]+)", r"(\S*[-/]\S*)\s+(\S+)"):
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
    if found := _COMPACT.fullmatch(text):
        text = "/".join(part for part in found.groups() if part)
    for form in (*_DATES, *_DAYS_OF_YEAR):
        try:
            day = datetime.strptime(f"{now.year}/{text}" if form in _DAYS_OF_YEAR else text, form)  # noqa: DTZ007 (the zone follows)
        except ValueError:
            continue
        return day.replace(tzinfo=now.tzinfo)
    raise ValueError("write now+2hours, HH:MM, YYYY-MM-DD, YYYY-MM-DDTHH:MM, tomorrow, noon or midnight")


def _next_year(at: datetime) -> datetime:
    try:
        return at.replace(year=at.year + 1)
    except ValueError:  # there is no 29 February
        return at.replace(year=at.year + 1, month=3, day=1)


def _at(day: datetime, clock: time) -> datetime:
    return day.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
