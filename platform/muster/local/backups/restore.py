"""Restoring a backup, while the platform is stopped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg2 import sql

from muster.accounts.models import User
from muster.events.models import Restore
from muster.events.rights import as_owner
from muster.events.upgrade import TooOld, is_before_release
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.local.backups import postgres_tools
from muster.local.backups.archive import DUMP, FOLDERS, BackupError, Manifest, read_manifest, stage
from muster.local.backups.keys import require_keys
from muster.local.backups.settle import settle


@dataclass(frozen=True, slots=True)
class Restored:
    """The restore, and the folder of the files that were there before it, if there were any."""

    restore: Restore
    set_aside: Path | None


def restore_backup(source: Path, *, home: Path, replace: bool, nodes_known: bool, actor: str) -> Restored:
    """Put the database and the files of a backup in the place of what is there; `BackupError` says why it cannot be.

    1. The backup is read whole and compared with its manifest, in a folder beside the files.
    2. A database beside the present one is filled, migrated and prepared (`settle`).
    3. The database takes the place of the present one, and the files those of the present ones, which are set aside.

    Until the third step nothing has changed, and after any failure the same command can be given again.
    """
    manifest = read_manifest(source)
    require_keys(manifest.keys, settings.ENCRYPTION_KEYS)
    with as_owner():
        _require_known(manifest)
        if not replace and not _is_empty():
            raise BackupError(
                "the database is not empty: --replace deletes it, and everything in it that is not in the backup"
            )
        Swap(connection.settings_dict["NAME"]).require_unused()
    staged = home / "restoring"
    shutil.rmtree(staged, ignore_errors=True)
    try:
        stage(source, manifest, staged)
        with _database_beside() as swap:
            with as_owner():
                postgres_tools.load(staged / DUMP)
            call_command("migrate", interactive=False, verbosity=0)
            with as_owner(), _state_folder(staged):
                restore = settle(manifest, nodes_known=nodes_known, actor=actor)
            connection.close()
            swap()
            set_aside = _swap_files(home, staged)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return Restored(restore, set_aside)


def _require_known(manifest: Manifest) -> None:
    applied = [(app, name) for app, _, name in (one.partition(".") for one in manifest.migrations)]
    try:
        if is_before_release(applied):
            return
    except TooOld as error:
        raise BackupError(f"the backup was {error}") from error
    unknown = sorted(set(applied) - MigrationLoader(connection).disk_migrations.keys())
    if unknown:
        newer = ".".join(unknown[0])
        raise BackupError(f"the backup is of a newer version of Muster, with {newer}: install that version first")


def _is_empty() -> bool:
    """Whether the database is new: it has no tables, or they hold no users, pools and jobs."""
    tables = set(connection.introspection.table_names())
    return not any(model._meta.db_table in tables and model.objects.exists() for model in (User, Pool, Job))


@contextmanager
def _database_beside() -> Iterator[Swap]:
    """Connects to a new, empty database beside the present one while the block lasts."""
    usual, owner = connection.settings_dict, settings.MIGRATE_DATABASE
    with as_owner():
        swap = Swap(usual["NAME"])
    swap.begin()
    connection.close()
    connection.settings_dict = {**usual, "NAME": swap.beside}
    settings.MIGRATE_DATABASE = None if owner is None else {**owner, "NAME": swap.beside}
    try:
        yield swap
    finally:
        connection.close()
        connection.settings_dict, settings.MIGRATE_DATABASE = usual, owner


class Swap:
    """Two databases of one server: the present one, and the new one, which takes its name at the end."""

    def __init__(self, name: str) -> None:
        self._name, self.beside, self._old = name, f"{name}_restoring", f"{name}_replaced"
        self._dsn, self._password = postgres_tools.dsn("postgres")

    def require_unused(self) -> None:
        """Return if nothing is connected to the present database but this process."""
        connection.close()
        self._do()

    def begin(self) -> None:
        """Make the new database; what an interrupted restore left is dropped."""
        self._do(("DROP DATABASE IF EXISTS {}", self.beside), ("CREATE DATABASE {}", self.beside))

    def __call__(self) -> None:
        """Drop the present database, and give its name to the new one."""
        self._do(
            ("DROP DATABASE IF EXISTS {}", self._old),
            ("ALTER DATABASE {} RENAME TO {}", self._name, self._old),
            ("ALTER DATABASE {} RENAME TO {}", self.beside, self._name),
            ("DROP DATABASE {}", self._old),
        )

    def _do(self, *statements: tuple[str, ...]) -> None:
        try:
            with closing(psycopg2.connect(self._dsn, password=self._password)) as link, link.cursor() as cursor:
                link.autocommit = True
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", [self._name]
                )
                [(others,)] = cursor.fetchall()
                if others:
                    raise BackupError(f"{others} connections use the database: stop the platform, and run this again")
                for statement, *names in statements:
                    cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
        except psycopg2.Error as error:
            raise BackupError(
                f"the database cannot be made: {str(error).strip()}. The role that owns it needs CREATEDB, and the "
                "database postgres of the server to connect to"
            ) from error


@contextmanager
def _state_folder(folder: Path) -> Iterator[None]:
    usual = settings.STATE_FOLDER
    settings.STATE_FOLDER = folder
    try:
        yield
    finally:
        settings.STATE_FOLDER = usual


def _swap_files(home: Path, staged: Path) -> Path | None:
    """Put the files of the backup in the place of those that are there, and return where the latter are now."""
    present = [name for name in FOLDERS if (home / name).is_dir() and any((home / name).iterdir())]
    aside = home / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    if present:
        aside.mkdir(mode=0o700)
    for name in FOLDERS:
        if name in present:
            (home / name).rename(aside / name)
        if (staged / name).is_dir():
            (staged / name).rename(home / name)
    os.sync()
    return aside if present else None
