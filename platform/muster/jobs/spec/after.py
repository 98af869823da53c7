"""The keys `after` and `begin` of a spec: what a job waits for before it is scheduled."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from muster.common.errors import unknown_word
from muster.jobs.spec.units import parse_duration_s, parse_moment
from scheduler.model.dependencies import DependencyKind

MAX_AFTER = 100
"""Entries of `after`, and alternatives in all of them."""

MAX_LATER_S = 366 * 86_400
_TERM = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,9}))?(?::([A-Za-z_]+)(?:\+(\S+))?)?")
_KINDS = tuple(kind.value for kind in DependencyKind if kind is not DependencyKind.SINGLETON)


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on a job or a group, by its number; for a singleton the number is 0.

    `index`: the condition is on that member of an array. `later_s`: the seconds after the start at which it is met.
    """

    number: int
    kind: DependencyKind
    index: int | None = None
    later_s: int = 0

    @property
    def target(self) -> str:
        """The job, group or member, as the entry names it."""
        return f"{self.number}" if self.index is None else f"{self.number}_{self.index}"

    def __str__(self) -> str:
        if self.kind is DependencyKind.SINGLETON:
            return self.kind.value
        return f"{self.target}:{self.kind}" + (f"+{later_text(self.later_s)}" if self.later_s else "")


def later_text(seconds: int) -> str:
    """A time after a start, as an entry names it: `10m`, or `90s`."""
    return f"{seconds}s" if seconds % 60 else f"{seconds // 60}m"


def parse_entry(text: str) -> tuple[Term, ...]:
    """The alternatives of an entry such as `1042:ok` or `7:any?9:failed`; `ValueError` says how one is written."""
    return tuple(_term(part.strip()) for part in text.split("?"))


def alternatives_of(after: Sequence[str]) -> list[tuple[Term, ...]]:
    """The alternatives of each entry."""
    return [parse_entry(entry) for entry in after]


def _term(text: str) -> Term:
    if text == DependencyKind.SINGLETON:
        return Term(0, DependencyKind.SINGLETON)
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no job and what to wait for: write 1042:ok, or 1042 for the same")
    kind = match[3] or DependencyKind.OK.value
    if kind not in _KINDS:
        raise ValueError(unknown_word(kind, _KINDS))
    index = None if match[2] is None else int(match[2])
    return Term(int(match[1]), DependencyKind(kind), index, _later_s(kind, match[4]) if match[4] else 0)


def _later_s(kind: str, text: str) -> int:
    if kind != DependencyKind.STARTED:
        raise ValueError(f"only a start has a time after it, as in 1042:started+10m: leave out +{text[:20]}")
    seconds = math.ceil(parse_duration_s(text))
    if seconds > MAX_LATER_S:
        raise ValueError(f"+{text[:20]} is more than a year")
    return seconds


def _entry(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError("write a job and what to wait for, such as 1042:ok")
    return "?".join(map(str, parse_entry(value)))


def _consistent(entries: list[str]) -> list[str]:
    read = alternatives_of(entries)
    if sum(map(len, read)) > MAX_AFTER:
        raise ValueError(f"it names {sum(map(len, read))} jobs: write at most {MAX_AFTER}")
    for terms in read:
        if len(terms) > 1 and any(term.later_s for term in terms):
            raise ValueError("a start with a time after it is no alternative: write an entry of its own")
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if first.setdefault(entry, index) != index:
            raise ValueError(f"entries {first[entry]} and {index} are the same, {entry}: leave one of them out")
    alone = {terms[0] for terms in read if len(terms) == 1}
    for term in sorted(alone, key=str):
        if term.kind is DependencyKind.OK and replace(term, kind=DependencyKind.FAILED) in alone:
            raise ValueError(f"{term.target} cannot both succeed and fail: leave one of the two entries out")
    return entries


def begins_at(text: str, now: datetime) -> datetime:
    """The moment that `2026-12-01T08:00Z`, `2h` or `now+2h` means; `ValueError` says how one is written."""
    if text[:1].isdigit() and "T" in text:
        return parse_moment(text)
    try:
        return now + timedelta(seconds=parse_duration_s(text.removeprefix("now+")))
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text[:40]!r} is no time to begin at: write 2026-12-01T08:00Z, …T09:00+01:00, or 2h from now"
        ) from error


def _begin(text: str) -> str:
    begins_at(text, datetime.fromisoformat("2000-01-01T00:00+00:00"))
    return text


AfterEntry = Annotated[str, BeforeValidator(_entry, json_schema_input_type=str | int)]
After = Annotated[list[AfterEntry], Field(max_length=MAX_AFTER), AfterValidator(_consistent)]
Begin = Annotated[str, AfterValidator(_begin), Field(max_length=40)]
