"""Statements of our own that Postgres parses and plans once a connection: most take longer to plan than to run."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connection

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names that each connection of the driver knows; Postgres forgets them with the connection."""


class Statement:
    """A statement with `%s` for each parameter, prepared on a connection when that runs it for the first time."""

    def __init__(self, sql: str) -> None:
        first, *others = sql.split("%s")
        text = first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))
        self.name = f"muster_{hashlib.sha256(sql.encode()).hexdigest()[:16]}"
        self._prepare = f"PREPARE {self.name} AS {text.replace('%%', '%')}"
        self._execute = f"EXECUTE {self.name}"
        if others:
            self._execute += f" ({', '.join(['%s'] * len(others))})"

    def rows(self, *params: Any) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            self._prepare_once()
            cursor.execute(self._execute, params)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def run(self, *params: Any) -> int:
        """Run it for what it changes, and return the number of changed rows."""
        with connection.cursor() as cursor:
            self._prepare_once()
            cursor.execute(self._execute, params)
            changed: int = cursor.rowcount
            return changed

    def _prepare_once(self) -> None:
        names = _prepared.setdefault(connection.connection, set())
        if self.name not in names:
            # Not by a cursor of Django's: what a connection does once is no part of what a request costs.
            with connection.wrap_database_errors, connection.connection.cursor() as cursor:
                cursor.execute(self._prepare)
            names.add(self.name)


@lru_cache(maxsize=512)
def statement_of(sql: str) -> Statement:
    """The statement of SQL that is put together when it is needed: equal texts give one statement."""
    return Statement(sql)
