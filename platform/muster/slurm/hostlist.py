"""Names of nodes as Slurm writes them: `n[1-3,5]`, folded and expanded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.sbatch.values import hosts

_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII)

expand = hosts
"""The names of a list, in its order."""


@dataclass(slots=True)
class _Group:
    """Names with one prefix, whose numbers are written with `width` digits at least, in ranges."""

    prefix: str
    width: int = 0
    ranges: list[list[int]] = field(default_factory=list)

    def add(self, prefix: str, digits: str) -> bool:
        """Take the next name in; False if it belongs to another group."""
        if prefix != self.prefix or not digits or not self.ranges or f"{int(digits):0{self.width}}" != digits:
            return False
        number = int(digits)
        if number == self.ranges[-1][-1] + 1:
            self.ranges[-1] = [self.ranges[-1][0], number]
        else:
            self.ranges.append([number])
        return True

    def __str__(self) -> str:
        parts = ["-".join(f"{number:0{self.width}}" for number in part) for part in self.ranges]
        whole = len(parts) == 1 and len(self.ranges[0]) == 1
        return self.prefix + (parts[0] if whole else f"[{','.join(parts)}]" if parts else "")


def fold(names: Iterable[str], *, ordered: bool = False) -> str:
    """The names as one list: sorted by their numbers and each once, or `ordered` as they are."""
    parts = [_parts(name) for name in names]
    groups: list[_Group] = []
    for prefix, digits in parts if ordered else sorted(set(parts), key=_place):
        if not groups or not groups[-1].add(prefix, digits):
            width = len(digits) if digits.startswith("0") else 1
            groups.append(_Group(prefix, width, [[int(digits)]] if digits else []))
    return ",".join(map(str, groups))


def _parts(name: str) -> tuple[str, str]:
    """The name without the digits at its end, and these."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def _place(part: tuple[str, str]) -> tuple[str, int, int]:
    return part[0], int(part[1] or 0), len(part[1])
