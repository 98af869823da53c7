"""Looks after the sweeps that go on: takes over what members report, and stops, pauses and ends what has to.

Every few seconds, each active sweep for itself, so that one that fails holds up no other. All of it can be done again:
what a member has reported at a rung stays as it was first seen, and the verdicts follow from that alone.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from muster.common.clock import database_now
from muster.common.models import DatabaseNow
from muster.jobs.attempt.ending import cancel_for, pause_job, resume_jobs
from muster.jobs.attempt.estimates import estimate_members
from muster.jobs.groups.ends import stop_group
from muster.jobs.groups.progress import held_gpu_s
from muster.jobs.groups.services import waits_for_turn
from muster.jobs.models import Job, JobGroup
from muster.monitoring.models import Series
from muster.monitoring.store import curve_of
from muster.sweeps.ends import end_sweep_if_over, reason_to_stop
from muster.sweeps.models import Progress, Trial
from muster.sweeps.selectors import search_member
from muster.sweeps.spec import SweepSpec, sweep_of
from scheduler.model.lifecycle import (
    JOB_TERMINAL,
    Desired,
    GroupKind,
    GroupState,
    HoldReason,
    JobState,
)
from scheduler.model.reasons import Reason
from scheduler.search.history import saved_gpu_s
from scheduler.search.outlook import gpu_s_per_step, steps_left
from scheduler.search.rungs import Action, Judgement, Member, Rungs, judge

log = logging.getLogger(__name__)

MAX_POINTS = 500
"""Of the best value so far; beyond that the oldest half is thinned out."""
MAX_ACTS = 200
"""Members that are stopped or paused in one look, which takes some seconds; the next look goes on."""
ANY_ACTIVE = f"EXISTS (SELECT FROM jobs_jobgroup WHERE kind = '{GroupKind.SWEEP}' AND state = '{GroupState.ACTIVE}')"
"""An SQL condition: a sweep goes on."""
REREAD = timedelta(seconds=10)
"""Series that changed so shortly before the last look are read again, as they may have been committed after it."""


@dataclass(slots=True)
class Row:
    """A member with its trial, if it has reported anything."""

    job: Job
    trial: Trial | None
    gpu_s: float

    @property
    def living(self) -> bool:
        """Whether it can still go on."""
        return self.job.state not in JOB_TERMINAL and self.job.desired == Desired.RUN


def look_at_sweeps(*, until: float) -> int:
    """Look after each active sweep, the one first that was looked at longest ago, until the time is over."""
    due = JobGroup.objects.filter(kind=GroupKind.SWEEP, state=GroupState.ACTIVE).order_by("progress__looked_at", "pk")
    done = 0
    for group_id in due.values_list("pk", flat=True):
        if time.monotonic() >= until:
            break
        try:
            look_at_sweep(group_id)
        except Exception:
            log.exception("sweep_not_looked_at sweep=%s", group_id)
            Progress.objects.filter(group=group_id).update(looked_at=DatabaseNow())
        done += 1
    return done


def look_at_sweep(group_id: int) -> None:
    """Take over what the members of the sweep have reported, and act on it."""
    with transaction.atomic():
        progress = Progress.objects.select_for_update(no_key=True, skip_locked=True).filter(group=group_id).first()
        if progress is None:  # another worker looks at it
            return
        group = JobGroup.objects.get(pk=group_id)
        if group.state != GroupState.ACTIVE:
            return
        sweep, rows = sweep_of(group.spec), _rows_of(group)
        _take_over(group, sweep, rows, progress)
    rungs = sweep.search_rungs
    if group.desired == Desired.RUN:
        reason = reason_to_stop(sweep, [(row.job, row.trial) for row in rows.values()])
        if reason is not None:
            stop_group(group, reason)
        elif rungs is not None:
            _act(group, sweep, rungs, rows)
    end_sweep_if_over(group_id)


def _rows_of(group: JobGroup) -> dict[int, Row]:
    """The members by their number."""
    jobs = list(Job.objects.filter(group=group).defer("spec", "tags", "hold", "memo").order_by("member"))
    trials = Trial.objects.in_bulk([job.pk for job in jobs])
    held = held_gpu_s([group.pk], by="job")
    return {job.member or 0: Row(job, trials.get(job.pk), job.attained_gpu_s + held.get(job.pk, 0.0)) for job in jobs}


def _take_over(group: JobGroup, sweep: SweepSpec, rows: Mapping[int, Row], progress: Progress) -> None:
    """Store what is new in the series of the metric: best values, steps, values at rungs."""
    now = database_now()
    series = Series.objects.filter(attempt__job__group=group, name=sweep.metric).select_related("attempt")
    if progress.looked_at is not None:
        series = series.filter(at__gt=progress.looked_at - REREAD)
    by_job = {row.job.pk: row for row in rows.values()}
    steps = sweep.search_rungs.steps if sweep.search_rungs else ()
    changed, news = [], []
    for one in series.order_by("at", "attempt_id"):
        row = by_job[one.attempt.job_id]
        trial = row.trial or Trial(job=row.job)
        at_s = round((one.at - group.submitted_at).total_seconds(), 3)
        points = curve_of(one).points()
        if not _read(trial, sweep, steps, points, at_s) and row.trial is not None:
            continue
        row.trial = trial
        changed.append(trial)
        if trial.value is not None:
            news.append((at_s, trial.value))
    names = ("value", "value_step", "score", "step", "readings")
    Trial.objects.bulk_create(
        {trial.job_id: trial for trial in changed}.values(),
        update_conflicts=True,
        unique_fields=["job"],
        update_fields=names,
    )
    progress.best_so_far = _with_best(progress.best_so_far, news, sweep)
    Progress.objects.filter(pk=progress.pk).update(best_so_far=progress.best_so_far, looked_at=now)


def _read(
    trial: Trial, sweep: SweepSpec, rungs: Sequence[int], points: Sequence[tuple[float, float]], at_s: float
) -> bool:
    """Take over the points of a series; whether anything is new. Steps that go backwards change no rung."""
    before = (trial.score, trial.step, len(trial.readings))
    for step, value in points:
        if math.isfinite(value) and (trial.score is None or sweep.goal.cost(value) < trial.score):
            trial.value, trial.value_step, trial.score = value, step, sweep.goal.cost(value)
        while len(trial.readings) < len(rungs) and step >= rungs[len(trial.readings)]:
            trial.readings = [*trial.readings, [at_s, value if math.isfinite(value) else None]]
        trial.step = step if trial.step is None else max(step, trial.step)
    return before != (trial.score, trial.step, len(trial.readings))


def _with_best(known: list[list[float]], news: Sequence[tuple[float, float]], sweep: SweepSpec) -> list[list[float]]:
    """The best value over time with what is new."""
    found = list(known)
    for at_s, value in sorted(news):
        if not found or sweep.goal.cost(value) < sweep.goal.cost(found[-1][1]):
            found.append([max(at_s, found[-1][0] if found else 0.0), value])
    return found if len(found) <= MAX_POINTS else [*found[: MAX_POINTS // 2 : 2], *found[MAX_POINTS // 2 :]]


def _act(group: JobGroup, sweep: SweepSpec, rungs: Rungs, rows: Mapping[int, Row]) -> None:
    """Stop, pause and resume members by the verdicts on them, and estimate the work of the others."""
    members = [_member(number, row) for number, row in rows.items()]
    judgement = judge(sweep.method, sweep.goal, rungs, members)
    resumed: list[int] = []
    acts = 0
    for number, row in rows.items():
        verdict = judgement.verdicts[number]
        if not row.living or row.trial is None or acts >= MAX_ACTS:
            continue
        why = verdict.sentence(sweep.metric)[:500]
        if verdict.action is Action.STOP:
            _stop(row, row.trial, why, last=rungs.steps[-1])
            acts += 1
        elif verdict.action is Action.PAUSE and not row.job.paused:
            acts += 1
            if pause_job(job_id=row.job.pk, detail=why, actor="platform"):
                Trial.objects.filter(pk=row.job.pk).update(why=why)
        elif verdict.action is Action.GO_ON and row.job.paused:
            resumed.append(row.job.pk)
    if resumed:
        resume_jobs(resumed, hold=waits_for_turn(group), actor="platform")
        Trial.objects.filter(pk__in=resumed).update(why="")
    paused = Job.objects.filter(group=group, paused=True, state=JobState.QUEUED, hold_reason="")
    paused.update(hold_reason=HoldReason.GROUP, hold=_is_paused(group))
    _estimate(rungs, rows, members, judgement)


def _is_paused(group: JobGroup) -> dict[str, Any]:
    """The pending reason of a member that is at a rung before the others."""
    return {
        "reason": HoldReason.GROUP,
        "detail": f"paused at a rung: the best members of sweep {group.pk} go on when all of them are there",
        "evidence": {},
        "helps": ["the other members have reached the rung or ended"],
    }


def _member(number: int, row: Row) -> Member:
    trial = row.trial
    if trial is None:
        return Member(number, living=row.living)
    return search_member(number, trial.readings, trial.step, living=row.living)


def _stop(row: Row, trial: Trial, why: str, *, last: int) -> None:
    with transaction.atomic():
        if not cancel_for(job_id=row.job.pk, reason=Reason.STOPPED_EARLY, detail=why, actor="platform"):
            return
        saved = saved_gpu_s(row.gpu_s, int(trial.step or 0), last)
        Trial.objects.filter(pk=trial.pk).update(stopped_at=DatabaseNow(), why=why, saved_gpu_s=saved)


def _estimate(rungs: Rungs, rows: Mapping[int, Row], members: Sequence[Member], judgement: Judgement) -> None:
    """Bring the expected run times of the living members up to date, by the steps that are expected of them."""
    gpu_s = gpu_s_per_step((rows[member.number].gpu_s, member.step) for member in members)
    if gpu_s is None:
        return
    left = steps_left(rungs, members, judgement)
    found: dict[float, list[int]] = defaultdict(list)
    for member in members:
        row = rows[member.number]
        gpus = row.job.gpus_total
        if not row.living or not gpus or member.number not in left:
            continue
        expected_s = (member.step + left[member.number]) * gpu_s / gpus
        known = row.job.expected_s
        if known is None or abs(expected_s - known) > 0.05 * known:
            found[round(max(expected_s, 1.0), 1)].append(row.job.pk)
    for seconds, job_ids in found.items():
        estimate_members(job_ids, seconds)
