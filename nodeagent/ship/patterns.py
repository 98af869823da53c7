"""Patterns of paths, as specs write them: `*`, `?` and `[a-z]` within a name, `**` for any number of folders.

A walk carries along what is left of each pattern, so a folder that none of them leads into is never opened. Matching a
name takes time that grows with its length times the pattern's: names come from jobs, and `fnmatch` can take for ever.
"""

from __future__ import annotations

from typing import FrozenSet, Iterable, List, Tuple

_ANY = "**"

Rest = Tuple[str, ...]
"""What is left of a pattern; empty when it has matched."""


def compiled(patterns: Iterable[str]) -> FrozenSet[Rest]:
    """The patterns as a walk begins with them."""
    return frozenset(_compiled(pattern) for pattern in patterns)


def advance(rests: FrozenSet[Rest], name: str) -> FrozenSet[Rest]:
    """What is left of the patterns below an entry called `name`; none when no pattern leads there."""
    after = set()
    for rest in _with_nothing_for_any(rests):
        if not rest:
            continue
        if rest[0] == _ANY:
            after.add(rest)
        elif name_matches(rest[0], name):
            after.add(rest[1:])
    return frozenset(after)


def names_file(rests: FrozenSet[Rest]) -> bool:
    """Whether a file to which these rests lead is named by a pattern."""
    return () in rests


def below_folder(rests: FrozenSet[Rest]) -> FrozenSet[Rest]:
    """The rests to go on with in a folder: one that is named itself is named with all that is in it."""
    if () not in rests:
        return rests
    return (rests - {()}) | {(_ANY, "*")}


def name_matches(pattern: str, name: str) -> bool:
    """Whether a name matches one part of a pattern.

    Of several `*` only the last one is ever tried again, which is enough: what the ones before took can stay as it is.
    """
    tokens = _tokens(pattern)
    at = position = 0
    star, star_position = -1, 0
    while position < len(name):
        if at < len(tokens) and tokens[at] == "*":
            star, star_position = at, position
            at += 1
        elif at < len(tokens) and _takes(tokens[at], name[position]):
            at, position = at + 1, position + 1
        elif star >= 0:
            star_position += 1
            at, position = star + 1, star_position
        else:
            return False
    return set(tokens[at:]) <= {"*"}


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


def _tokens(pattern: str) -> List[str]:
    """The pattern in pieces: `*`, `?`, a `[set]`, or `=` and the one character that is meant. No end of set = a `[`."""
    tokens: List[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        end = pattern.find("]", position + (3 if pattern[position + 1 : position + 2] == "!" else 2))
        if character == "[" and end > 0:
            tokens.append(pattern[position : end + 1])
            position = end
        else:
            tokens.append(character if character in "*?" else "=" + character)
        position += 1
    return tokens


def _takes(piece: str, character: str) -> bool:
    if piece[0] != "[":
        return piece in ("?", "=" + character)
    inside, wanted = piece[1:-1], True
    if inside[0] == "!":
        inside, wanted = inside[1:], False
    position = 0
    while position < len(inside):
        if position + 2 < len(inside) and inside[position + 1] == "-":
            if inside[position] <= character <= inside[position + 2]:
                return wanted
            position += 3
        else:
            if inside[position] == character:
                return wanted
            position += 1
    return not wanted
