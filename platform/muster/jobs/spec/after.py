"""The keys `after` and `begin` of a spec: what a job waits for before it is scheduled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from muster.common.errors import unknown_word
from muster.jobs.spec.units import parse_duration_s, parse_moment
from scheduler.model.dependencies import DependencyKind

MAX_AFTER = 100
"""Entries of `after`, and alternatives in all of them."""

_TERM = re.compile(r"([0-9]{1,18})(?::([A-Za-z_]+))?")
_KINDS = tuple(kind.value for kind in DependencyKind if kind is not DependencyKind.SINGLETON)


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on a job or a group, by its number; for a singleton the number is 0."""

    number: int
    kind: DependencyKind

    def __str__(self) -> str:
        return self.kind.value if self.kind is DependencyKind.SINGLETON else f"{self.number}:{self.kind}"


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
    kind = match[2] or DependencyKind.OK.value
    if kind not in _KINDS:
        raise ValueError(unknown_word(kind, _KINDS))
    return Term(int(match[1]), DependencyKind(kind))


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
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if first.setdefault(entry, index) != index:
            raise ValueError(f"entries {first[entry]} and {index} are the same, {entry}: leave one of them out")
    alone = {terms[0] for terms in read if len(terms) == 1}
    for term in sorted(alone, key=str):
        if term.kind is DependencyKind.OK and Term(term.number, DependencyKind.FAILED) in alone:
            raise ValueError(f"{term.number} cannot both succeed and fail: leave one of the two entries out")
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
