"""Making a backup of the running platform."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from muster.events.rights import as_owner
from muster.jobs.submit import uploads
from muster.local.backups import postgres_tools
from muster.local.backups.archive import DUMP, Manifest, Writer, manifest_text, writing
from muster.local.backups.keys import fingerprint
from muster.logs import store as logs_store
from muster.outputs import store as outputs_store

_SNAPSHOT_SQL = """
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SELECT now(), pg_export_snapshot()
"""


@dataclass(slots=True)
class Made:
    """The content of a new backup, and the files that the database refers to and that it could not have."""

    manifest: Manifest
    missing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.manifest.files.values())


def make_backup(destination: Path) -> Made:
    """Write a backup of one moment; jobs and the platform go on. `BackupError`: nothing was written.

    One snapshot of Postgres is what `pg_dump` writes and what says which files there are. Of each the bytes that it
    knows are copied after it; what was removed meanwhile is missing, which a restore states.
    """
    with writing(destination) as archive, as_owner(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_SNAPSHOT_SQL)
            taken_at, snapshot = cursor.fetchone()
        _add_dump(archive, snapshot)
        applied = sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations())
        made = Made(Manifest(taken_at, [fingerprint(key) for key in settings.ENCRYPTION_KEYS], applied))
        _add_files(archive, made)
        made.manifest.files = archive.files
        archive.add_text("manifest.json", manifest_text(made.manifest))
    return made


def _add_dump(archive: Writer, snapshot: str) -> None:
    draft = archive.place.with_name(f"{archive.place.name}.dump")
    try:
        postgres_tools.dump(draft, snapshot=snapshot)
        with draft.open("rb") as source:
            archive.add(DUMP, source, draft.stat().st_size)
    finally:
        draft.unlink(missing_ok=True)


def _add_files(archive: Writer, made: Made) -> None:
    for stored in chain(logs_store.stored_files(), outputs_store.stored_files(), uploads.stored_files()):
        name = str(stored.path)
        try:
            source = (Path(settings.STATE_FOLDER) / stored.path).open("rb")
        except FileNotFoundError:
            made.missing.append(name)
            continue
        with source:
            # A file that lost bytes is copied as far as it goes: the restore states the rest as lost.
            size = min(stored.size, source.seek(0, 2))
            source.seek(0)
            archive.add(name, source, size)
        if size < stored.size or (stored.sha256 and archive.files[name].sha256 != stored.sha256):
            made.damaged.append(name)
