"""The places in a log that rules match, in bounded work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.diagnosis.failures import line_kinds
from scheduler.diagnosis.failures.evidence import Strength
from scheduler.diagnosis.failures.rules import Rule, RuleSet
from scheduler.diagnosis.failures.text import Text

_MAX_PIECES = 12
"""The limit for one rule of pieces searched, and of searches in all of them."""
_MAX_SEARCHES = 100
_IN_A_PIECE = 6
_NEAR_BYTES = 300

_WORTH = {Strength.CERTAIN: 5.0, Strength.CAUSE: 4.0, Strength.GENERIC: 3.0, Strength.SYMPTOM: 2.0, Strength.ECHO: 1.0}
CAUSAL = 2.8
"""Matches worth at least this much name a cause; the others are symptoms."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule's match of a log line: its place, and its worth as a cause."""

    rule: Rule
    at: int
    length: int
    worth: float


def matches(text: Text, rules: RuleSet) -> list[Match]:
    """The matches of the rules, by place. Most logs are searched in full; work on hostile ones is bounded."""
    pieces = list(text.pieces())
    places: defaultdict[int, list[int]] = defaultdict(list)
    for number, (begin, end) in enumerate(pieces):
        for index in rules.prefilter.Match(text.data[begin:end], True) or ():
            places[index].append(number)
    most = _MAX_PIECES
    while most > 1 and sum(min(len(where), most) for where in places.values()) > _MAX_SEARCHES:
        most -= 1
    found: dict[tuple[int, int], Match] = {}
    rarity = _rarity_of(places)
    for index, where in places.items():
        for number in _pieces_to_search(where, most, rarity):
            for match in _in_piece(text, rules.rules[index], *pieces[number]):
                found[index, match.at] = match
    return sorted(found.values(), key=lambda match: match.at)


def _rarity_of(places: Mapping[int, list[int]]) -> dict[int, float]:
    """The rarity of each piece: chatter repeats the same words, while a signature has rare ones."""
    rarity: defaultdict[int, float] = defaultdict(float)
    for where in places.values():
        for number in where:
            rarity[number] += 1 / len(where)
    return rarity


def _pieces_to_search(where: list[int], most: int, rarity: Mapping[int, float]) -> list[int]:
    """The pieces to search for a rule: all, or the first, the last and the rarest ones."""
    if len(where) <= most:
        return where
    last = where[-(most // 3) :] if most >= 3 else []
    chosen = {where[0], *last} if most >= 3 else set()
    rest = sorted((number for number in where if number not in chosen), key=lambda number: (-rarity[number], number))
    return sorted({*chosen, *rest[: most - len(chosen)]})


def _in_piece(text: Text, rule: Rule, begin: int, end: int) -> list[Match]:
    piece = text.data[begin:end]
    found: list[Match] = []
    at = 0
    for _ in range(_IN_A_PIECE):
        hit = rule.pattern.search(piece, at)
        if hit is None:
            break
        # \s at the start of a pattern may match the line end before
        start = hit.start() + (piece[hit.start() : hit.start() + 1] == b"\n")
        line_begin = piece.rfind(b"\n", 0, start) + 1
        line_end = piece.find(b"\n", max(start, hit.end() - 1))
        line_end = len(piece) if line_end < 0 else line_end
        if _is_source(piece, line_begin, line_end):
            at = line_end + 1
            if at >= len(piece):
                break
            continue
        near = piece[max(line_begin, start - _NEAR_BYTES) : min(line_end, hit.end() + _NEAR_BYTES)]
        if rule.exception is None or rule.exception.search(near) is None:
            length = hit.end() - start
            found.append(Match(rule, begin + start, length, _worth(rule, piece[line_begin:line_end], near)))
        at = line_end + 1
        if at >= len(piece):
            break
    return found


def _is_source(piece: bytes, begin: int, end: int) -> bool:
    """True if a line is a traceback frame or the source below one: such lines say where, not what."""
    head = piece[begin : min(end, begin + 300)]
    if line_kinds.FRAME.search(head) is not None or line_kinds.BOXED.search(head) is not None:
        return True
    above = piece.rfind(b"\n", 0, max(0, begin - 1)) + 1
    if begin == 0 or line_kinds.FRAME.search(piece[above : min(begin, above + 300)]) is None:
        return False
    return line_kinds.EXCEPTION.search(piece[begin : min(end, begin + 600)]) is None


def _worth(rule: Rule, line: bytes, near: bytes) -> float:
    """The worth of a match: lower on a warning or where work continues, higher on the last line of a traceback."""
    worth = _WORTH[rule.strength]
    head = line[:160]
    exception = line_kinds.EXCEPTION.search(line[:600]) is not None
    if exception and rule.strength in (Strength.CAUSE, Strength.GENERIC):
        worth += 0.5
    warns = line_kinds.WARNING.search(head) is not None and line_kinds.SEVERE_WARNINGS.search(head) is None
    if warns or (line_kinds.CONTINUES.search(near) is not None and not exception):
        worth -= 2.5
    elif line_kinds.INFO.search(head) is not None:
        worth -= 1.2
    return worth


def made_progress(text: Text, after: int, before: int) -> bool:
    """True if the job made progress between two places: lines there show steps, losses or progress bars."""
    between = text.data[after:before][-_LOOK_BACK_BYTES:]
    at = signs = 0
    for _ in range(_MAX_PROGRESS_LINES):
        hit = line_kinds.PROGRESS.search(between, at)
        if hit is None:
            return False
        line = hit.group()
        signs += line_kinds.TROUBLE.search(line) is None and not line.startswith((b"    ", b"\t"))
        at = hit.end() + 1
        if signs >= _SIGNS or at >= len(between):
            break
    return signs >= _SIGNS


_LOOK_BACK_BYTES = 16 << 10
_MAX_PROGRESS_LINES = 40
_SIGNS = 2
