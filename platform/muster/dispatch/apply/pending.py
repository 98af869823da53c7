"""Stores the pending reason of each waiting job when it changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from django.db import connection, transaction

from muster.dispatch.snapshot.kept import StoredHold
from muster.events.services import record, recorded_together
from muster.jobs.models import Job
from scheduler.admission.screening import screens
from scheduler.model import Snapshot
from scheduler.model.delays import DELAY_OF
from scheduler.model.lifecycle import HoldReason, JobState
from scheduler.model.plan import MOMENTS, Hold, Plan

# Each statement scans all waiting jobs once, and its transaction blocks edits and cancellations of its jobs.
MAX_JOBS_PER_BATCH = 2_000


# A virtual cluster that was deleted meanwhile is left out.
_STORE_ORDERS = """
INSERT INTO jobs_queueorder AS stored (vc_id, job_ids)
SELECT vc.id, new.job_ids::bigint[] FROM unnest(%s::bigint[], %s::text[]) AS new(vc_id, job_ids)
JOIN tenants_virtualcluster vc ON vc.id = new.vc_id
ON CONFLICT (vc_id) DO UPDATE SET job_ids = excluded.job_ids, at = clock_timestamp()
WHERE stored.job_ids <> excluded.job_ids
"""


def pending_reason_data(hold: Hold) -> dict[str, Any]:
    """The stored form of a pending reason, without the queue position, which changes for many jobs at each start."""
    return {
        "reason": str(hold.reason),
        "delay": str(hold.delay or DELAY_OF[hold.reason]),
        "detail": hold.detail,
        "evidence": {key: _moment(value) if key in MOMENTS else value for key, value in hold.evidence.items()},
        "helps": list(hold.helps),
    }


def _moment(at: float | str) -> str:
    """A moment as stored in JSON; the pages show it in local time."""
    return datetime.fromtimestamp(float(at), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def pending_reserved(plan: Plan, reserved: Iterable[int]) -> Iterator[Hold]:
    """The pending reasons of jobs whose victims have just been asked to stop; the next cycle would say the same."""
    places = {place.job_id: place for place in plan.places}
    for job_id in reserved:
        gpus = sum(len(share.gpu_ids) for share in places[job_id].allocations)
        yield Hold(
            job_id,
            HoldReason.RESERVED,
            f"{gpus} GPU{'' if gpus == 1 else 's'} are reserved for this job while the jobs that hold them stop",
            {"gpus": gpus},
            ("the jobs that were asked to stop have stopped",),
            position=1,
        )


def pending_while_paused(pool_id: int, why: str) -> Iterator[Hold]:
    """The pending reasons of the pool's waiting jobs while placement is paused."""
    waiting = Job.objects.filter(pool_id=pool_id, startable=True).order_by("pk")
    helps = ("each node has reported, or the jobs that it may still run have stopped",)
    for job_id in waiting.values_list("pk", flat=True):
        yield Hold(job_id, HoldReason.MAINTENANCE, why, {}, helps, position=1)


def write_pending_reasons(holds: Iterable[Hold], refused: Mapping[int, str], old: Mapping[int, StoredHold]) -> int:
    """Store the pending reasons that are not the `old` ones, and return their number."""
    new = _data_of(list(holds))
    for job_id, why in refused.items():
        new[job_id] = {
            "reason": str(HoldReason.REFUSED),
            "delay": str(DELAY_OF[HoldReason.REFUSED]),
            "detail": f"it was about to start, and then: {why}",
            "evidence": {},
            "helps": ["the next cycle tries again"],
        }
    same: dict[tuple[int, int], bool] = {}  # thousands of jobs share a few hundred reasons, stored and new
    changed = {}
    for pk, data in new.items():
        if pk in old:
            hold = old[pk].hold
            key = id(hold), id(data)
            if key not in same:
                same[key] = hold == data
            if not same[key]:
                changed[pk] = data
    ids = sorted(changed)
    for start in range(0, len(ids), MAX_JOBS_PER_BATCH):
        some = ids[start : start + MAX_JOBS_PER_BATCH]
        with transaction.atomic(), recorded_together():
            for pk in _store({pk: changed[pk] for pk in some}):
                _tell_if_new(pk, old[pk], changed[pk])
    return len(changed)


def _data_of(holds: Sequence[Hold]) -> dict[int, dict[str, Any]]:
    """The stored forms by job; holds with the same reason, words and evidence share one."""
    forms: dict[tuple[int, ...], dict[str, Any]] = {}
    found: dict[int, dict[str, Any]] = {}
    for hold in holds:
        key = id(hold.reason), id(hold.detail), id(hold.evidence), id(hold.helps), id(hold.delay)
        form = forms.get(key)
        if form is None:
            form = forms[key] = pending_reason_data(hold)
        found[hold.job_id] = form
    return found


def stored_holds(pool_id: int) -> dict[int, StoredHold]:
    """The pending reasons that are stored of the waiting jobs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, tenant_id, hold::text, hold_reason FROM jobs_job WHERE pool_id = %s AND startable", [pool_id]
        )
        return {
            pk: StoredHold(tenant_id, orjson.loads(hold) if hold else None, reason)
            for pk, tenant_id, hold, reason in cursor.fetchall()
        }


def _store(holds: Mapping[int, dict[str, Any]]) -> list[int]:
    """Write the pending reasons of the jobs that still wait, in one statement, and return which these are."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_job SET hold = new.hold::jsonb, hold_reason = new.reason"
            " FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS new(id, hold, reason)"
            " WHERE jobs_job.id = new.id AND jobs_job.startable RETURNING jobs_job.id",
            [
                list(holds),
                [orjson.dumps(hold).decode() for hold in holds.values()],
                [hold["reason"] for hold in holds.values()],
            ],
        )
        return sorted(job_id for (job_id,) in cursor.fetchall())


def write_queue_orders(snapshot: Snapshot, plan: Plan) -> None:
    """Store the order in which the jobs of each virtual cluster wait after the plan, where it has changed."""
    stored = {vc.id for vc in snapshot.vcs if not screens(vc.id)}
    orders: dict[int, list[int]] = {}
    for hold in plan.holds:
        vc_id = snapshot.waiting_by_id[hold.job_id].vc_id
        if vc_id in stored:
            orders.setdefault(vc_id, []).append(hold.job_id)
    if not orders:
        return
    with connection.cursor() as cursor:
        cursor.execute(_STORE_ORDERS, [list(orders), [f"{{{','.join(map(str, ids))}}}" for ids in orders.values()]])


def _tell_if_new(job_id: int, before: StoredHold, hold: dict[str, Any]) -> None:
    """Record an event if the reason or the delay changed; changed numbers are not recorded."""
    if before.reason != hold["reason"] or (before.hold or {}).get("delay") != hold["delay"]:
        data = {"state": str(JobState.QUEUED)} | {name: hold[name] for name in ("reason", "delay", "detail")}
        record("job.held", actor="scheduler", tenant_id=before.tenant_id, job_id=job_id, data=data)
