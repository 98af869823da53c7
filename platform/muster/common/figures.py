"""Figures as JSON can have them, and people read them."""

from __future__ import annotations

import math


def finite(value: float | None) -> float | None:
    """The number; None for one that is not finite."""
    return value if value is not None and math.isfinite(value) else None


def rounded(value: float | None, digits: int) -> float | None:
    """The number with so many digits behind the point."""
    return None if value is None else round(value, digits)


def hours(seconds: float) -> float:
    """The hours that these seconds are."""
    return round(seconds / 3600, 6)
