"""Patterns of paths, as specs write them: `*`, `?` and `[a-z]` within a name, `**` for any number of folders.

A walk carries along what is left of each pattern, so a folder that none of them leads into is never opened. Names come
from jobs: `fnmatch` takes time in proportion to a name's length times its pattern's, from Python 3.9 on.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import FrozenSet, Iterable, List, Tuple

_ANY = "**"

Rest = Tuple[str, ...]
"""The unmatched remainder of a pattern; empty when it has matched."""


def compiled(patterns: Iterable[str]) -> FrozenSet[Rest]:
    """The patterns as a walk begins with them."""
    return frozenset(_compiled(pattern) for pattern in patterns)


def advance(rests: FrozenSet[Rest], name: str) -> FrozenSet[Rest]:
    """Remainders of the patterns below an entry called `name`; none when no pattern leads there."""
    after = set()
    for rest in _with_nothing_for_any(rests):
        if not rest:
            continue
        if rest[0] == _ANY:
            after.add(rest)
        elif _matches(name, rest[0]):
            after.add(rest[1:])
    return frozenset(after)


def names_file(rests: FrozenSet[Rest]) -> bool:
    """True if a pattern names a file to which these rests lead."""
    return () in rests


def below_folder(rests: FrozenSet[Rest]) -> FrozenSet[Rest]:
    """The rests to go on with in a folder: one that is named itself is named with all that is in it."""
    if () not in rests:
        return rests
    return (rests - {()}) | {(_ANY, "*")}


def _compiled(pattern: str) -> Rest:
    parts: List[str] = []
    for part in pattern.split("/"):
        if part not in ("", ".") and not (part == _ANY and parts and parts[-1] == _ANY):
            parts.append(part)
    if parts and parts[-1] == _ANY:
        parts.append("*")
    return tuple(parts)


def _with_nothing_for_any(rests: FrozenSet[Rest]) -> FrozenSet[Rest]:
    return rests | {rest[1:] for rest in rests if rest and rest[0] == _ANY}


def _matches(name: str, part: str) -> bool:
    try:
        return fnmatchcase(name, part)
    except re.error:  # a range that is empty, such as [z-a]: some versions of Python do not take it
        return False
