"""Checks of GPUs between jobs: when one is asked for, what came of it, and what checks that passed give back.

What is wanted of a node's agent stands in the node's row, which every beat reads anyway: asking costs the agents' calls
no query. Who holds a GPU is the agent's to know in the end: it checks none that a job has, and stops when one comes.

Every function that writes has the node locked first, then the rows of its GPUs' checks.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from muster.common.clock import database_now
from muster.common.errors import Conflict
from muster.common.models import DatabaseNow
from muster.common.validation import printable
from muster.events.services import audit, mail_operators, record, wake_pool
from muster.fleet.models import CheckResult, Gpu, GpuCheck, Node, Pool
from muster.fleet.services import mend_gpus, resume_node
from scheduler.diagnosis.checks import IDLE_S, UNANSWERED_AFTER_S, can_recover, is_relapse, pause_s, returns_to_service
from scheduler.diagnosis.health import HealthLevel, Recovers
from scheduler.model.lifecycle import NodeAdmin, NodeHealth

MAX_CHECKS_PER_ROUND = 200
"""Checks that one round of a pool asks for or gives up; the others wait for the next round."""
MAX_DURATION_S = 3600.0
_MAX_FIGURE = 1e9


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a check, as an agent reports it."""

    number: int
    uuid: str
    result: CheckResult
    how: str
    detail: str
    duration_s: float
    tflops: float | None
    gb_s: float | None


def begin_checks(node: Node, *, restarted: bool) -> None:
    """Have the locked node's GPUs checked from now on, after a restart first those that may be well again."""
    gpus = list(Gpu.objects.filter(node=node, present=True).values_list("pk", flat=True))
    every_s = node.pool.check_every_s
    now = database_now()
    rows = [
        # Spread, so that a pool that was installed at once is not checked at once.
        GpuCheck(gpu_id=pk, due_at=now + timedelta(seconds=IDLE_S + random.random() * every_s))  # noqa: S311
        for pk in gpus
    ]
    GpuCheck.objects.bulk_create(rows, ignore_conflicts=True)
    if restarted:
        ill = Gpu.objects.filter(pk__in=gpus).exclude(health=HealthLevel.OK)
        check_soon(ill.values_list("pk", flat=True))


def check_soon(gpu_ids: Iterable[int]) -> None:
    """Have suspect GPUs checked as soon as no job holds them. Checks that they passed before no longer count."""
    ids = sorted(gpu_ids)
    GpuCheck.objects.bulk_create([GpuCheck(gpu_id=pk) for pk in ids], ignore_conflicts=True)
    with transaction.atomic():
        rows = GpuCheck.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
        first = timedelta(seconds=pause_s(every_s=0, in_doubt=True, streak=0) or 0)
        GpuCheck.objects.filter(pk__in=[row.pk for row in rows]).update(
            due_at=DatabaseNow() + first, in_doubt=True, streak=0
        )


def ask_for_checks(*, node: Node, actor: str) -> int:
    """Have all GPUs of the node checked that no job has, whatever the pool says of checks; how many they are."""
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True, of=("self",)).select_related("pool").get(pk=node.pk)
        if node.admin == NodeAdmin.RETIRED or node.health != NodeHealth.READY:
            raise Conflict(f"node {node.name} is {node.health if node.admin != NodeAdmin.RETIRED else node.admin}")
        present = Gpu.objects.filter(node=node, present=True)
        if not present.exists():
            raise Conflict(f"node {node.name} has no GPU")
        free = list(present.exclude(pk__in=_held(present)).values_list("pk", flat=True))
        if not free:
            raise Conflict(f"jobs hold all GPUs of node {node.name}")
        GpuCheck.objects.bulk_create([GpuCheck(gpu_id=pk) for pk in free], ignore_conflicts=True)
        rows = list(GpuCheck.objects.select_for_update(no_key=True).filter(pk__in=free).order_by("pk"))
        _ask([row for row in rows if row.asked_at is None], actor)
        _tell_agent(node)
        record("node.check", actor=actor, node_id=node.pk, data={"node": node.name, "gpus": len(free)})
        audit("check", actor=actor, object_type="node", object_id=node.name, after={"gpus": len(free)})
    return len(free)


def ask_due_checks(pool: Pool) -> None:
    """Ask for the pool's checks that are due, and give up those that no agent answers."""
    late = GpuCheck.objects.filter(
        asked_at__lt=DatabaseNow() - timedelta(seconds=UNANSWERED_AFTER_S), gpu__node__pool=pool
    )
    due = GpuCheck.objects.filter(
        due_at__lte=DatabaseNow(),
        asked_at=None,
        gpu__present=True,
        gpu__node__pool=pool,
        gpu__node__health=NodeHealth.READY,
    ).exclude(gpu__node__admin=NodeAdmin.RETIRED)
    found = list(late.values_list("gpu__node_id", "pk")[:MAX_CHECKS_PER_ROUND])
    if pool.check_every_s:
        found += list(due.values_list("gpu__node_id", "pk")[:MAX_CHECKS_PER_ROUND])
    for node_id in sorted({node_id for node_id, _ in found}):
        _look_at(node_id, [pk for one, pk in found if one == node_id])


def take_results(*, node: Node, told: Iterable[Told]) -> list[tuple[str, str]]:
    """Store the results of checks that are asked for, and return the GPUs that failed, each with the detail."""
    failed = []
    for one in told:
        with transaction.atomic():
            locked = Node.objects.select_for_update(no_key=True, of=("self",)).select_related("pool").get(pk=node.pk)
            rows = GpuCheck.objects.select_for_update(no_key=True, of=("self",)).select_related("gpu")
            row = rows.filter(gpu__node=locked, gpu__uuid=one.uuid, number=one.number, asked_at__isnull=False).first()
            if row is None or one.result not in {CheckResult.PASSED, CheckResult.FAILED, CheckResult.STOPPED}:
                continue
            _keep(locked, row, one)
            _tell_agent(locked)
            if one.result is CheckResult.FAILED:
                failed.append((one.uuid, row.detail))
            elif one.result is CheckResult.PASSED:
                _give_back(locked, row)
    return failed


def _look_at(node_id: int, ids: Collection[int]) -> None:
    """Ask for the checks of these GPUs of a node, or put them off."""
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True, of=("self",)).select_related("pool").get(pk=node_id)
        locked = GpuCheck.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=ids)
        rows = list(locked.select_related("gpu").order_by("pk"))
        now = database_now()
        gpus = Gpu.objects.filter(pk__in=ids)
        held = set(_held(gpus))
        used = set(_held(gpus, since=now - timedelta(seconds=IDLE_S)))
        asked = []
        for row in rows:
            if row.asked_at is not None:
                _put_off(row, node, now, result=CheckResult.UNANSWERED)
            elif row.pk in held or (row.pk in used and not row.in_doubt):
                GpuCheck.objects.filter(pk=row.pk).update(due_at=now + timedelta(seconds=IDLE_S))
            elif row.day == now.date() and row.used_s >= node.pool.check_s_per_day:
                GpuCheck.objects.filter(pk=row.pk).update(due_at=_midnight(now))
            elif row.gpu.health == HealthLevel.FAILURE and not _can_heal(node, row.gpu):
                GpuCheck.objects.filter(pk=row.pk).update(due_at=now + timedelta(seconds=node.pool.check_every_s))
            else:
                asked.append(row)
        _ask(asked, "platform")
        _tell_agent(node)


def _ask(rows: Iterable[GpuCheck], actor: str) -> None:
    ids = [row.pk for row in rows]
    GpuCheck.objects.filter(pk__in=ids).update(asked_at=DatabaseNow(), asked_by=actor, number=F("number") + 1)


def _tell_agent(node: Node) -> None:
    """Write down what is wanted of the node's agent, where its beats find it."""
    wanted = GpuCheck.objects.filter(gpu__node=node, asked_at__isnull=False).order_by("pk")
    Node.objects.filter(pk=node.pk).update(checks=list(wanted.values_list("number", "gpu__uuid")))


def _held(gpus: object, *, since: datetime | None = None) -> list[int]:
    """Those of the GPUs that a job has, or had since then. Claims are of an app above this one."""
    held = Q(claims__isnull=False, claims__released_at=None)
    if since is not None:
        held |= Q(claims__released_at__gte=since)
    return list(Gpu.objects.filter(held, pk__in=gpus).values_list("pk", flat=True))  # type: ignore[misc]


def _keep(node: Node, row: GpuCheck, told: Told) -> None:
    """Store the result, and record an event if it differs from the last one or an operator asked for the check."""
    now = database_now()
    if told.result is CheckResult.STOPPED:
        _put_off(row, node, now, result=told.result)
        return
    before, asked_by = row.result, row.asked_by
    duration_s = min(max(told.duration_s, 0.0), MAX_DURATION_S)
    row.used_s = duration_s + (row.used_s if row.day == now.date() else 0.0)
    row.day, row.duration_s = now.date(), duration_s
    row.how, row.detail = printable(told.how)[:20], printable(told.detail)[:500]
    row.tflops, row.gb_s = _figure(told.tflops), _figure(told.gb_s)
    if told.result is CheckResult.PASSED:
        row.streak = max(row.streak, 0) + 1
    elif told.result is CheckResult.FAILED:
        row.streak = min(row.streak, 0) - 1
        row.in_doubt = True
    row.save(update_fields=["used_s", "day", "duration_s", "how", "detail", "tflops", "gb_s", "streak", "in_doubt"])
    _put_off(row, node, now, result=told.result)
    if before == told.result and asked_by == "platform":
        return
    data = {"node": node.name, "gpu": row.gpu.uuid, "index": row.gpu.index, "result": told.result, "how": row.how}
    figures = {"duration_s": duration_s, "tflops": row.tflops, "gb_s": row.gb_s}
    told_by = {"detail": row.detail, "asked_by": asked_by}
    record("gpu.check", actor=f"agent of {node.name}", node_id=node.pk, data=data | figures | told_by)


def _put_off(row: GpuCheck, node: Node, now: datetime, *, result: CheckResult) -> None:
    """The check is over, for now; set when the next one is due."""
    wait_s = pause_s(every_s=node.pool.check_every_s, in_doubt=row.in_doubt, streak=row.streak)
    if result is CheckResult.UNANSWERED:
        wait_s = max(node.pool.check_every_s, UNANSWERED_AFTER_S)
    elif result is CheckResult.STOPPED and not row.in_doubt:
        wait_s = IDLE_S
    if result is not CheckResult.STOPPED:  # of which nothing was learnt
        row.result, row.at = result, now
    row.asked_at = None
    row.due_at = None if wait_s is None else now + timedelta(seconds=wait_s)
    row.save(update_fields=["asked_at", "result", "at", "due_at"])


def _give_back(node: Node, row: GpuCheck) -> None:
    """Let jobs have the GPU, and its node, again if that is what checks that passed are enough for."""
    gpu, needed = row.gpu, node.pool.check_release
    restarted = _restarted(node, gpu)
    enough = returns_to_service(
        HealthLevel(gpu.health), _recovery_condition(gpu), restarted=restarted, passes=row.streak, needed=needed
    ) and not _relapsed(gpu.health_at, row.given_back_at)
    if enough:
        was, why = gpu.health, gpu.health_why
        mend_gpus([gpu])
        gpu.health = HealthLevel.OK
        GpuCheck.objects.filter(pk=row.pk).update(given_back_at=DatabaseNow())
        Node.objects.filter(pk=node.pk).update(version=F("version") + 1)
        reason = _passed(row.streak, row.how)
        data = {"node": node.name, "gpu": gpu.uuid, "index": gpu.index, "was": was, "why": why, "reason": reason}
        record("gpu.given_back", actor="platform", node_id=node.pk, data=data)
        before, after = {"unhealthy": [gpu.uuid], "why": why}, {"unhealthy": [], "reason": reason}
        audit("repair", actor="platform", object_type="node", object_id=node.name, before=before, after=after)
        wake_pool(node.pool_id)
        if was == HealthLevel.FAILURE:
            _open_again(node, gpu, reason)
    in_hole = node.black_hole_at is not None
    if in_hole and _resume(node, needed):
        in_hole = False
    is_well = gpu.health == HealthLevel.OK and not in_hole
    if is_well or row.streak >= max(needed, 1):  # more of them now would change nothing
        every_s = node.pool.check_every_s
        due_at = row.at + timedelta(seconds=every_s) if every_s and row.at else None
        GpuCheck.objects.filter(pk=row.pk).update(in_doubt=not is_well, due_at=due_at)


def _open_again(node: Node, gpu: Gpu, reason: str) -> None:
    """Resume a node that the platform has drained for GPUs of which this was the last that had failed.

    What a person has done anything with since stays as it is; so does what fails again within a day.
    """
    if node.admin != NodeAdmin.DRAINING or _relapsed(node.drained_for_gpu_at, node.given_back_at):
        return
    failed = Gpu.objects.filter(node=node, present=True, health=HealthLevel.FAILURE)
    if node.drained_for_gpu_at is None or failed.exists():
        return
    why = f"GPU {gpu.index}, the last that had failed, works again: {reason}"
    resume_node(node=node, reason=why, actor="platform")
    Node.objects.filter(pk=node.pk).update(given_back_at=DatabaseNow())
    mail_operators(
        subject=f"Node {node.name} takes jobs again",
        body=f"It was drained because a GPU had failed. {why}.\n",
    )


def _resume(node: Node, needed: int) -> bool:
    """Give a node back that failed whatever came to it, if each of its GPUs has passed enough checks since."""
    rows = list(GpuCheck.objects.filter(gpu__node=node, gpu__present=True).select_related("gpu"))
    count = Gpu.objects.filter(node=node, present=True).count()
    well = [row for row in rows if row.streak >= needed and row.gpu.health != HealthLevel.FAILURE]
    if not needed or not rows or len(well) < count or node.admin != NodeAdmin.CORDONED:
        return False
    if _relapsed(node.black_hole_at, node.given_back_at):
        return False
    reason = f"each of its {count} GPUs has passed {needed} checks in a row"
    resume_node(node=node, reason=reason, actor="platform")
    Node.objects.filter(pk=node.pk).update(given_back_at=DatabaseNow())
    GpuCheck.objects.filter(pk__in=[row.pk for row in rows], gpu__health=HealthLevel.OK).update(in_doubt=False)
    mail_operators(
        subject=f"Node {node.name} takes jobs again",
        body=f"It was cordoned because it failed its jobs, and {reason}.\n",
    )
    return True


def _relapsed(failed_at: datetime | None, given_back_at: datetime | None) -> bool:
    """Whether it failed again so soon that an operator must look at it."""
    if failed_at is None or given_back_at is None:
        return False
    return is_relapse(failed_at_s=failed_at.timestamp(), given_back_at_s=given_back_at.timestamp())


def _can_heal(node: Node, gpu: Gpu) -> bool:
    return can_recover(_recovery_condition(gpu), restarted=_restarted(node, gpu))


def _recovery_condition(gpu: Gpu) -> Recovers | None:
    return Recovers(gpu.heals) if gpu.heals else None


def _restarted(node: Node, gpu: Gpu) -> bool:
    """Whether the machine has booted since the GPU failed."""
    return bool(gpu.failed_boot) and node.boot_id not in {"", gpu.failed_boot}


def _passed(streak: int, how: str) -> str:
    times = "a check" if streak == 1 else f"{streak} checks in a row"
    return f"it has passed {times} ({how or 'unknown'})"


def _midnight(now: datetime) -> datetime:
    return (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def _figure(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), _MAX_FIGURE)
