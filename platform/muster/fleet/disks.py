"""The disks of nodes that jobs fill, as their agents tell: how much is left, and whether anything may start there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F

from muster.common.models import DatabaseNow
from muster.events.models import Event
from muster.events.services import mail_operators, record, wake_pool
from muster.fleet.bars import bars_of
from muster.fleet.models import HealthReport, Node
from scheduler.diagnosis.health import Kind

_MAIL_AGAIN_AFTER = timedelta(hours=1)
"""A job that fills a disk and is stopped may be tried again: that is no news for operators each time."""

_LEFT = """
INSERT INTO fleet_nodedisk (node_id, at, size_mib, free_mib)
SELECT told.node_id, clock_timestamp(), told.size_mib, told.free_mib
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS told (node_id, size_mib, free_mib)
ON CONFLICT (node_id) DO UPDATE SET at = excluded.at, size_mib = excluded.size_mib, free_mib = excluded.free_mib
"""


def keep_disks(told: Mapping[int, tuple[int, int]]) -> None:
    """Keep the size and what is free of the disks of many nodes (MiB), by node; what no disk can have is left out."""
    # In the order of the keys, for the reason that `muster.samples.store.add` has.
    rows = [(pk, size, free) for pk, (size, free) in sorted(told.items()) if 0 <= free <= size]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_LEFT, [list(column) for column in zip(*rows, strict=True)])


def note_disk(*, node: Node, full: bool) -> None:
    """Give a node whose disk is full nothing new until it has room again; operators are told."""
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True, of=("self",)).get(pk=node.pk)
        if (node.disk_full_at is not None) == full:
            return
        Node.objects.filter(pk=node.pk).update(
            disk_full_at=DatabaseNow() if full else None,
            barred=bars_of(node.inventory, disk_full=full),
            version=F("version") + 1,
        )
        kind = "node.disk_full" if full else "node.disk_room"
        told_of_late = Event.objects.filter(kind=kind, node_id=node.pk, at__gte=DatabaseNow() - _MAIL_AGAIN_AFTER)
        if full and not told_of_late.exists():
            mail_operators(
                subject=f"The disk of node {node.name} is full",
                body="It has too few bytes or too few files (inodes) free; the node's page says which. It gets no new "
                "jobs until there is room. The job that takes most of that is stopped, if it takes enough of it to be "
                "the cause; what else lies there is for you to look at.\n",
            )
        if not full:
            reports = HealthReport.objects.filter(node=node, gpu=None, kind=Kind.DISK_FULL, over_at=None)
            reports.update(over_at=DatabaseNow())
        record(kind, actor=f"agent of {node.name}", node_id=node.pk, data={"node": node.name})
        wake_pool(node.pool_id)
