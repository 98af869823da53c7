from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.faults.cluster import cluster
from tests.faults.layout import LONG

__all__ = ["cluster", "figure"]

Figure = Callable[[str, object], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Takes what was measured under a name; a long run prints it at its end."""
    return record_property if LONG else lambda _name, _value: None


def shares(values: Sequence[float]) -> str:
    """The usual percentiles of what was measured, and the largest."""
    ordered = sorted(values)
    parts = (f"p{share} {ordered[int(len(ordered) * share / 100)]:.3f}" for share in (50, 90, 99))
    return f"{', '.join(parts)}, max {ordered[-1]:.3f}"
