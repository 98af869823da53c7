"""A lock in Postgres that a thread holds for as long as its session lasts."""

from __future__ import annotations

from django.db import connection


class SessionLock:
    """An advisory lock of two numbers, for a thread that keeps its connection: it is lost with the session only."""

    def __init__(self, space: int, number: int) -> None:
        self._key = [space, number]
        self._held_on: object = None

    @property
    def held(self) -> bool:
        """Whether this thread holds the lock."""
        return self._held_on is not None and self._held_on is connection.connection

    def take(self) -> bool:
        """Take the lock unless another session holds it; whether this thread holds it now."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", self._key)
            taken = bool(cursor.fetchone()[0])
        self._held_on = connection.connection if taken else None
        return taken
