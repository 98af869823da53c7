"""The best rows of all bidders where one GPU type is offered: a multiple-choice knapsack by dynamic programming.

With b bidders, r rows each and C GPUs it takes b · r · C steps. Tables over the first bidders and over the last ones
give the optima without each single bidder at hardly any more cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Option:
    """One row: its index (-1: keep what is held, None: win nothing), its type's index, its GPUs, and its worth."""

    row: int | None
    gpu_type: int
    gpus: int
    worth: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The largest sum, and the option of each bidder in their order; None: it wins nothing."""

    total: float
    chosen: tuple[Option | None, ...]


def best(tables: Sequence[Sequence[Option]], capacities: Sequence[int]) -> Choice:
    """One option of each table with the largest sum of worths among those that fit; there must be one that fits."""
    (capacity,) = capacities
    sums, choices = _tables(tables, capacity)
    left, chosen = capacity, list[Option | None]()
    for table, choice in zip(reversed(tables), reversed(choices), strict=True):
        option = table[choice[left]]
        chosen.append(option if option.row is not None else None)
        left -= option.gpus
    return Choice(float(sums[-1][capacity]), tuple(reversed(chosen)))


def without_each(tables: Sequence[Sequence[Option]], capacities: Sequence[int]) -> list[float]:
    """For each table the largest sum over the other tables."""
    (capacity,) = capacities
    before, _ = _tables(tables, capacity)
    after = _tables(tables[::-1], capacity)[0][::-1]
    return [float((before[index] + after[index + 1][::-1]).max()) for index in range(len(tables))]


def _tables(tables: Sequence[Sequence[Option]], capacity: int) -> tuple[list[Floats], list[NDArray[np.intp]]]:
    """The largest sums of the first 0, 1, 2 … tables by GPUs, each of shape (capacity + 1,), and their options."""
    sums, choices = [np.zeros(capacity + 1)], list[NDArray[np.intp]]()
    for table in tables:
        rows = np.full((len(table), capacity + 1), -np.inf)
        for index, option in enumerate(table):
            if option.gpus <= capacity:
                rows[index, option.gpus :] = sums[-1][: capacity + 1 - option.gpus] + option.worth
        choices.append(rows.argmax(axis=0))
        sums.append(rows.max(axis=0))
    return sums, choices
