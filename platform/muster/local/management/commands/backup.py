"""`manage.py backup`: database, logs, outputs and code as of one moment."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from muster.local.backups.archive import BackupError
from muster.local.backups.keys import where_keys_are
from muster.local.backups.make import make_backup


class Command(BaseCommand):
    help = (
        "Writes a backup of database, logs, outputs and code to a folder, or to a tar; the platform may run meanwhile."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("destination", type=Path, help="a new folder, or a new file that ends in .tar")

    def handle(self, *args: Any, **options: Any) -> None:
        destination: Path = options["destination"]
        try:
            made = make_backup(destination.absolute())
        except (BackupError, OSError) as error:
            raise CommandError(f"There is no backup: {error}") from error
        files = len(made.manifest.files) - 1
        self.stdout.write(
            f"{destination} is a backup of {made.manifest.taken_at:%Y-%m-%d %H:%M:%S} UTC: "
            f"the database and {files} files, {made.size / 2**20:.1f} MiB."
        )
        for what, names in (("are missing", made.missing), ("are damaged", made.damaged)):
            if names:
                self.stdout.write(f"{len(names)} files to which the database refers {what}, such as {names[0]}.")
        self.stdout.write(
            f"It has no keys. It can be restored with the encryption key {' and '.join(made.manifest.keys)} only. Keep "
            "copies of these in another place, where the backup's readers cannot get them:"
        )
        for line in where_keys_are(settings.STATE_FOLDER):
            self.stdout.write(f"  {line}")
