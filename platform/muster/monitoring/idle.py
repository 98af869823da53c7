"""Watching running jobs for idleness: what their GPUs did is read from the minutes of the samples, a few at a time.

Each look reads what is new for all jobs in one statement and adds it to what was counted before, so that its cost does
not grow with how long jobs run or may stand idle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from muster.events.services import record, recorded_together
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.models import Attempt
from muster.jobs.spec.spec import Idle
from muster.monitoring.models import IdleWatch
from muster.samples.families import GPU
from muster.samples.levels import watermarks
from scheduler.diagnosis.idle import (
    STEP_S,
    Action,
    Count,
    Finding,
    Policy,
    Reading,
    Rule,
    RuleOwner,
    add_readings,
    judge,
    rules_of,
)
from scheduler.model.lifecycle import AttemptState, Desired, Stage
from scheduler.model.reasons import Reason

MAX_LOOK_BACK = timedelta(minutes=15)
"""Older readings are skipped and count as a gap: a worker that was away does not read hours of minutes."""

_MINUTES = next(level for level in GPU.levels if level.seconds == STEP_S)
# A GPU that two jobs share shows what both do, which says nothing about one of them.
_READINGS = f"""
WITH minutes AS (
    SELECT gpu_id, at, allocation_id, utilization, count(*) OVER (PARTITION BY gpu_id, at) AS holders
    FROM {_MINUTES.table} WHERE at >= %s AND at < %s AND allocation_id <> 0
)
SELECT one.attempt_id, minutes.at, max(utilization)::float8, count(utilization)
FROM minutes JOIN jobs_allocation one ON one.id = minutes.allocation_id
WHERE minutes.holders = 1 AND one.attempt_id = ANY(%s)
GROUP BY one.attempt_id, minutes.at ORDER BY minutes.at
"""  # noqa: S608 - the table's name is ours


@dataclass(frozen=True, slots=True)
class Watched:
    """A running attempt under at least one rule."""

    attempt_id: int
    number: int
    job_id: int
    tenant_id: int
    gpus: int
    running_at: datetime
    rules: Mapping[RuleOwner, Rule]


def look(*, now: datetime) -> int:
    """Count what is new, tell owners of what is idle, stop what must be; returns how many jobs are marked as idle.

    1. What runs under a rule has a row; rows that another worker has locked are left to it.
    2. The minutes that are complete and new are read in one statement, and counted.
    3. What became idle for long enough is told, once; what is at work again is told, too.
    4. Stops follow after the commit. A worker that dies before them finds the same the next time.
    """
    IdleWatch.objects.exclude(attempt__state=AttemptState.RUNNING).delete()
    upto = watermarks(GPU).get(_MINUTES.table)
    if upto is None:
        return 0
    watched = {one.attempt_id: one for one in _watched()}
    stops: list[tuple[Watched, Finding]] = []
    with transaction.atomic(), recorded_together():
        rows = _locked(watched)
        readings = _readings(rows, watched, upto=upto)
        for row in rows:
            one = watched[row.attempt_id]
            before = _counts_of(row)
            counts = _counted(one, before, readings[one.attempt_id])
            finding = judge(one.rules, counts, now_s=now.timestamp())
            _take_note(row, one, finding, now=now, at_work=_is_at_work(counts))
            row.counts = {owner.value: asdict(count) for owner, count in counts.items()}
            if finding is not None and finding.stops:
                stops.append((one, finding))
        IdleWatch.objects.bulk_update(rows, ["counts", "warned_at", "since", "stop_at"], batch_size=500)
    for one, finding in stops:
        stop_attempt(
            attempt_id=one.attempt_id,
            outcome=AttemptState.FAILED,
            reason=Reason.IDLE,
            detail=_why_stopped(one, finding),
            actor="platform",
        )
    return sum(row.warned_at is not None for row in rows)


def policy_of(action: str, below: float, for_s: float, binding: bool) -> Policy:
    """The policy in a tenant's columns."""
    return Policy(Action(action), below, for_s, binding)


def _watched() -> Iterable[Watched]:
    """Running jobs with GPUs under a rule, without screening runs, which are short, and kept jobs, idle on purpose."""
    running = Attempt.objects.filter(state=AttemptState.RUNNING, stage=Stage.FULL).filter(
        Q(job__spec__has_key="idle") | ~Q(job__tenant__idle_action=Action.OFF),
        kept_until__isnull=True,
        request__choices__0__gpus__gt=0,
        job__desired=Desired.RUN,
        running_at__isnull=False,
    )
    tenant = (f"job__tenant__idle_{name}" for name in ("action", "below", "for_s", "binding"))
    columns = ("pk", "number", "job_id", "job__tenant_id", "request", "running_at", "job__spec__idle")
    for pk, number, job_id, tenant_id, request, running_at, own, *policy in running.values_list(*columns, *tenant):
        rules = rules_of(Idle.model_validate(own).rule if own else None, policy_of(*policy))
        if rules:
            gpus = request.nodes * request.first.gpus
            yield Watched(pk, number, job_id, tenant_id, gpus, running_at, rules)


def _locked(watched: Mapping[int, Watched]) -> list[IdleWatch]:
    known = set(IdleWatch.objects.filter(pk__in=list(watched)).values_list("pk", flat=True))
    fresh = [IdleWatch(attempt_id=attempt_id) for attempt_id in sorted(watched.keys() - known)]
    IdleWatch.objects.bulk_create(fresh, ignore_conflicts=True)
    rows = IdleWatch.objects.select_for_update(skip_locked=True, no_key=True).filter(pk__in=list(watched))
    return list(rows.order_by("pk"))


def _readings(
    rows: list[IdleWatch], watched: Mapping[int, Watched], *, upto: datetime
) -> defaultdict[int, list[Reading]]:
    """The complete minutes of each attempt that one of its rules has not counted yet, and perhaps some that it has."""
    found: defaultdict[int, list[Reading]] = defaultdict(list)
    if not rows:
        return found
    since = min((_read_upto(row, watched[row.attempt_id]) for row in rows), default=upto)
    with connection.cursor() as cursor:
        cursor.execute(_READINGS, [max(since, upto - MAX_LOOK_BACK), upto, [row.attempt_id for row in rows]])
        for attempt_id, at, most, seen in cursor.fetchall():
            complete = seen == watched[attempt_id].gpus
            found[attempt_id].append(Reading(at.timestamp(), most, complete))
    return found


def _read_upto(row: IdleWatch, one: Watched) -> datetime:
    counts = _counts_of(row)
    if any(owner not in counts for owner in one.rules):
        return one.running_at
    return _moment(min(counts[owner].upto_s for owner in one.rules))


def _counted(one: Watched, before: Mapping[RuleOwner, Count], readings: list[Reading]) -> dict[RuleOwner, Count]:
    started_s = one.running_at.timestamp()
    return {
        owner: add_readings(before.get(owner, Count(started_s)), readings, rule=rule, started_s=started_s)
        for owner, rule in one.rules.items()
    }


def _counts_of(row: IdleWatch) -> dict[RuleOwner, Count]:
    return {RuleOwner(name): Count(**count) for name, count in row.counts.items()}


def _is_at_work(counts: Mapping[RuleOwner, Count]) -> bool:
    """Whether the last that was seen of it was work, and not just nothing for a long time."""
    return all(count.since_s is None and count.was_busy for count in counts.values())


def _take_note(row: IdleWatch, one: Watched, finding: Finding | None, *, now: datetime, at_work: bool) -> None:
    """Mark the row, and tell what is new: that the job is idle, that it is stopped for it, or that it is at work."""
    if finding is None:
        if row.warned_at is not None and at_work:
            _tell(one, "attempt.busy", {})
        row.warned_at = row.since = row.stop_at = None
        return
    stop_at = None if finding.stop_at_s is None else _moment(finding.stop_at_s)
    if row.warned_at is None or (row.stop_at is None and stop_at is not None):
        told = {
            "since": _text(_moment(finding.since_s)),
            "stop_at": None if stop_at is None else _text(stop_at),
            "below": finding.below,
            "by": finding.owner.value,
            "gpus": one.gpus,
        }
        _tell(one, "attempt.idle", told)
        row.warned_at = now
    row.since, row.stop_at = _moment(finding.since_s), stop_at


def _tell(one: Watched, kind: str, data: dict[str, Any]) -> None:
    record(kind, actor="platform", tenant_id=one.tenant_id, job_id=one.job_id, data={"attempt": one.number, **data})


def _why_stopped(one: Watched, finding: Finding) -> str:
    gpus = "its GPU" if one.gpus == 1 else f"each of its {one.gpus} GPUs"
    rule = "its own `idle`" if finding.owner is RuleOwner.JOB else "its tenant's rule for idle jobs"
    since = _moment(finding.since_s).strftime("%Y-%m-%d %H:%M UTC")
    return f"{gpus} did less than {finding.below:g} % since {since}: stopped by {rule}"


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _text(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
