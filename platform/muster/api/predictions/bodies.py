"""Queries about predictions."""

from __future__ import annotations

from muster.api.fields import Integer, Shape, Text

MAX_WEEKS = 53


class WeeksFilter(Shape):
    """The number of weeks."""

    weeks = Integer(
        required=False, default=8, min_value=1, max_value=MAX_WEEKS, help_text="Weeks, the present one too."
    )


class WaitsFilter(WeeksFilter):
    """The pool, and how far back."""

    pool = Text(max_length=63, help_text="The name of the pool.")
