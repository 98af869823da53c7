"""Names of nodes as Slurm writes them, such as `n[1-3,5]`: expanded, and folded in their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, product

MAX_NAMES = 65_536
_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_BETWEEN = re.compile(r"[,\s]+(?![^\[]*\])")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def expand(text: str) -> list[str]:
    """Return the names of a list, in its order.

    Raises:
        ValueError: a range is wrong, or there are too many names.
    """
    names: list[str] = []
    for word in filter(None, _BETWEEN.split(text)):
        found = _PARTS.findall(word)
        if "".join(plain or "[" + ranges + "]" for ranges, plain in found) != word:
            raise ValueError(word)
        choices = [[plain] if plain else list(_numbers(ranges)) for ranges, plain in found]
        for choice in product(*choices):
            names.append("".join(choice))
            if len(names) > MAX_NAMES:
                raise ValueError(word)
    return names


def fold(names: Iterable[str]) -> str:
    """Return the names as one list, in their order: neighbours that differ by their last number share brackets."""
    texts = []
    for (prefix, numbered), together in groupby(map(_parts, names), key=lambda part: (part[0], bool(part[1]))):
        numbers = [number for _, number in together]
        if not numbered:
            texts += [prefix] * len(numbers)
        elif len(numbers) == 1:
            texts.append(prefix + numbers[0])
        else:
            texts.append("{}[{}]".format(prefix, ",".join(_ranges(numbers))))
    return ",".join(texts)


def _parts(name: str) -> tuple[str, str]:
    """Return the name without the number at its end, and that number; empty where there is none."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def _numbers(ranges: str) -> Iterator[str]:
    """Yield the numbers of `1-3,05`, as wide as each range begins."""
    for one in ranges.split(","):
        found = _RANGE.fullmatch(one)
        if found is None:
            raise ValueError(one)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + MAX_NAMES:
            raise ValueError(one)
        for number in range(first, last + 1):
            yield "{:0{}}".format(number, len(found[1]))


def _ranges(numbers: list[str]) -> Iterator[str]:
    """Yield the runs of the numbers: a next one belongs to a run if it is one more, and written as wide."""
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and "{:0{}}".format(int(last) + 1, len(last)) == number:
            last = number
            continue
        yield first if first == last else "{}-{}".format(first, last)
        first = last = number
