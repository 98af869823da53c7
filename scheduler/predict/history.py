"""The runs that have ended, as predictions look back at them, and the predictors that are a rule alone.

*Last two*: the mean of the owner's two latest ended jobs (Tsafrir, Etsion, Feitelson, "Backfilling using
system-generated predictions rather than user runtime estimates", TPDS 18(6), 2007, §3). *Name stem*: the median of the
owner's last ten jobs whose names differ in numbers alone. Neither is above the job's limit.

Traces, the simulator and production feed the same `History`, in the order in which runs end.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

MAX_RUNS = 10  # the latest runs of an owner, of a stem and of a kind that count
LAST_TWO = 2
MIN_S = 1.0  # shorter run times count as this long, and those above MAX_S as MAX_S
MAX_S = 10 * 365.25 * 86_400.0

_NUMBERS = re.compile(r"[\W_]*\d[\d\W_]*")


@dataclass(frozen=True, slots=True)
class RunTimeJob:
    """The facts about a job that are known when it is submitted."""

    owner: str
    submitted_at: float  # epoch, s
    name: str = ""
    tenant: str = ""
    vc: str = ""
    code: str = ""  # the identity of its code, such as a digest
    command: str = ""  # the identity of its command
    tags: tuple[str, ...] = ()
    gpus: int = 0
    nodes: int = 1
    gpu_type: str = ""
    limit_s: float | None = None
    user_s: float | None = None  # the user's estimate


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended. `censored`: its limit, a user or the scheduler stopped it, so that it needed longer."""

    job: RunTimeJob
    ended_at: float  # epoch, s
    took_s: float  # with its GPUs
    censored: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """One ended run of a history."""

    ended_at: float
    took_s: float
    censored: bool
    limit_s: float | None
    user_s: float | None


class History:
    """The latest ended runs by owner, by owner and stem, and by owner and kind."""

    def __init__(self, runs: Iterable[EndedRun] = ()) -> None:
        self._runs: defaultdict[Hashable, deque[Past]] = defaultdict(lambda: deque(maxlen=MAX_RUNS))
        self._claims: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_RUNS))
        for run in runs:
            self.add(run)

    def add(self, run: EndedRun) -> None:
        """Learn from a run that ended after those that are known; one without a usable duration does not count."""
        took_s = usable_s(run.took_s)
        if took_s is None:
            return
        job = run.job
        past = Past(run.ended_at, took_s, run.censored, usable_s(job.limit_s), usable_s(job.user_s))
        for key in (job.owner, _stem_key(job), _kind_key(job)):
            self._runs[key].appendleft(past)
        if past.user_s is not None:
            self._claims[job.owner].appendleft(math.log(took_s / past.user_s))

    def of_owner(self, job: RunTimeJob) -> Sequence[Past]:
        """The owner's latest runs, the newest first."""
        return self._runs.get(job.owner, ())

    def of_stem(self, job: RunTimeJob) -> Sequence[Past]:
        """The latest runs with the owner and the stem of the job, the newest first."""
        return self._runs.get(_stem_key(job), ())

    def of_kind(self, job: RunTimeJob) -> Sequence[Past]:
        """The latest runs with the owner, code, command, stem and size of the job, the newest first."""
        return self._runs.get(_kind_key(job), ())

    def claims(self, job: RunTimeJob) -> Sequence[float]:
        """The logarithms of run time by the owner's estimate, the newest first: the owner's record."""
        return self._claims.get(job.owner, ())

    def last_two_s(self, job: RunTimeJob) -> float | None:
        """The run time by *last two*."""
        last = [past.took_s for past in islice(self.of_owner(job), LAST_TWO)]
        return within(sum(last) / len(last), job.limit_s) if last else None

    def name_stem_s(self, job: RunTimeJob) -> float | None:
        """The run time by *name stem*."""
        runs = self.of_stem(job)
        return within(median(past.took_s for past in runs), job.limit_s) if runs else None

    def user_s(self, job: RunTimeJob) -> float | None:
        """The user's estimate, times the median of run time by estimate in the owner's record; None without a record.

        A user who scales all estimates by a factor changes nothing.
        """
        claims, user_s = self.claims(job), usable_s(job.user_s)
        return within(user_s * math.exp(median(claims)), job.limit_s) if claims and user_s is not None else None


def stem_of(name: str) -> str:
    """The name in lower case without its numbers: `run-017_lr0.1` and `run-018_lr0.3` have one stem."""
    return _NUMBERS.sub("#", name.strip().lower())


def usable_s(seconds: float | None) -> float | None:
    """The duration, at least `MIN_S` and at most `MAX_S`; None if it is negative or no number, as of a wrong clock."""
    if seconds is None or not seconds >= 0:
        return None
    return min(max(seconds, MIN_S), MAX_S)


def within(seconds: float, limit_s: float | None) -> float:
    """The duration, at most the limit if there is one above 0."""
    limit_s = usable_s(limit_s)
    return min(max(seconds, MIN_S), MAX_S if limit_s is None else limit_s)


def _stem_key(job: RunTimeJob) -> Hashable:
    return (job.owner, stem_of(job.name))


def _kind_key(job: RunTimeJob) -> Hashable:
    return (job.owner, stem_of(job.name), job.code, job.command, job.gpus, job.nodes, job.gpu_type)
