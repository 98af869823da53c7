"""Field helpers that several apps' models share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from django.db import models
from django.db.models import Func, Q


class CurrentTransactionId(Func):
    """The id of the transaction that runs: 64 bits wide, so it never wraps."""

    template = "pg_current_xact_id()::text::bigint"
    output_field = models.BigIntegerField()


class DatabaseNow(Func):
    """The database's clock when the statement runs, not when its transaction began."""

    template = "clock_timestamp()"
    output_field = models.DateTimeField()


def choices(enum: type[StrEnum]) -> list[tuple[str, str]]:
    """The members of an enum as Django's choices."""
    return [(member.value, member.value) for member in enum]


def check(name: str, condition: Q) -> models.CheckConstraint:
    """A CHECK of this condition."""
    return models.CheckConstraint(condition=condition, name=name)


def unique(name: str, fields: list[str], where: Q | None = None) -> models.UniqueConstraint:
    """A UNIQUE of these fields, for the rows that meet the condition."""
    return models.UniqueConstraint(fields=fields, condition=where, name=name)


def index(name: str, fields: list[str], where: Q | None = None) -> models.Index:
    """An index of these fields, with the rows that meet the condition."""
    return models.Index(fields=fields, condition=where, name=name)


def set_when(column: str, name: str, **state: object) -> models.CheckConstraint:
    """A CHECK that a row has a value in the column exactly in this state."""
    return check(name, Q(**state, **{f"{column}__isnull": False}) | Q(~Q(**state), **{f"{column}__isnull": True}))


def empty_when(column: str, name: str, **state: object) -> models.CheckConstraint:
    """A CHECK that a row has no value in the column exactly in this state."""
    return check(name, Q(**state, **{f"{column}__isnull": True}) | Q(~Q(**state), **{f"{column}__isnull": False}))


def one_of(field: str, values: Iterable[StrEnum], *, name: str) -> models.CheckConstraint:
    """A CHECK that a text column holds one of the values."""
    return check(name, Q(**{f"{field}__in": sorted(v.value for v in values)}))
