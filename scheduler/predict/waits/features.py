"""The features of a job's wait: one row of numbers from a `QueueState` and the job, all known at that moment.

Times, s, and amounts of work, GPU-s, are logarithms of 1 + their value. NaN: unknown, or there is none.
A job is *easier* than another if it asks for no more GPUs and has no longer limit, and *harder* if the other is easier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.predict.waits.forecast import QUICK_S
from scheduler.predict.waits.plan import planned_s
from scheduler.predict.waits.state import Floats, Ints, Jobs, QueueState, WaitJob

VERSION = 1  # of the row: a model predicts rows of the version that it was trained on
_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S
_HALF_LIFE_S = 5 * _DAY_S  # of use
_LIMIT_FACTOR = 2.0  # limits that differ by less are alike
_NAN = float("nan")

Row = dict[str, float]
Which = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The job, and the rows of the jobs that may take the GPUs it asks for."""

    now: float
    jobs: Jobs
    job: WaitJob
    waiting: Ints
    running: Ints
    started: Ints
    free: float  # GPUs


def features(state: QueueState, job: WaitJob) -> Floats:
    """The row of a job that is not among the waiting ones of the state, in the order of `NAMES`."""
    return np.array(list(named_features(state, job).values()), dtype=np.float64)


def named_features(state: QueueState, job: WaitJob) -> Row:
    """The row by the names of its features."""
    jobs = state.jobs
    waiting, running, started = (
        rows[_competes(jobs.gpu_type[rows], job.gpu_type)] for rows in (state.waiting, state.running, state.started)
    )
    total = state.gpus.get(job.gpu_type, state.gpus.get(-1, _NAN))
    free = total - float(jobs.gpus[running].sum())
    scene = _Scene(state.now, jobs, job, waiting, running, started, free)
    row = {
        "gpus": job.gpus,
        "nodes": job.nodes,
        "limit": _log(job.limit_s),
        "expected": _log(job.p50_s),
        "class": job.job_class,
        "hour": state.now % _DAY_S / _HOUR_S,
        "weekday": float(state.now // _DAY_S % 7),
        "free": free,
        "free_after": free - job.gpus,
        "free_share": free / total if total > 0 else _NAN,
    }
    for part in (_queue, _ahead, _by_use, _running, _owner, _kind, _recent):
        row |= part(scene)
    return row


def _queue(scene: _Scene) -> Row:
    """The jobs that wait."""
    jobs, job, waiting = scene.jobs, scene.job, scene.waiting
    gpus, age = jobs.gpus[waiting], scene.now - jobs.eligible_at[waiting]
    smaller = gpus <= job.gpus
    easier = _is_easier(jobs, waiting, job)
    return {
        "waiting": float(len(waiting)),
        "waiting_gpus": float(gpus.sum()),
        "waiting_smaller": float(smaller.sum()),
        "waiting_easier": float(easier.sum()),
        "waiting_same": float((gpus == job.gpus).sum()),
        "waiting_new": float((age <= QUICK_S).sum()),
        "waiting_owners": float(len(set(jobs.owner[waiting].tolist()))),
        "waiting_vc_gpus": float(gpus[jobs.vc[waiting] == job.vc].sum()),
        "smallest": _least(gpus),
        "oldest": _log(_most(age)),
        "newest": _log(_least(age)),
        "oldest_smaller": _log(_most(age[smaller])),
        "newest_smaller": _log(_least(age[smaller])),
        "oldest_easier": _log(_most(age[easier])),
        "newest_easier": _log(_least(age[easier])),
    }


def _ahead(scene: _Scene) -> Row:
    """The jobs that wait before the job, and the plan by limits."""
    jobs, job, waiting, running = scene.jobs, scene.job, scene.waiting, scene.running
    higher = jobs.job_class[waiting] > job.job_class
    before = higher | ((jobs.job_class[waiting] == job.job_class) & (jobs.priority[waiting] >= job.priority))
    ahead = waiting[before]
    ahead = ahead[np.lexsort((jobs.eligible_at[ahead], -jobs.priority[ahead], -jobs.job_class[ahead]))]
    gpus, held = jobs.gpus[ahead], jobs.gpus[running]
    left = jobs.limit_s[running] - (scene.now - jobs.started_at[running])
    work = float(np.nansum(gpus * jobs.limit_s[ahead]))
    return {
        "ahead": float(len(ahead)),
        "ahead_gpus": float(gpus.sum()),
        "ahead_higher": float(higher.sum()),
        "ahead_work": _log(work),
        "work": _log(work + float(np.nansum(held * np.maximum(left, 0.0)))),
        "plan": _log(_planned_s(scene, ahead)),
    }


def _by_use(scene: _Scene) -> Row:
    """The jobs that wait and that have started, by the decayed use of their owners, by which fair policies order."""
    now, jobs, job = scene.now, scene.jobs, scene.job
    waiting, started = scene.waiting, scene.started
    owners, owner_of = np.unique(
        np.concatenate([jobs.owner[started], jobs.owner[waiting], [job.owner]]), return_inverse=True
    )
    used = np.bincount(owner_of[: len(started)], _decayed_use(scene), minlength=len(owners))
    own, of_started, of_waiting = used[owner_of[-1]], used[owner_of[: len(started)]], used[owner_of[len(started) : -1]]
    higher = jobs.job_class[waiting] > job.job_class
    before = higher | ((jobs.job_class[waiting] == job.job_class) & (of_waiting <= own))
    order = np.lexsort((jobs.eligible_at[waiting], of_waiting, -jobs.job_class[waiting]))
    ahead = waiting[order][before[order]]
    easier = before & _is_easier(jobs, waiting, job)
    age = now - jobs.eligible_at[waiting][easier]
    harder = (of_started >= own) & _is_harder(jobs, started, job)
    waits, since = _waits(jobs, started)[harder], now - jobs.started_at[started][harder]
    total = float(used.sum())
    return {
        "used": _log(float(own)),
        "used_share": float(own) / total if total > 0 else _NAN,
        "used_rank": float((used < own).mean()),
        "less_used": float(before.sum()),
        "less_used_gpus": float(jobs.gpus[ahead].sum()),
        "less_used_share": _mean(before),
        "less_used_easier": float(easier.sum()),
        "less_used_oldest": _log(_most(age)),
        "less_used_newest": _log(_least(age)),
        "less_used_work": _log(float(np.nansum(jobs.gpus[ahead] * jobs.limit_s[ahead]))),
        "less_used_plan": _log(_planned_s(scene, ahead)),
        "more_used_since": _log(_least(since)),
        "more_used_hour": float((since <= _HOUR_S).sum()),
        "more_used_last": float(waits[-1]) if len(waits) else _NAN,
        "more_used_mean_5": _mean(waits[-5:]),
        "more_used_mean_20": _mean(waits[-20:]),
    }


def _decayed_use(scene: _Scene) -> Floats:
    """The GPU-seconds of each started job until now, where older ones count less."""
    now, jobs, started, decay = scene.now, scene.jobs, scene.started, np.log(2) / _HALF_LIFE_S
    until = np.where(jobs.ended_at[started] <= now, jobs.ended_at[started], now)
    held = np.exp(-decay * (now - until)) - np.exp(-decay * (now - jobs.started_at[started]))
    return np.asarray(jobs.gpus[started] * held / decay, dtype=np.float64)


def _planned_s(scene: _Scene, ahead: Ints) -> float:
    """The start of the job by the plan by limits, with these jobs before it, s from now."""
    jobs, job, running = scene.jobs, scene.job, scene.running
    left = np.maximum(jobs.limit_s[running] - (scene.now - jobs.started_at[running]), 0.0)
    own_s = np.inf if np.isnan(job.limit_s) else job.limit_s
    frees = _or_forever(left), jobs.gpus[running]
    return planned_s(scene.free, frees, (jobs.gpus[ahead], _or_forever(jobs.limit_s[ahead])), (job.gpus, own_s))


def _running(scene: _Scene) -> Row:
    """The jobs that run, and when enough of them end for the job."""
    jobs, job, running, free = scene.jobs, scene.job, scene.running, scene.free
    held, ran = jobs.gpus[running], scene.now - jobs.started_at[running]
    left = jobs.limit_s[running] - ran
    return {
        "running": float(len(running)),
        "running_same_size": float((held == job.gpus).sum()),
        "running_vc_gpus": float(held[jobs.vc[running] == job.vc].sum()),
        "largest": _most(held),
        "newest_start": _log(_least(ran)),
        "first_end": _log(_least(left)),
        "enough_by_limit": _log(_enough_s(left, held, job.gpus - free)),
        "enough_expected": _log(_enough_s(np.maximum(jobs.p50_s[running] - ran, 0.0), held, job.gpus - free)),
    }


def _owner(scene: _Scene) -> Row:
    """The jobs of the same owner, and their waits."""
    now, jobs, job = scene.now, scene.jobs, scene.job
    waiting, running, started = (
        rows[jobs.owner[rows] == job.owner] for rows in (scene.waiting, scene.running, scene.started)
    )
    age = now - jobs.eligible_at[waiting]
    same = jobs.gpus[waiting] == job.gpus
    easier = _is_easier(jobs, waiting, job)
    waits = _waits(jobs, started)
    ended = jobs.ended_at[started] <= now
    row = {
        "own_waiting": float(len(waiting)),
        "own_waiting_gpus": float(jobs.gpus[waiting].sum()),
        "own_waiting_same": float(same.sum()),
        "own_waiting_easier": float(easier.sum()),
        "own_oldest": _log(_most(age)),
        "own_newest": _log(_least(age)),
        "own_oldest_same": _log(_most(age[same])),
        "own_running": float(len(running)),
        "own_running_gpus": float(jobs.gpus[running].sum()),
        "own_starts": float(len(started)),
        "own_last_wait": float(waits[-1]) if len(waits) else _NAN,
        "own_last_start": _log(now - jobs.started_at[started[-1]]) if len(started) else _NAN,
        "own_mean_5": _mean(waits[-5:]),
        "own_mean_20": _mean(waits[-20:]),
        "own_last_end": _log(_least(now - jobs.ended_at[started][ended])),
    }
    until = np.where(ended, jobs.ended_at[started], now)
    for name, span_s in (("hour", _HOUR_S), ("day", _DAY_S), ("week", 7 * _DAY_S)):
        held_s = np.maximum(0.0, until - np.maximum(jobs.started_at[started], now - span_s))
        row[f"own_used_{name}"] = _log(float((jobs.gpus[started] * held_s).sum()))
    last = np.concatenate([started, waiting])
    if not len(last):
        return row | {"own_last_submission": _NAN, "own_last_waits": _NAN}
    newest = last[np.argmax(jobs.eligible_at[last])]
    is_waiting = not jobs.started_at[newest] <= now
    return row | {"own_last_submission": _log(now - jobs.eligible_at[newest]), "own_last_waits": float(is_waiting)}


def _kind(scene: _Scene) -> Row:
    """The jobs of the same owner and stem: those of a chain wait for each other, those of a burst start together."""
    now, jobs, job = scene.now, scene.jobs, scene.job
    waiting, running, started = (
        rows[jobs.kind[rows] == job.kind] for rows in (scene.waiting, scene.running, scene.started)
    )
    waits, since = _waits(jobs, started), now - jobs.started_at[started]
    every = now - jobs.eligible_at[np.concatenate([waiting, started])]
    return {
        "kind_waiting": float(len(waiting)),
        "kind_running": float(len(running)),
        "kind_starts": float(len(started)),
        "kind_last_wait": float(waits[-1]) if len(waits) else _NAN,
        "kind_mean_5": _mean(waits[-5:]),
        "kind_last_start": _log(_least(since)),
        "kind_last_submission": _log(_least(every)),
        "kind_oldest": _log(_most(now - jobs.eligible_at[waiting])),
    }


def _recent(scene: _Scene) -> Row:
    """The latest starts, and the latest jobs of which it is known if they have started quickly."""
    now, jobs, job = scene.now, scene.jobs, scene.job
    waiting, started = scene.waiting, scene.started
    waits, since = _waits(jobs, started), now - jobs.started_at[started]
    same = jobs.gpus[started] == job.gpus
    alike = same & _has_like_limit(jobs, started, job)
    harder = _is_harder(jobs, started, job)
    row = {
        "starts_hour": float((since <= _HOUR_S).sum()),
        "starts_day": float((since <= _DAY_S).sum()),
        "ends_hour": float((np.abs(now - jobs.ended_at[started] - _HOUR_S / 2) <= _HOUR_S / 2).sum()),
        "mean_5": _mean(waits[-5:]),
        "mean_20": _mean(waits[-20:]),
        "mean_50": _mean(waits[-50:]),
        "harder_hour": float((since[harder] <= _HOUR_S).sum()),
    }
    for name, rows in (("same", same), ("alike", alike), ("harder", harder)):
        found = waits[rows]
        row[f"{name}_since"] = _log(_least(since[rows]))
        row[f"{name}_last"] = float(found[-1]) if len(found) else _NAN
        row[f"{name}_mean_5"] = _mean(found[-5:])
        row[f"{name}_mean_20"] = _mean(found[-20:])
    row["same_p50"], row["same_p90"] = _quantiles(waits[same][-50:])
    late = waiting[now - jobs.eligible_at[waiting] > QUICK_S]
    known = np.concatenate([started, late])
    known = known[np.argsort(jobs.eligible_at[known], kind="stable")]
    quick = jobs.started_at[known] - jobs.eligible_at[known] <= QUICK_S
    same = jobs.gpus[known] == job.gpus
    alike = same & _has_like_limit(jobs, known, job)
    return row | {
        "quick_10": _mean(quick[-10:]),
        "quick_50": _mean(quick[-50:]),
        "same_quick_5": _mean(quick[same][-5:]),
        "same_quick_20": _mean(quick[same][-20:]),
        "alike_quick_5": _mean(quick[alike][-5:]),
        "alike_quick_20": _mean(quick[alike][-20:]),
        "others_alike_quick_5": _mean(quick[alike & (jobs.owner[known] != job.owner)][-5:]),
    }


def _is_easier(jobs: Jobs, rows: Ints, job: WaitJob) -> Which:
    return (jobs.gpus[rows] <= job.gpus) & ~(jobs.limit_s[rows] > job.limit_s)


def _is_harder(jobs: Jobs, rows: Ints, job: WaitJob) -> Which:
    return (jobs.gpus[rows] >= job.gpus) & ~(jobs.limit_s[rows] < job.limit_s)


def _has_like_limit(jobs: Jobs, rows: Ints, job: WaitJob) -> Which:
    limit_s = jobs.limit_s[rows]
    return (limit_s <= _LIMIT_FACTOR * job.limit_s) & (limit_s >= job.limit_s / _LIMIT_FACTOR)


def _competes(types: Floats, own: int) -> Which:
    return np.ones(len(types), dtype=np.bool_) if own < 0 else (types == own) | (types < 0)


def _waits(jobs: Jobs, rows: Ints) -> Floats:
    return np.log1p(np.maximum(jobs.started_at[rows] - jobs.eligible_at[rows], 0.0))


def _enough_s(after_s: Floats, gpus: Floats, needed: float) -> float:
    """The time until this number of GPUs has become free, s; NaN if that is unknown."""
    if needed <= 0:
        return 0.0
    order = np.argsort(after_s)  # NaNs last
    at = int(np.searchsorted(np.cumsum(gpus[order]), needed))
    return float(after_s[order[at]]) if at < len(order) else _NAN


def _or_forever(run_s: Floats) -> Floats:
    return np.where(np.isnan(run_s), np.inf, run_s)


def _log(value: float) -> float:
    """The logarithm of 1 + a value; infinity stays, and a value below 0, as of a clock that jumped, is 0."""
    return float(np.log1p(max(value, 0.0))) if not np.isnan(value) else _NAN


def _least(values: Floats) -> float:
    return float(values.min()) if len(values) else _NAN


def _most(values: Floats) -> float:
    return float(values.max()) if len(values) else _NAN


def _mean(values: Floats | Which) -> float:
    return float(values.mean()) if len(values) else _NAN


def _quantiles(values: Floats) -> tuple[float, float]:
    if not len(values):
        return _NAN, _NAN
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2]), float(ordered[9 * (len(ordered) - 1) // 10])


def _names() -> tuple[str, ...]:
    """The names, from the row of one job in an empty pool."""
    none = np.zeros(0, dtype=np.int64)
    return tuple(named_features(QueueState(0.0, Jobs.of([]), none, none, none, {}), WaitJob(0, 1.0, 0.0)))


NAMES = _names()
