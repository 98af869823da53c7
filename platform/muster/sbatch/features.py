"""Constraints on features of nodes: `ib&nvlink`, `v100|a100`, `(a|b)&c`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from muster.sbatch.site import NodeFacts

_WORD = re.compile(r"[A-Za-z0-9_.\-=]+")
MAX_DEPTH = 20


def nodes_with(constraint: str, nodes: Sequence[NodeFacts], count: int) -> list[str]:
    """The names of the nodes that have the features; of `[a|b]` those with the first that `count` nodes have.

    Raises:
        ValueError: it cannot be read, or names a feature that no node has.
    """
    if "*" in constraint:
        raise ValueError("numbers of nodes by feature (*) are not supported")
    text = constraint.strip()
    if text.startswith("[") and text.endswith("]"):
        each = [nodes_with(one, nodes, count) for one in text[1:-1].split("|")]
        return next((names for names in each if len(names) >= count), each[0])
    if "[" in text or "]" in text:
        raise ValueError("square brackets stand around the whole constraint or not at all")
    reader = _Reader(text, nodes)
    found = reader.either(0)
    if reader.rest:
        raise ValueError(f"{reader.rest!r} is not expected there")
    return [node.name for node in nodes if node.name in found]


class _Reader:
    def __init__(self, text: str, nodes: Sequence[NodeFacts]) -> None:
        self.rest, self._nodes = text, nodes
        self._known = {feature for node in nodes for feature in node.features}

    def either(self, depth: int) -> set[str]:
        found = self._both(depth)
        while self._next("|"):
            found |= self._both(depth)
        return found

    def _both(self, depth: int) -> set[str]:
        found = self._one(depth)
        while self._next("&") or self._next(","):
            found &= self._one(depth)
        return found

    def _one(self, depth: int) -> set[str]:
        if self._next("("):
            if depth >= MAX_DEPTH:
                raise ValueError("it has too many parentheses")
            found = self.either(depth + 1)
            if not self._next(")"):
                raise ValueError("a parenthesis is not closed")
            return found
        word = _WORD.match(self.rest)
        if not word:
            raise ValueError("write features with & and | between them")
        self.rest = self.rest[word.end() :]
        if word[0] not in self._known:
            known = f"; there are {', '.join(sorted(self._known))}" if self._known else ""
            raise ValueError(f"no node has the feature {word[0]}{known}")
        return {node.name for node in self._nodes if word[0] in node.features}

    def _next(self, sign: str) -> bool:
        if not self.rest.startswith(sign):
            return False
        self.rest = self.rest[1:]
        return True
