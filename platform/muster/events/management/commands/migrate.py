"""`manage.py migrate`, as the role that owns the tables."""

from __future__ import annotations

from typing import Any

from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import connection

from muster.events.rights import as_owner, grant_rows
from muster.events.upgrade import TooOld, upgrade_to_first_release


class Command(migrate.Command):
    """Django's command, as the role of MUSTER_MIGRATE_DATABASE_URL; grants the role of DATABASE_URL its rights."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Bring the database up to date.

        System checks run before `handle` and connect too, when the role of DATABASE_URL may not exist yet.
        """
        app = connection.settings_dict
        with as_owner():
            output = super().execute(*args, **options)
            if connection.settings_dict["USER"] != app["USER"]:
                grant_rows(role=app["USER"], password=app["PASSWORD"])
        return output

    def handle(self, *args: Any, **options: Any) -> None:
        """Upgrade a database from before 0.1.0 first, unless the command only looks."""
        if not (options["plan"] or options["check_unapplied"]):
            try:
                upgrade_to_first_release()
            except TooOld as error:
                raise CommandError(f"The database was {error}.") from error
        super().handle(*args, **options)
