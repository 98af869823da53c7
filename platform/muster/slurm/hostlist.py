"""Names of nodes as Slurm writes them: `n[1-3,5]`, folded and expanded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from muster.sbatch.values import hosts

_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII)

expand = hosts
"""The names of a list, in its order."""


def fold(names: Iterable[str], *, ordered: bool = True) -> str:
    """The names as one list, each once: sorted by their numbers, or in their own order."""
    found = dict.fromkeys(names)
    parts = [_parts(name) for name in (sorted(found, key=_parts) if ordered else found)]
    texts = []
    for (prefix, width), together in groupby(parts, key=lambda part: (part[0], _width(part))):
        numbers = [number for _, number, _ in together]
        if width is None:
            texts += [prefix]
        elif len(numbers) == 1:
            texts.append(f"{prefix}{numbers[0]:0{width}}")
        else:
            texts.append(f"{prefix}[{_ranges(numbers, width)}]")
    return ",".join(texts)


def _parts(name: str) -> tuple[str, int, int]:
    """The name without the number at its end, the number, and how many digits it is written with (0: it has none)."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2]), len(found[2])) if found else (name, 0, 0)


def _width(part: tuple[str, int, int]) -> int | None:
    """The digits that the number is filled up to; 1 without leading zeros, None for a name without a number."""
    _, number, digits = part
    if not digits:
        return None
    return digits if len(str(number)) < digits else 1


def _ranges(numbers: list[int], width: int) -> str:
    texts = []
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number is not None and number == last + 1:
            last = number
            continue
        texts.append(f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}")
        if number is not None:
            first = last = number
    return ",".join(texts)
