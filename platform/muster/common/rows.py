"""Reading rows where `QuerySet.first()` would cost too much."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)


def first_of(rows: QuerySet[M]) -> M | None:
    """The first of the rows in the order that they have, or None: on paths that every request takes.

    `first()` sorts by the primary key, and for an ORDER BY Django compares and hashes every selected column, which
    costs more than the query itself when a row is wide or joins others.
    """
    return next(iter(rows[:1]), None)
