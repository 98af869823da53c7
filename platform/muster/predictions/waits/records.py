"""The rows of waits, written behind the events: what was known of each job, what was foretold, and what came true.

A submission and a cycle write nothing here. Each event is read once; a turn reads the queue of a pool once.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import Q

from muster.common.clock import database_now
from muster.events.models import Event
from muster.events.reading import read_new
from muster.jobs.models import Job
from muster.predictions.forward.lookup import forwards_of
from muster.predictions.models import WaitCalibration, WaitOutcome, WaitReader, WaitRecord
from muster.predictions.waits.drift import watch_drift
from muster.predictions.waits.forecasts import Forecasts, predictor_of, read, shown, stored
from muster.predictions.waits.queues import queue_of
from scheduler.model.lifecycle import JOB_TERMINAL, GroupKind, Stage
from scheduler.predict.waits.features import VERSION, features
from scheduler.predict.waits.forecast import WaitSource
from scheduler.predict.waits.online import Online
from scheduler.predict.waits.state import Floats

BATCH = 500
KEPT_FOR = timedelta(days=400)
_MAX_STORED = 1000  # rows in one statement

_GROUPS = {f"{kind}.submitted": str(kind) for kind in GroupKind}
_OPENED = frozenset({"job.unblocked", "job.released", "job.resumed"})
_PLACED = "attempt.placed"
_OVER = frozenset(f"job.{state}" for state in JOB_TERMINAL)
HAS_OUTLIVED = """
EXISTS (
    SELECT FROM predictions_waitrecord wait JOIN jobs_job job ON job.id = wait.job_id
    WHERE wait.outcome = 'waits' AND wait.due_at <= clock_timestamp() AND job.startable
)"""
"""An SQL condition: `count_outlived` would find a wait."""
KINDS = ["job.submitted", *sorted(_GROUPS), *sorted(_OPENED), _PLACED, *sorted(_OVER)]


def read_events(*, most: int = BATCH) -> int:
    """Write and complete the rows of up to `most` new events, and return how many there were."""
    return read_new(WaitReader, KINDS, _act, most=most)


def _act(events: Sequence[Event]) -> None:
    submitted: list[int] = []
    groups: list[int] = []
    opened: dict[int, datetime] = {}
    placed: dict[int, datetime] = {}
    over: dict[int, datetime] = {}
    for event in events:
        if event.kind in _GROUPS:
            groups.append(event.data[_GROUPS[event.kind]])
        elif event.job_id is None:
            continue
        elif event.kind in _OPENED:
            opened[event.job_id] = event.at
        elif event.kind in _OVER:
            over.setdefault(event.job_id, event.at)
        elif event.kind != _PLACED:
            submitted.append(event.job_id)
        elif event.data.get("stage", Stage.FULL) == Stage.FULL:
            placed.setdefault(event.job_id, event.at)
    _open(submitted, groups, opened)
    _close(placed, over)


def _open(submitted: Collection[int], groups: Collection[int], opened: Mapping[int, datetime]) -> None:
    """Store rows of new jobs, and forecast anew those that may start by now."""
    new = Q(pk__in=submitted) | Q(group__in=groups)
    waiting = Q(pk__in=opened, wait__outcome=WaitOutcome.WAITS)
    if not submitted and not groups and not opened:
        return
    jobs = Job.objects.filter(new | waiting).select_related("vc").order_by("vc__pool_id", "group_id", "member", "pk")
    known = WaitRecord.objects.filter(job__in=opened).in_bulk()
    rows = []
    for pool_id, members in groupby(jobs, key=lambda job: job.vc.pool_id):
        rows += _foretold(pool_id, list(members), opened, known)
    fresh = [row for row in rows if row.pk not in known]
    WaitRecord.objects.bulk_create(fresh, batch_size=_MAX_STORED, ignore_conflicts=True)
    changed = ["version", "features", "forecasts", "submitted", "counted", "eligible_at", "due_at"]
    WaitRecord.objects.bulk_update([row for row in rows if row.pk in known], changed, batch_size=_MAX_STORED)


def _foretold(
    pool_id: int, jobs: Sequence[Job], opened: Mapping[int, datetime], known: Mapping[int, WaitRecord]
) -> list[WaitRecord]:
    """The rows of jobs of one pool, as of now."""
    queue, predictor = queue_of(pool_id, database_now()), predictor_of(pool_id)
    # Members of a group that ask for the same share what is found of the first.
    first = {_kind(job): job for job in reversed(jobs)}
    rows = [features(queue.without(job.pk), queue.job(job)) for job in first.values()]
    found = predictor.forecasts(rows, forwards_of(pool_id, list(first.values())))
    of_kind = dict(zip(first, zip(rows, found, strict=True), strict=True))
    return [_row(job, of_kind[_kind(job)], opened.get(job.pk), known.get(job.pk)) for job in jobs]


def _kind(job: Job) -> Hashable:
    return job.pk if job.group_id is None else (job.group_id, job.request)


def _row(
    job: Job, found: tuple[Floats, Forecasts], opened_at: datetime | None, before: WaitRecord | None
) -> WaitRecord:
    free = not (job.held or job.paused or job.blocked_by)
    row = WaitRecord(
        job=job,
        pool_id=job.vc.pool_id,
        version=VERSION,
        features=found[0].tolist(),
        forecasts=stored(found[1]),
        submitted=None if before is None else before.submitted or before.forecasts,
        eligible_at=max(job.submitted_at, job.eligible_at, opened_at or job.submitted_at) if free else None,
    )
    row.due_at = due_at(row)
    return row


def due_at(row: WaitRecord) -> datetime | None:
    """The time at which the wait outlives the p90 that is shown."""
    forecast = shown(read(row.forecasts))
    return row.eligible_at + timedelta(seconds=forecast.p90_s) if forecast and row.eligible_at else None


def _close(placed: Mapping[int, datetime], over: Mapping[int, datetime]) -> None:
    """Store the ends of waits, in their order, and correct the calibrations of their pools by them."""
    waiting = WaitRecord.objects.filter(job__in={*placed, *over}, outcome=WaitOutcome.WAITS)
    rows = sorted(waiting, key=lambda row: (row.pool_id, placed.get(row.pk) or over[row.pk]))
    for row in rows:
        started = row.pk in placed
        row.outcome = WaitOutcome.STARTED if started else WaitOutcome.LEFT
        row.over_at = placed[row.pk] if started else over[row.pk]
        if started and row.eligible_at is None:
            row.eligible_at = row.over_at
    _count(rows)
    WaitRecord.objects.bulk_update(
        rows, ["outcome", "over_at", "eligible_at", "due_at", "counted"], batch_size=_MAX_STORED
    )


def count_outlived(*, most: int = BATCH) -> int:
    """Count waits that have outlived their p90, and return how many there were."""
    now = database_now()
    rows = WaitRecord.objects.filter(due_at__lte=now, outcome=WaitOutcome.WAITS, job__startable=True)
    found = list(rows.order_by("pool_id", "due_at")[:most])
    _count(found, now)
    WaitRecord.objects.bulk_update(found, ["due_at", "counted"], batch_size=_MAX_STORED)
    return len(found)


def _count(rows: Sequence[WaitRecord], now: datetime | None = None) -> None:
    """Correct the calibrations by these waits, as they are over or have lasted until `now`."""
    for pool_id, of_pool in groupby(rows, key=lambda row: row.pool_id):
        kept, _ = WaitCalibration.objects.get_or_create(pool_id=pool_id)
        online = Online.from_json(kept.state)
        for row in of_pool:
            online = _observed(online, row, now)
        kept.state = online.to_json()
        kept.save(update_fields=["state"])
        watch_drift(kept)


def _observed(online: Online, row: WaitRecord, now: datetime | None) -> Online:
    until = row.over_at or now
    row.due_at = None
    if until is None or row.eligible_at is None or not row.forecasts:
        return online
    online, counted = online.observe(
        read(row.forecasts),
        max(0.0, (until - row.eligible_at).total_seconds()),
        started=row.outcome == WaitOutcome.STARTED,
        counted={WaitSource(name): levels for name, levels in row.counted.items()},
    )
    row.counted = {str(source): levels for source, levels in counted.items()}
    return online


def forget(*, most: int = 10 * _MAX_STORED) -> int:
    """Delete rows of waits that were over long ago, and return how many."""
    old = WaitRecord.objects.filter(over_at__lt=database_now() - KEPT_FOR).values("pk")[:most]
    return WaitRecord.objects.filter(pk__in=old).delete()[0]
