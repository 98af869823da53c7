"""Store what agents report of GPUs, and act on the GPU and its node by the table in `scheduler.diagnosis.health`.

An agent is believed in what concerns its own node only. It can take its own GPUs out of service, and nothing else; what
it writes is cut, and what it repeats is counted.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from muster.common.models import DatabaseNow
from muster.common.rows import first_of
from muster.common.validation import printable
from muster.events.services import mail_operators, record, wake_pool
from muster.fleet.checks import check_soon
from muster.fleet.models import Gpu, HealthReport, Node, Pool
from muster.fleet.services import drain_node, mend_gpus
from scheduler.diagnosis.health import (
    Action,
    HealthLevel,
    Kind,
    Meaning,
    Recovers,
    harder,
    is_worse,
    meaning_of,
    recovery_condition,
)
from scheduler.model.lifecycle import NodeAdmin

log = logging.getLogger(__name__)

WARNING_STRIKES = 100.0
"""A GPU with a warning counts as this many strikes on its node: more than any limit that placement uses."""
WARNING_LASTS = timedelta(hours=1)
"""A warning that is not repeated for this long is over: agents repeat lasting conditions."""
MAX_REPORTS_PER_MINUTE, MAX_REPORTS_STORED = 60, 500
_MAX_XID = 2**31 - 1
# What goes on is told again and again; an Xid each time that it happens.
_GOES_ON = frozenset(
    {Kind.ROW_REMAP_PENDING, Kind.ROW_REMAP_FAILED, Kind.THROTTLE, Kind.NVLINK, Kind.MEMORY_HELD, Kind.CHECK_FAILED}
    | {Kind.DISK_FULL}
)
_SAME, _SAME_XID = timedelta(hours=1), timedelta(seconds=10)


def take_report(*, node: Node, gpu: Gpu | None, kind: str, uuid: str | None, xid: int | None, detail: str) -> Meaning:
    """Keep what an agent reports, draw the consequences for the GPU and its node, and return what it means.

    Repeats are merged into the last report. The GPU's level is that of the worst report since it was repaired; from the
    commit on, a failed GPU is given to no job. The job that holds it is handled in `muster.agents.health`.
    """
    kind, detail = kind[:60], printable(detail)[:500]
    if xid is not None and not 0 <= xid <= _MAX_XID:
        xid = None
    number = xid if kind == Kind.XID else None
    meaning = meaning_of(kind, xid=xid, detail=detail)
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True, of=("self",)).get(pk=node.pk)
        if not _is_repeated(node, gpu, kind, number, meaning, detail=detail) and _has_room(node):
            _keep(node, gpu, kind=kind, uuid=uuid, xid=number, detail=detail, meaning=meaning)
        if gpu is not None:
            _worsen(node, gpu, meaning, number)
            if meaning.level is not HealthLevel.OK:
                _note_recovery(node, gpu, recovery_condition(meaning, kind))
            if meaning.action is Action.DRAIN_NODE and node.admin == NodeAdmin.ACTIVE:
                reason = f"GPU {gpu.index} has failed ({meaning.words}): restart the machine"
                drain_node(node=node, reason=reason, actor="platform")
                Node.objects.filter(pk=node.pk).update(drained_for_gpu_at=DatabaseNow())
    return meaning


def let_warnings_end(pool: Pool) -> None:
    """GPUs whose warnings were not told again for a while are well again."""
    told = HealthReport.objects.filter(
        gpu=OuterRef("pk"), level=HealthLevel.WARNING, over_at__isnull=True, last_at__gte=DatabaseNow() - WARNING_LASTS
    )
    warned = Gpu.objects.filter(node__pool=pool, health=HealthLevel.WARNING).exclude(Exists(told))
    for gpu in warned.select_related("node"):
        with transaction.atomic():
            Node.objects.select_for_update(no_key=True, of=("self",)).get(pk=gpu.node_id)
            if not warned.filter(pk=gpu.pk).exists():
                continue  # it was told again, or has failed, before the lock was ours
            mend_gpus([gpu])
            data = {"node": gpu.node.name, "gpu": gpu.uuid, "level": HealthLevel.OK, "was": HealthLevel.WARNING}
            record("gpu.health_level", actor="platform", node_id=gpu.node_id, data=data)


def _is_repeated(node: Node, gpu: Gpu | None, kind: str, xid: int | None, meaning: Meaning, *, detail: str) -> bool:
    """Whether a report of the same was kept a short while ago, with which it is counted."""
    since = DatabaseNow() - (_SAME if kind in _GOES_ON else _SAME_XID)
    newest = first_of(
        HealthReport.objects.filter(
            node=node, gpu=gpu, kind=kind, xid=xid, level=meaning.level, over_at__isnull=True, last_at__gte=since
        ).order_by("-pk")
    )
    if newest is None:
        return False
    # What goes on may change: a disk that was short of bytes is short of files as well.
    words = detail if kind in _GOES_ON else newest.detail
    HealthReport.objects.filter(pk=newest.pk).update(count=F("count") + 1, last_at=DatabaseNow(), detail=words)
    return True


def _has_room(node: Node) -> bool:
    of_late = HealthReport.objects.filter(node=node, at__gte=DatabaseNow() - timedelta(minutes=1)).count()
    if of_late >= MAX_REPORTS_PER_MINUTE:
        log.warning("node %s reports more of its health than is kept", node.name)
        return False
    kept = HealthReport.objects.filter(node=node).order_by("-pk").values_list("pk", flat=True)
    oldest = list(kept[MAX_REPORTS_STORED - 1 : MAX_REPORTS_STORED])
    if oldest:
        HealthReport.objects.filter(node=node, pk__lte=oldest[0]).delete()
    return True


def _keep(
    node: Node, gpu: Gpu | None, *, kind: str, uuid: str | None, xid: int | None, detail: str, meaning: Meaning
) -> None:
    HealthReport.objects.create(
        node=node,
        gpu=gpu,
        kind=kind,
        xid=xid,
        level=meaning.level,
        action=meaning.action,
        words=meaning.words,
        detail=detail,
    )
    data = {"node": node.name, "kind": kind, "gpu": uuid and uuid[:80], "detail": detail, "xid": xid}
    data |= {"level": meaning.level, "action": meaning.action}
    record("gpu.health" if gpu else "node.health", actor=f"agent of {node.name}", node_id=node.pk, data=data)


def _worsen(node: Node, gpu: Gpu, meaning: Meaning, xid: int | None) -> None:
    """Give the GPU the level if it is worse than its own; each level worse has its own event."""
    gpu.refresh_from_db(fields=["health"])
    if not is_worse(meaning.level, HealthLevel(gpu.health)):
        return
    why = f"Xid {xid}: {meaning.words}" if xid is not None else meaning.words
    Gpu.objects.filter(pk=gpu.pk).update(health=meaning.level, health_at=DatabaseNow(), health_why=why)
    data = {"node": node.name, "gpu": gpu.uuid, "index": gpu.index, "level": meaning.level, "was": gpu.health}
    record("gpu.health_level", actor="platform", node_id=node.pk, data=data | {"why": why, "action": meaning.action})
    if meaning.level is HealthLevel.FAILURE:
        Node.objects.filter(pk=node.pk).update(version=F("version") + 1)
        _tell_operators(node, gpu, why, meaning)
    wake_pool(node.pool_id)


def _note_recovery(node: Node, gpu: Gpu, condition: Recovers) -> None:
    """Note what it takes for the GPU to come back by itself: the hardest of all that was reported since it was well."""
    known = Gpu.objects.values_list("heals", flat=True).get(pk=gpu.pk)
    needs = harder(Recovers(known) if known else None, condition)
    # What was reported now has not been healed by any restart before.
    Gpu.objects.filter(pk=gpu.pk).update(heals=needs, failed_boot=node.boot_id)
    check_soon([gpu.pk])


_TODO = {
    Action.RESET_GPU: "Reset the GPU when nothing runs on it, then repair it in the admin.",
    Action.CHECK_GPU: "It gets jobs again when a check of it has passed.",
    Action.DRAIN_GPU: "Look at the GPU and its links, then repair it in the admin.",
    Action.DRAIN_NODE: "The node is drained. Restart the machine. Where its pool lets no checks give GPUs back, "
    "repair the GPU then, and resume the node.",
}


def _tell_operators(node: Node, gpu: Gpu, why: str, meaning: Meaning) -> None:
    mail_operators(
        subject=f"GPU {gpu.index} of node {node.name} has failed",
        body=f"{why[0].upper()}{why[1:]}.\nIt gets no jobs, and what ran on it is started elsewhere.\n"
        f"{_TODO.get(meaning.action, '')}\n",
    )
