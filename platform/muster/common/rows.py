"""Reading rows on paths that are taken so often that Django's usual ways would cost too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model, QuerySet

from muster.common.errors import NotFound

M = TypeVar("M", bound=Model)
R = TypeVar("R")


def first_of(rows: QuerySet[M, R]) -> R | None:
    """The first of the rows, or None. Unlike `first()` it adds no order, whose columns Django compares one by one."""
    return next(iter(rows[:1]), None)


def require_first(rows: QuerySet[M, R], refusal: str) -> R:
    """The first of the rows, as `first_of` reads it; `NotFound` with this sentence if there are none."""
    row = first_of(rows)
    if row is None:
        raise NotFound(refusal)
    return row


def part_of(model: type[M], **columns: object) -> M:
    """A row with the columns that a hand-written statement has read; other columns are read on first use."""
    names = [field.attname for field in model._meta.concrete_fields if field.attname in columns]
    if len(names) != len(columns):
        raise ValueError(f"{model.__name__} has no column {sorted(columns.keys() - set(names))}")
    return model.from_db(DEFAULT_DB_ALIAS, names, [columns[name] for name in names])


class Whole(Generic[M]):
    """A model whose rows a statement of one's own reads whole: its columns for the SQL, and a row from their values."""

    def __init__(self, model: type[M], *, alias: str) -> None:
        fields = model._meta.concrete_fields
        self._model = model
        self._names = [field.attname for field in fields]
        self._converters: list[tuple[int, Callable[..., Any]]] = [
            (place, convert) for place, field in enumerate(fields) for convert in field.get_db_converters(connection)
        ]
        self.columns = ", ".join(f'{alias}."{field.column}"' for field in fields)

    def take(self, values: Iterator[Any]) -> M:
        """The row whose values come next."""
        found = [next(values) for _ in self._names]
        for place, convert in self._converters:
            found[place] = convert(found[place], None, connection)
        return self._model.from_db(DEFAULT_DB_ALIAS, self._names, found)
