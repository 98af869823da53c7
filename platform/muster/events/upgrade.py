"""Databases and backups of versions before 0.1.0: those of the last such version are upgraded, others are refused."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

Applied = Collection[tuple[str, str]]

LAST_BEFORE = {
    ("accounts", "0004_uid_of_every_user"),
    ("cells", "0001_cells"),
    ("dispatch", "0007_records_by_columns"),
    ("events", "0003_restore"),
    ("failures", "0002_preview"),
    ("fleet", "0029_defaults_by_share"),
    ("idle", "0001_initial"),
    ("jobs", "0039_job_of_group_by_state"),
    ("links", "0001_initial"),
    ("logrules", "0002_preview"),
    ("logs", "0001_squashed_0002_segment_bytes"),
    ("notices", "0001_initial"),
    ("offers", "0002_needs"),
    ("outputs", "0001_initial"),
    ("samples", "0005_slowdown_of_estimates"),
    ("screening", "0002_results"),
    ("shells", "0001_initial"),
    ("sweeps", "0002_looked_at"),
    ("tenants", "0008_plain_help_texts"),
    ("training", "0001_initial"),
    ("usage", "0004_group_finish_times"),
}
"""The newest migration of each app in the last version before 0.1.0."""
_MERGED = {"idle": "monitoring", "logrules": "failures", "training": "monitoring"}
_APPS = {app for app, _ in LAST_BEFORE}
FIRST = {(_MERGED.get(app, app), "0001_initial") for app in _APPS} | {("fleet", "0002_single_user_tenant")}
"""The migrations of 0.1.0."""


class TooOld(Exception):
    """A database, or a backup, of a version older than the last one before 0.1.0; the message says what to do."""


def is_before_release(applied: Applied) -> bool:
    """Whether a database with these migrations can be upgraded to 0.1.0, False if it needs no upgrade; `TooOld` if it
    can be neither used nor upgraded."""
    present = set(applied)
    known = MigrationLoader(None).disk_migrations.keys()
    if present >= FIRST or not any(app in _APPS and (app, name) not in known for app, name in present):
        return False
    if present >= LAST_BEFORE:
        return True
    raise TooOld("made by a development version before 0.1.0: bring it to commit 32eb78a1 first, then to this version")


def upgrade_to_first_release() -> None:
    """Make a database of the last version before 0.1.0 one of 0.1.0; `TooOld` if it is older; any other stays as it
    is."""
    recorder = MigrationRecorder(connection)
    if not is_before_release(recorder.applied_migrations()):
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(Path(__file__).with_suffix(".sql").read_text())
        recorder.migration_qs.filter(app__in=_APPS).delete()
        for app, name in sorted(FIRST):
            recorder.record_applied(app, name)
