"""Databases and backups of the last version before 0.1.0 become those of 0.1.0 with all rows and the same schema.

Commit 32eb78a1 made the backup `before-0.1.0.tar.xz`: a failed job, two running ones and a waiting one, rules and logs.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from muster.events.upgrade import FIRST, LAST_BEFORE, TooOld, is_before_release
from muster.failures.models import LogMatch, LogRuleBook, RuleBook
from muster.failures.selectors import text_in_force
from muster.jobs.models import Job
from muster.local.backups import postgres_tools
from muster.local.backups.restore import restore_backup
from muster.logs.store import read
from muster.monitoring.models import FailureRate, IdleWatch, JobAdvice, LogPlace, Series

pytestmark = pytest.mark.django_db(transaction=True)

BACKUP = Path(__file__).with_name("before-0.1.0.tar.xz")
KEY = "eORpPQu6xamPE0i6ZB3jKHyJM6ZpHRXMGxsdBURw24U="
DJANGO = {("auth", "0012_alter_user_first_name_max_length")}

# Names that Django and Postgres made of a table's name are those of its former name in an upgraded database.
_MADE_NAME = re.compile(r"(CONSTRAINT|INDEX) [a-z]+_\w+_([0-9a-f]{8}\w*|key|pkey|check)\b")
_NOT_NULL_NAME = re.compile(r" CONSTRAINT \w+ NOT NULL")
_PATH = re.compile(r"'\{([\w,]+)\}'::text\[\]")


@pytest.fixture
def present_schema(tmp_path: Path) -> list[str]:
    """The schema that the migrations make."""
    return _schema(tmp_path)


@pytest.fixture
def restored(present_schema: list[str], tmp_path: Path, settings: Any) -> Iterator[None]:
    """Connects to a database into which the backup was restored."""
    settings.STATE_FOLDER = tmp_path / "state"
    settings.STATE_FOLDER.mkdir()
    settings.ENCRYPTION_KEYS = [KEY]
    source = tmp_path / "before.tar"
    source.write_bytes(lzma.decompress(BACKUP.read_bytes()))
    with _other_database():
        restore_backup(source, home=settings.STATE_FOLDER, replace=False, nodes_known=True, actor="tests")
        yield


@contextmanager
def _other_database() -> Iterator[None]:
    """Connects to an empty database while the block lasts."""
    usual = connection.settings_dict
    name = f"{usual['NAME']}_other"
    _on_server(f"CREATE DATABASE {name}")
    connection.close()
    connection.settings_dict = {**usual, "NAME": name}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual
        _on_server(f"DROP DATABASE {name}")


def _on_server(statement: str) -> None:
    target, password = postgres_tools.dsn("postgres")
    with closing(psycopg2.connect(target, password=password)) as link, link.cursor() as cursor:
        link.autocommit = True
        cursor.execute(statement)


def _schema(folder: Path) -> list[str]:
    """The statements of the schema, sorted; of a table its lines with its name: the order of columns may differ.

    It is dumped and restored before: a restore rewrites the expressions of tables that migrations have made.
    """
    dump, file = folder / "schema.dump", folder / "schema.sql"
    postgres_tools._run("pg_dump", "--schema-only", "--format=custom", f"--file={dump}")
    with _other_database():
        postgres_tools.load(dump)
        postgres_tools._run("pg_dump", "--schema-only", "--no-owner", "--no-privileges", f"--file={file}")
    text = _NOT_NULL_NAME.sub(" NOT NULL", file.read_text())
    text = _PATH.sub(lambda found: "ARRAY['" + "'::text, '".join(found[1].split(",")) + "'::text]", text)
    text = _MADE_NAME.sub(r"\1 made", text)
    found = []
    for statement in re.sub(r"(?m)^(--|SET |SELECT pg_catalog|\\).*\n", "", text).split(";\n\n"):
        first, *others = statement.strip().split("\n")
        if first.startswith("CREATE TABLE"):
            found += [f"{first} {line.strip().removesuffix(',')}" for line in others]
        else:
            found.append(" ".join(statement.split()))
    return sorted(found)


def test_a_backup_of_the_last_version_is_restored_whole_and_with_the_present_schema(
    present_schema: list[str], restored: None, tmp_path: Path
) -> None:
    assert _schema(tmp_path) == present_schema
    jobs = {job.name: job for job in Job.objects.all()}
    assert {name: job.state for name, job in jobs.items()} == {
        "fails": "failed",
        "runs": "active",
        "talks": "active",
        "waits": "queued",
    }
    assert jobs["fails"].failure["class"] == "storage_io_error"
    match = LogMatch.objects.get()
    assert (match.job, match.rule, match.line) == (jobs["fails"], "hang", "NCCL WARN a timeout")
    assert read(match.allocation, start=0, end=14) == b"rack 12 smokes"
    assert text_in_force(LogRuleBook).startswith("hang:")
    assert text_in_force(RuleBook).startswith("storage_io_error:")
    assert set(Series.objects.values_list("attempt__job__name", "name", "odd_run")) == {
        ("runs", "loss", 60),
        ("talks", "loss", 0),
    }
    assert JobAdvice.objects.get().job == jobs["runs"]
    assert IdleWatch.objects.get().attempt.job == jobs["runs"]
    assert LogPlace.objects.get().allocation.attempt.job == jobs["talks"]
    assert FailureRate.objects.count() == 1
    assert LogEntry.objects.get().get_edited_object() == LogRuleBook.objects.get()
    # New rows take ids beyond those of the backup, from sequences that were renamed.
    assert LogRuleBook.objects.create(author="olga").pk > match.pk
    applied = {one for one in MigrationRecorder(connection).applied_migrations() if one in FIRST | LAST_BEFORE}
    assert applied == FIRST


@pytest.mark.parametrize(
    ("applied", "upgradable"),
    [
        ((), False),
        (DJANGO, False),
        (DJANGO | FIRST, False),
        (DJANGO | FIRST | {("jobs", "9999_future")}, False),
        (DJANGO | {("accounts", "0001_initial"), ("events", "0001_initial")}, False),
        (DJANGO | LAST_BEFORE, True),
        (DJANGO | LAST_BEFORE | {("jobs", "0038_fewer_indexes")}, True),
    ],
    ids=["empty", "only Django's", "0.1.0", "newer", "interrupted", "last before", "last before, with former ones"],
)
def test_only_a_database_of_the_last_version_before_is_upgraded(
    applied: set[tuple[str, str]], upgradable: bool
) -> None:
    assert is_before_release(applied) == upgradable


OLDER = LAST_BEFORE - {("jobs", "0039_job_of_group_by_state")} | {("jobs", "0038_fewer_indexes")}
WHAT_TO_DO = "made by a development version before 0.1.0: bring it to commit 32eb78a1 first"


def test_an_older_database_is_refused_and_stays_as_it_is() -> None:
    with pytest.raises(TooOld, match=WHAT_TO_DO):
        is_before_release(OLDER)
    recorder = MigrationRecorder(connection)
    present = [(row.app, row.name) for row in recorder.migration_qs.all()]
    recorder.migration_qs.filter(app__in={app for app, _ in FIRST}).delete()
    try:
        for app, name in OLDER:
            recorder.record_applied(app, name)
        with pytest.raises(CommandError, match=f"The database was {WHAT_TO_DO}"):
            call_command("migrate", verbosity=0)
        assert recorder.applied_migrations().keys() >= OLDER
    finally:
        recorder.migration_qs.all().delete()
        for app, name in present:
            recorder.record_applied(app, name)


def test_an_older_backup_is_refused(tmp_path: Path, settings: Any) -> None:
    settings.STATE_FOLDER = tmp_path
    call_command("backup", str(tmp_path / "backup"), verbosity=0)
    path = tmp_path / "backup" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "migrations": [f"{app}.{name}" for app, name in OLDER]}))
    with pytest.raises(Exception, match=f"the backup was {WHAT_TO_DO}"):
        restore_backup(tmp_path / "backup", home=tmp_path, replace=True, nodes_known=True, actor="tests")
