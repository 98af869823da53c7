"""The facts about a job and its past as a row of numbers. A missing value is NaN.

The user's estimate enters by the user's record alone, so that scaling all estimates changes no row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, pstdev

from scheduler.predict.history import History, Past, RunTimeJob, stem_of, usable_s

CATEGORIES = ("owner", "tenant", "vc", "gpu_type", "stem", "code", "command", "tags")
NUMBERS = (
    *("limit", "gpus", "nodes", "hour", "weekday"),
    *("owner_last", "owner_second", "owner_median", "owner_spread", "owner_least", "owner_most"),
    *("stem_runs", "stem_last", "stem_second", "stem_median", "stem_spread", "stem_least", "stem_most"),
    *("kind_runs", "kind_last", "kind_median"),
    *("last_two", "name_stem", "idle", "stem_idle", "last_of_limit", "limit_change", "censored"),
    *("told", "told_spread"),
)
_DAY_S = 86_400.0
_NAN = math.nan


def categories(job: RunTimeJob) -> tuple[str, ...]:
    """The texts of `CATEGORIES`."""
    tags = ",".join(sorted(job.tags))
    return (job.owner, job.tenant, job.vc, job.gpu_type, stem_of(job.name), job.code, job.command, tags)


def numbers(job: RunTimeJob, history: History) -> list[float]:
    """The values of `NUMBERS`; durations are logarithms."""
    owner, stem, kind = history.of_owner(job), history.of_stem(job), history.of_kind(job)
    owner_logs, stem_logs, kind_logs = _logs(owner), _logs(stem), _logs(kind)
    limit = _log(usable_s(job.limit_s))
    claims = history.claims(job)
    last = owner[0] if owner else None
    last_limit = _NAN if last is None else _log(last.limit_s)
    days = job.submitted_at / _DAY_S
    return [
        *(limit, math.log1p(max(0, job.gpus)), float(job.nodes)),
        *((days % 1.0) * 24, float((math.floor(days) + 3) % 7)),
        *(_at(owner_logs, 0), _at(owner_logs, 1), *_spread(owner_logs)),
        *(float(len(stem)), _at(stem_logs, 0), _at(stem_logs, 1), *_spread(stem_logs)),
        *(float(len(kind)), _at(kind_logs, 0), median(kind_logs) if kind_logs else _NAN),
        *(_log(history.last_two_s(job)), _log(history.name_stem_s(job))),
        *(_idle(job, owner), _idle(job, stem)),
        *(_at(owner_logs, 0) - last_limit, last_limit - limit),
        fmean(past.censored for past in owner) if owner else _NAN,
        *(_log(history.user_s(job)), pstdev(claims) if claims else _NAN),
    ]


def _logs(runs: Sequence[Past]) -> list[float]:
    return [math.log(past.took_s) for past in runs]


def _log(seconds: float | None) -> float:
    return _NAN if seconds is None else math.log(seconds)


def _at(values: Sequence[float], index: int) -> float:
    return values[index] if index < len(values) else _NAN


def _spread(logs: Sequence[float]) -> tuple[float, float, float, float]:
    if not logs:
        return _NAN, _NAN, _NAN, _NAN
    return median(logs), pstdev(logs) if len(logs) > 1 else _NAN, min(logs), max(logs)


def _idle(job: RunTimeJob, runs: Sequence[Past]) -> float:
    """The time since the last of these ended; a clock that jumped back counts as no time."""
    return math.log1p(max(0.0, job.submitted_at - runs[0].ended_at)) if runs else _NAN
