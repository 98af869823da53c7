"""The expected run time of a job and its source, the first of these that is known:

1. the user's estimate, unless the last similar jobs took more than twice as long on average;
2. the mean run time of the last two similar jobs that have ended, or of one (Tsafrir, Etsion, Feitelson, "Backfilling
   using system-generated predictions rather than user runtime estimates", TPDS 18(6), 2007, §3);
3. the time limit.

Similar jobs have the same owner, name and GPUs. Estimates are not enforced; time limits are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

HISTORY_JOBS = 2  # similar jobs that count, the last to end
CONTRADICTED_BY = 2.0  # past run times above this multiple overrule the user's estimate
_MIN_S = 1.0


class Source(StrEnum):
    """The source of an expected run time."""

    USER = "user"
    HISTORY = "history"
    LIMIT = "limit"
    MODEL = "model"
    PROGRESS = "progress"  # its steps so far, of the total that it reports
    SWEEP = "sweep"  # the steps that its sweep still expects of it, at the speed of the members
    DOUBLED = "doubled"  # the job has run longer than expected


@dataclass(frozen=True, slots=True)
class Estimate:
    """An expected run time, s, from the first start to the end on the requested GPUs."""

    expected_s: float
    source: Source


def estimate(*, user_s: float | None, took_s: Sequence[float], limit_s: float | None) -> Estimate | None:
    """The estimate for a job that has not run yet; None without any source.

    `took_s` are the run times of similar jobs that have ended, the last one first.
    """
    last = took_s[:HISTORY_JOBS]
    mean_s = sum(last) / len(last) if last else None
    if user_s is not None and (mean_s is None or mean_s <= CONTRADICTED_BY * user_s):
        return Estimate(_within(user_s, limit_s), Source.USER)
    if mean_s is not None:
        return Estimate(_within(mean_s, limit_s), Source.HISTORY)
    return None if limit_s is None else Estimate(limit_s, Source.LIMIT)


def doubled(expected_s: float, *, ran_s: float, limit_s: float | None) -> float:
    """The expected run time of a job that has run for `ran_s`: doubled until it is longer, at most the limit."""
    if expected_s > ran_s:
        return expected_s
    while expected_s <= ran_s:
        expected_s = 2 * max(expected_s, _MIN_S)
    return _within(expected_s, limit_s)


def _within(seconds: float, limit_s: float | None) -> float:
    return seconds if limit_s is None else min(seconds, limit_s)
