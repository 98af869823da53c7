"""`manage.py backup` and what a restore makes of a database; the whole way is in `tests/faults/test_restore.py`."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg2
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.utils import timezone

from muster.accounts.models import Session
from muster.common.clock import database_now
from muster.events.models import AuditEntry, Event, Restore
from muster.events.selectors import settled
from muster.events.services import record
from muster.fleet.models import Node, NodeLease
from muster.jobs.models import Allocation, CodeArchive
from muster.jobs.submit.uploads import code_path
from muster.local.backups import make, postgres_tools
from muster.local.backups.archive import DUMP, MANIFEST, BackupError, Manifest, read_manifest, stage
from muster.local.backups.keys import fingerprint, require_keys
from muster.local.backups.restore import restore_backup
from muster.local.backups.settle import EPOCHS, JOBS_PER_S, MARGIN_S, settle
from muster.logs import store as logs
from muster.logs.models import LogFile
from muster.outputs.models import FileState, OutputFile
from muster.outputs.store import place_of
from muster.settings.env import new_encryption_key
from scheduler.model.lifecycle import LeaseState
from tests.db.stories import Other, World, make_world, now_of, place, ranks, start, states, submit, until_settled

pytestmark = pytest.mark.django_db(transaction=True)

FORMS = ["backup", "backup.tar"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("MUSTER_SECRET_KEY", "MUSTER_ENCRYPTION_KEYS", "MUSTER_METRICS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(logs, "MAX_SEGMENT_BYTES", 16)
    monkeypatch.setattr(logs, "MIN_SEGMENT_BYTES", 16)
    settings.STATE_FOLDER = tmp_path / "state"
    settings.STATE_FOLDER.mkdir()
    settings.ENCRYPTION_KEYS = [new_encryption_key()]
    (settings.STATE_FOLDER / "encryption_key").write_text(settings.ENCRYPTION_KEYS[0])


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


@pytest.fixture
def rank(world: World) -> Allocation:
    """A rank of a running job, with a log of three segments, a file that it left, and code."""
    allocation = ranks(start(world))[0]
    body = bytes(range(40))
    logs.append(allocation, logs.Chunk(0, body, crc32(body)))
    file = OutputFile.objects.create(
        job=allocation.attempt.job,
        allocation=allocation,
        path="model.bin",
        size=5,
        stored=5,
        sha256=hashlib.sha256(b"model").hexdigest(),
        state=FileState.KEPT,
    )
    code = hashlib.sha256(b"code").hexdigest()
    CodeArchive.objects.create(sha256=code, size=4)
    for path, content in ((place_of(file), b"model"), (code_path(code), b"code")):
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return allocation


def segments(allocation: Allocation) -> list[Path]:
    return sorted(logs._folder(allocation).iterdir())


def back_up(destination: Path) -> str:
    output = StringIO()
    call_command("backup", str(destination), stdout=output)
    return output.getvalue()


def staged(source: Path, target: Path) -> Manifest:
    manifest = read_manifest(source)
    stage(source, manifest, target)
    return manifest


def settled_restore(**fields: Any) -> Restore:
    manifest = Manifest(taken_at=database_now(), keys=[], migrations=[])
    return settle(manifest, nodes_known=True, actor="tests", **fields)


@pytest.mark.parametrize("form", FORMS)
def test_a_backup_has_the_database_and_every_file_and_no_key(
    rank: Allocation, tmp_path: Path, settings: Any, form: str
) -> None:
    output = back_up(tmp_path / form)
    home = settings.STATE_FOLDER
    manifest = staged(tmp_path / form, tmp_path / "staged")
    names = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()} - {"encryption_key"}
    assert set(manifest.files) == {DUMP, *names}
    assert len(names) == 5
    for name in names:
        assert (tmp_path / "staged" / name).read_bytes() == (home / name).read_bytes()
    key = settings.ENCRYPTION_KEYS[0]
    for path in (tmp_path / "staged").rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()
    assert manifest.keys == [fingerprint(key)]
    assert f"restored with the encryption key {fingerprint(key)} only" in output
    assert f"  {home / 'encryption_key'} (encrypts stored secrets; a restore needs it)" in output


def test_a_log_is_cut_where_the_database_ends(
    rank: Allocation, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = postgres_tools.dump

    def dump_and_print(target: Path, *, snapshot: str) -> None:
        dump(target, snapshot=snapshot)
        body = b"later"
        Other(lambda: logs.append(rank, logs.Chunk(40, body, crc32(body)))).result()

    monkeypatch.setattr(make.postgres_tools, "dump", dump_and_print)
    back_up(tmp_path / "backup")
    last = segments(rank)[-1]
    assert last.read_bytes() == bytes(range(32, 40)) + b"later"
    assert (tmp_path / "backup" / last.relative_to(settings.STATE_FOLDER)).read_bytes() == bytes(range(32, 40))


def test_a_backup_that_fails_leaves_nothing(rank: Allocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(target: Path, *, snapshot: str) -> None:
        target.write_bytes(b"half")
        raise BackupError("pg_dump failed: no room")

    monkeypatch.setattr(make.postgres_tools, "dump", fail)
    before = set(tmp_path.iterdir())
    for form in FORMS:
        with pytest.raises(CommandError, match=r"There is no backup: pg_dump failed: no room"):
            back_up(tmp_path / form)
    assert set(tmp_path.iterdir()) == before


def test_programs_that_are_older_than_the_server_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("old", 20), ("new", 21)):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "pg_dump"
        program.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}.1'\n")
        program.chmod(0o755)
    monkeypatch.setitem(vars(connections["default"]), "pg_version", 210_000)
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    with pytest.raises(BackupError, match="install pg_dump of Postgres 21"):
        postgres_tools._find("pg_dump")
    monkeypatch.setenv("PATH", str(tmp_path / "new"))
    assert postgres_tools._find("pg_dump") == str(tmp_path / "new" / "pg_dump")


def test_a_backup_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with pytest.raises(CommandError, match="exists already"):
        back_up(tmp_path / "backup")


def _flip(folder: Path) -> None:
    path = next(folder.rglob("00000000"))
    path.write_bytes(b"\xff" + path.read_bytes()[1:])


def _drop(folder: Path) -> None:
    next(folder.rglob("*.tar.gz")).unlink()


def _add(folder: Path) -> None:
    (folder / "logs" / "more").write_text("more")


def _shorten(folder: Path) -> None:
    (folder / DUMP).write_bytes((folder / DUMP).read_bytes()[:-1])


@pytest.mark.parametrize("damage", [_flip, _drop, _add, _shorten])
@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_backup_is_refused(
    rank: Allocation, tmp_path: Path, damage: Callable[[Path], None], form: str
) -> None:
    whole = tmp_path / "whole"
    back_up(whole)
    damage(whole)
    if form.endswith(".tar"):
        with tarfile.open(tmp_path / form, "w") as tar:
            for path in whole.rglob("*"):
                if path.is_file():
                    tar.add(path, path.relative_to(whole))
    else:
        whole.rename(tmp_path / form)
    with pytest.raises(BackupError, match="is damaged: 1 files differ from its manifest"):
        staged(tmp_path / form, tmp_path / "staged")


def test_a_tar_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    back_up(tmp_path / "backup")
    (tmp_path / "outside").write_text("x")
    with tarfile.open(tmp_path / "backup.tar", "w") as tar:
        for name in (MANIFEST, DUMP):
            tar.add(tmp_path / "backup" / name, name)
        tar.add(tmp_path / "outside", "../outside2")
    with pytest.raises(BackupError, match="cannot be read"):
        staged(tmp_path / "backup.tar", tmp_path / "staged")
    assert not (tmp_path / "outside2").exists()


def test_a_restore_is_refused_without_the_key_of_the_backup(tmp_path: Path, settings: Any) -> None:
    kept = settings.ENCRYPTION_KEYS
    back_up(tmp_path / "backup")
    settings.ENCRYPTION_KEYS = [new_encryption_key()]
    with pytest.raises(CommandError) as refusal:
        call_command("restore", str(tmp_path / "backup"), "--replace")
    assert f"the key with the fingerprint {fingerprint(kept[0])} is missing" in str(refusal.value)
    assert f"{fingerprint(settings.ENCRYPTION_KEYS[0])} is here" in str(refusal.value)
    assert kept[0] not in str(refusal.value)
    require_keys([fingerprint(kept[0])], [new_encryption_key(), *kept])


def _refusal(source: Path, tmp_path: Path, *, replace: bool = True) -> str:
    with pytest.raises(BackupError) as refusal:
        restore_backup(source, home=tmp_path / "state", replace=replace, nodes_known=True, actor="tests")
    assert not (tmp_path / "state" / "restoring").exists()
    return str(refusal.value)


def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    back_up(tmp_path / "backup")
    path = tmp_path / "backup" / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "migrations": [*manifest["migrations"], "jobs.9999_future"]}))
    assert "of a newer version of Muster, with jobs.9999_future" in _refusal(tmp_path / "backup", tmp_path)


def test_a_database_that_somebody_uses_is_not_replaced(world: World, tmp_path: Path) -> None:
    back_up(tmp_path / "backup")
    assert "the database is not empty: --replace" in _refusal(tmp_path / "backup", tmp_path, replace=False)
    target, password = postgres_tools.dsn()
    with closing(psycopg2.connect(target, password=password)):
        # Threads of the tests before may be connected, too.
        refusal = _refusal(tmp_path / "backup", tmp_path)
        assert re.search(r"\d+ connections use the database: stop the platform", refusal)


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.tar").write_text("x")
    for name in ("folder", "file.tar", "nothing"):
        assert "is not a backup, or not a whole one" in _refusal(tmp_path / name, tmp_path)


class TestSettle:
    def test_ids_given_since_are_not_given_again(self, world: World) -> None:
        before = submit(world)
        with connection.cursor() as cursor:
            cursor.execute("SELECT sequencename, coalesce(last_value, 0) FROM pg_sequences")
            values = dict(cursor.fetchall())
            restored = settled_restore()
            cursor.execute("SELECT sequencename, last_value FROM pg_sequences")
            after = dict(cursor.fetchall())
        assert set(after) == set(values)
        assert min(after[name] - values[name] for name in after) >= 1000
        assert after["jobs_attempt_id_seq"] - values["jobs_attempt_id_seq"] >= 100_000 * MARGIN_S
        assert before.pk + JOBS_PER_S * MARGIN_S <= restored.last_job < submit(world).pk

    def test_every_lease_is_void_under_a_higher_epoch_and_every_node_must_report(self, world: World) -> None:
        epochs = dict(NodeLease.objects.values_list("pk", "epoch"))
        settled_restore()
        for lease in NodeLease.objects.all():
            assert (lease.epoch, lease.state) == (epochs[lease.pk] + EPOCHS, LeaseState.VOID)
        assert all(Node.objects.values_list("must_report", flat=True))

    def test_what_no_node_had_claimed_is_lost_and_queued_again(self, world: World) -> None:
        placed, running = place(world), start(world)
        settled_restore()
        assert states(placed.job) == ("queued", "lost", ["released"])
        assert now_of(placed.job).avoid_nodes == []
        assert states(running.job) == ("active", "running", ["active"])

    def test_events_stay_in_order_on_a_server_that_counts_from_the_beginning(self, world: World) -> None:
        for number in range(3):
            record(f"test.{number}", actor="tests")
        ours = Event.objects.filter(kind__startswith="test.").order_by("pk")
        for number, event in enumerate(ours):
            Event.objects.filter(pk=event.pk).update(tx=10**12 - number)
        settled_restore()
        record("test.after", actor="tests")
        until_settled()
        found = settled().filter(kind__startswith="test.").values_list("kind", flat=True)
        assert list(found) == ["test.2", "test.1", "test.0", "test.after"]

    def test_sessions_end_and_the_act_is_audited(self, world: World) -> None:
        Session.objects.create(key_digest="x", user=world.user, data="", expires_at=timezone.now() + timedelta(hours=1))
        settled_restore()
        assert not Session.objects.exists()
        assert AuditEntry.objects.get(action="restore").actor == "tests"

    def test_a_segment_that_the_backup_lacks_is_a_hole(self, rank: Allocation) -> None:
        segments(rank)[1].unlink()
        settled_restore()
        log = LogFile.objects.get(pk=rank.pk)
        assert log.holes == [[16, 32]]
        rank = ranks(rank.attempt)[0]
        assert logs.read_to_hole(rank, log, offset=0, limit=100) == (0, bytes(range(16)))
        assert logs.read_to_hole(rank, log, offset=16, limit=100) == (32, bytes(range(32, 40)))

    def test_a_file_that_the_backup_lacks_is_expired_and_one_that_arrives_comes_anew(self, rank: Allocation) -> None:
        kept = OutputFile.objects.get()
        arriving = OutputFile.objects.create(
            job=kept.job, allocation=rank, path="late.bin", size=9, stored=3, state=FileState.ARRIVING
        )
        place_of(kept).unlink()
        settled_restore()
        assert now_of(kept).state == FileState.EXPIRED
        assert (now_of(arriving).state, now_of(arriving).stored) == (FileState.ARRIVING, 0)

    def test_a_clock_before_the_backup_is_refused(self, world: World) -> None:
        manifest = Manifest(taken_at=timezone.now() + timedelta(hours=2), keys=[], migrations=[])
        with pytest.raises(BackupError, match="the clock of Postgres is before the moment of the backup"):
            settle(manifest, nodes_known=True, actor="tests")
        assert not Restore.objects.exists()
