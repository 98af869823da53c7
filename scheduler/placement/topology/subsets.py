"""The best-linked subset of the free GPUs of one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

Links = tuple[tuple[int, ...], ...]
# The worst link in the subset, the sum of its links, and the sum of the links among the other GPUs.
Score = tuple[int, int, int]

# Up to this number of free GPUs, every subset is compared.
_MAX_EXACT = 8


@lru_cache(maxsize=65536)
def best_subset(links: Links, indexes: tuple[int, ...], size: int) -> tuple[Score, tuple[int, ...]]:
    """The best score of `size` of the GPUs with these indexes, and their positions in `indexes`, ascending.

    Exact up to eight GPUs. Above, a greedy search grows a set from each GPU and returns the best of these sets.
    """
    pairs = [[_link(links, one, other) for other in indexes] for one in indexes]
    everything = range(len(indexes))
    if len(indexes) <= _MAX_EXACT:
        found: Iterable[tuple[int, ...]] = combinations(everything, size)
    else:
        found = sorted({_grown(pairs, seed, size) for seed in everything})
    # `max` keeps the first of equals: the smallest indexes.
    return max(((_score(pairs, subset), subset) for subset in found), key=lambda one: one[0])


def _grown(pairs: Sequence[Sequence[int]], seed: int, size: int) -> tuple[int, ...]:
    chosen = [seed]
    rest = [position for position in range(len(pairs)) if position != seed]
    while len(chosen) < size:
        best = max(rest, key=lambda one: (min(pairs[one][other] for other in chosen), _sum(pairs, one, chosen)))
        chosen.append(best)
        rest.remove(best)
    return tuple(sorted(chosen[:size]))


def _score(pairs: Sequence[Sequence[int]], subset: tuple[int, ...]) -> Score:
    inside = [pairs[one][other] for one, other in combinations(subset, 2)]
    left = [position for position in range(len(pairs)) if position not in subset]
    return min(inside, default=0), sum(inside), sum(pairs[one][other] for one, other in combinations(left, 2))


def _sum(pairs: Sequence[Sequence[int]], one: int, others: Iterable[int]) -> int:
    return sum(pairs[one][other] for other in others)


def _link(links: Links, one: int, other: int) -> int:
    """The link score of two indexes; 0 outside the matrix."""
    low, high = min(one, other), max(one, other)
    return links[low][high] if low < len(links) and high < len(links[low]) else 0
