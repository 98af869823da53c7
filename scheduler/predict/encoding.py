"""Codes for categories that are texts, learned from a training set and stored with its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

MAX_CATEGORIES = 2000


class Categories:
    """The code of each category that the training set has often enough; others are missing, which is NaN."""

    def __init__(self, names: Iterable[str]) -> None:
        self._codes: Mapping[str, float] = {name: float(at) for at, name in enumerate(names)}

    @classmethod
    def learn(cls, values: Iterable[str], *, min_count: int = 1, max_categories: int = MAX_CATEGORIES) -> Self:
        """The categories that occur `min_count` times, at most the most frequent `max_categories`."""
        counts = Counter(values)
        order = sorted(counts, key=lambda name: (-counts[name], name))
        return cls(name for name in order[:max_categories] if counts[name] >= min_count)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def names(self) -> list[str]:
        """The categories in the order of their codes, as JSON stores them."""
        return list(self._codes)

    def code(self, value: str) -> float:
        """The code of one category."""
        return self._codes.get(value, float("nan"))

    def codes(self, values: Iterable[str]) -> NDArray[np.float64]:
        """The codes of some values, in their order."""
        return np.array([self.code(value) for value in values], dtype=np.float64)
