"""Changes that a restored database needs before the platform uses it, so that nothing is given or started twice."""

from __future__ import annotations

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Max

from muster.accounts.models import Session, User
from muster.common.clock import database_now
from muster.events.models import Event, Restore
from muster.events.services import audit, record
from muster.fleet.models import Node, NodeLease
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Allocation, Job
from muster.local.backups.archive import BackupError, Manifest
from muster.logs.store import state_missing_segments
from muster.notices.models import Reader as NoticeReader
from muster.outputs.store import state_missing_files
from muster.usage.models import Reader as GradeReader
from scheduler.model.lifecycle import AllocationState, LeaseState, NodeAdmin
from scheduler.model.reasons import Reason

IDS_PER_S = 100_000
"""No table grows faster: the ids that were given since the backup are fewer than this for each second."""
JOBS_PER_S = 1_000
"""The same of jobs, whose ids people read and type."""
MARGIN_S = 3_600
"""Clocks of the two moments may differ by so much."""
SMALL_STEP = 1_000
"""For sequences of 32 bits, which are those of Django's own tables: only `migrate` adds rows there."""
EPOCHS = 1_000_000_000
UIDS = 1_000
"""The highest number of users that may have been added since the backup."""

_ADVANCE = """
SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + CASE
    WHEN data_type <> 'bigint'::regtype THEN %s
    WHEN format('%%I.%%I', schemaname, sequencename) = pg_get_serial_sequence(%s, 'id') THEN %s
    ELSE %s END)
FROM pg_sequences WHERE schemaname = 'public'
"""
_LAST_JOB = "SELECT last_value FROM pg_sequences WHERE schemaname || '.' || sequencename = %s"


def settle(manifest: Manifest, *, nodes_known: bool, actor: str) -> Restore:
    """Prepare the restored database, in one transaction, as the role that owns the tables.

    1. Every sequence is advanced beyond the ids that can have been given since: ids are fences.
    2. Every lease is void under an epoch beyond those given since: agents register again, and report first.
    3. Attempts that a node had not claimed at that moment end as lost: the node may have claimed them since.
    4. Sessions end: those that were ended since would be valid again. Uids given since are not given again.

    A clock that is earlier than the backup is a `BackupError`.
    """
    with transaction.atomic():
        elapsed_s = (database_now() - manifest.taken_at).total_seconds()
        if elapsed_s < -MARGIN_S:
            raise BackupError(f"the clock of Postgres is before the moment of the backup, {manifest.taken_at}: set it")
        last_job = _advance_ids(max(elapsed_s, 0.0) + MARGIN_S)
        _keep_order_of_events()
        NodeLease.objects.update(epoch=F("epoch") + EPOCHS, state=LeaseState.VOID)
        Node.objects.exclude(admin=NodeAdmin.RETIRED).update(must_report=True, nonce="")
        Session.objects.all().delete()
        restore = Restore.objects.create(
            backup_at=manifest.taken_at, nodes_known=nodes_known, last_job=last_job, last_uid=_last_uid()
        )
        Restore.objects.filter(resumed_at=None).exclude(pk=restore.pk).update(resumed_at=restore.at)
        _lose_unclaimed(actor)
        lost = {"log_bytes": state_missing_segments(), "files": state_missing_files()}
        told = {"backup_at": manifest.taken_at.isoformat(), "nodes_known": nodes_known, "missing": lost}
        audit("restore", actor=actor, object_type="platform", object_id="database", after=told)
        record("platform.restored", actor=actor, data=told)
    return restore


def _advance_ids(elapsed_s: float) -> int:
    """Advance all sequences, and return the highest id of a job that can have been given."""
    table = Job._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [SMALL_STEP, table, int(elapsed_s * JOBS_PER_S), int(elapsed_s * IDS_PER_S)])
        cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table])
        cursor.execute(_LAST_JOB, cursor.fetchone())
        last: int = cursor.fetchone()[0]
    return last


def _keep_order_of_events() -> None:
    """Move the events before this transaction: a new server counts its transactions from the beginning."""
    newest = Event.objects.aggregate(tx=Max("tx"))["tx"]
    places = [reader.objects.values_list("tx", flat=True).first() for reader in (NoticeReader, GradeReader)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        ahead = max(tx for tx in (newest, *places, 0) if tx is not None) - cursor.fetchone()[0] + 1
    if ahead > 0:
        for table in (Event, NoticeReader, GradeReader):
            table.objects.update(tx=F("tx") - ahead)


def _last_uid() -> int:
    """The highest uid that may have been given: its next user could read files that the first one left."""
    uids: range = settings.UID_RANGE
    taken = [uid for uid in User.objects.values_list("uid", flat=True) if uid in uids]
    return min(max(taken, default=uids[0] - 1) + UIDS, uids[-1])


def _lose_unclaimed(actor: str) -> None:
    for allocation in Allocation.objects.filter(state=AllocationState.RESERVED).order_by("attempt_id", "pk"):
        lose_allocations(
            attempt_id=allocation.attempt_id,
            node_id=allocation.node_id,
            reason=Reason.UNKNOWN,
            detail="the platform was restored from a backup, and the node may have started it after the backup",
            blame=False,
            actor=actor,
        )
