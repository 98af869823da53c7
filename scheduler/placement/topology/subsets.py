"""The best linked among the free GPUs of one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

Links = tuple[tuple[int, ...], ...]
# The worst link and the sum of all links inside, and the sum of all links among those that are left.
Score = tuple[int, int, int]

# Up to so many free GPUs, every subset is looked at.
_EXACT = 8


@lru_cache(maxsize=65536)
def best_subset(links: Links, indexes: tuple[int, ...], size: int) -> tuple[Score, tuple[int, ...]]:
    """The best score of `size` of the GPUs with these indexes, and their positions in `indexes`, ascending.

    Up to eight GPUs it is the best there is. Above, it is the best of growing a set from each GPU by the one that
    serves it best.
    """
    pairs = [[_link(links, one, other) for other in indexes] for one in indexes]
    everything = range(len(indexes))
    if len(indexes) <= _EXACT:
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
    """The score between two indexes; 0 for one that the matrix does not know."""
    low, high = min(one, other), max(one, other)
    return links[low][high] if low < len(links) and high < len(links[low]) else 0
