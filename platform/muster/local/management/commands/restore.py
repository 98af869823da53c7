"""`manage.py restore`: the database, logs, outputs and code of a backup, in the place of what is there."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from muster.local.backups.archive import BackupError
from muster.local.backups.restore import restore_backup
from muster.local.places import LocalError
from muster.local.stack import alone


class Command(BaseCommand):
    help = "Restores a backup that `manage.py backup` has made. Stop the platform first."
    # The database may be empty, and no secret in it can be checked yet.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", type=Path, help="the folder or the tar")
        parser.add_argument(
            "--replace", action="store_true", help="delete the database that is there, if it is not empty"
        )
        parser.add_argument(
            "--no-new-nodes",
            action="store_true",
            help="no agent has joined since the backup, so placement need not wait for jobs of unknown nodes",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source: Path = options["source"]
        home = settings.STATE_FOLDER
        try:
            with alone(home):
                restored = restore_backup(
                    source.absolute(),
                    home=home,
                    replace=options["replace"],
                    nodes_known=options["no_new_nodes"],
                    actor="manage.py",
                )
        except LocalError as error:
            raise CommandError(f"{error}. Stop it, and run this again.") from error
        except (BackupError, OSError) as error:
            raise CommandError(f"Nothing is restored: {error}") from error
        restore = restored.restore
        self.stdout.write(f"The backup of {restore.backup_at:%Y-%m-%d %H:%M:%S} UTC is restored.")
        if restored.set_aside is not None:
            self.stdout.write(
                f"The files that were there are in {restored.set_aside}: remove them when you no longer need them."
            )
        self.stdout.write(
            "What was submitted or has ended since then is lost. New jobs have ids above "
            f"{restore.last_job}. Start the platform: agents register again, and jobs are placed once each node has "
            "reported or its fence has passed. What agents still run of lost jobs is stopped, and listed in the admin "
            "under Restores."
        )
