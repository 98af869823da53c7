"""The connection of Django's backend for Postgres; Django finds it by the name of this module."""

from __future__ import annotations

import select

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that asks its socket whether it is still usable, where Django sends `SELECT 1` for each request.

    Nothing comes from the server between two requests unless it ends the session or changes a setting; either way a new
    connection does.
    """

    def is_usable(self) -> bool:
        """Whether the server has said nothing since the last statement, least of all that it has gone."""
        if self.connection is None or self.connection.closed:
            return False
        socket = select.poll()
        socket.register(self.connection.fileno(), select.POLLIN)
        return not socket.poll(0)
