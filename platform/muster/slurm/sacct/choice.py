"""The jobs that the options of `sacct` choose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from muster.accounts.models import User
from muster.jobs.models import Job
from muster.jobs.selectors import visible_jobs
from muster.sbatch.moments import moment
from muster.sbatch.services import site_of
from muster.sbatch.values import minutes
from muster.slurm.call import Call, Refused
from muster.slurm.hostlist import expand
from muster.slurm.options import Parsed
from muster.slurm.records import known_users
from muster.slurm.sacct.records import Record
from muster.slurm.states import State

_JOB = re.compile(r"(\d{1,18})(?:_(\d{1,9}))?(?:\.(\w+))?", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
# States of jobs that never last long enough to be in an account.
_UNACCOUNTED = frozenset({State.COMPLETING, State.CONFIGURING, State.SIGNALING, State.SPECIAL_EXIT, State.STAGE_OUT})
Test = Callable[[Record], bool]


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which jobs must have been there."""

    start: datetime | None
    """None: since ever."""
    end: datetime

    def has(self, since: datetime | None, until: datetime | None) -> bool:
        """True if something that lasted from `since` (None: it has not begun) until then lies in it."""
        return since is not None and since <= self.end and (until is None or self.start is None or until >= self.start)


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows of the database to read, and the records among them to show."""

    jobs: QuerySet[Job]
    shows: Test
    window: Window


def chosen(given: Parsed, call: Call, now: datetime) -> Choice:
    """The jobs and records that the options choose.

    Raises:
        Refused: a value is none of its kind.
    """
    numbers, states = _numbers(given), _states(given)
    window = _window(given, call, now, by_number=numbers is not None, by_state=bool(states))
    jobs = _named(given, call, _owned(given, call.user))
    tests = list(_tests(given))
    if numbers is not None:
        jobs = jobs.filter(_any(number.rows for number in numbers))
        tests.append(lambda record: any(number.means(record) for number in numbers))
    else:
        # An attempt that ended before the job was queued again may be within the window, so the job's end is looked at.
        jobs = jobs.filter(submitted_at__lte=window.end)
        if window.start is not None:
            jobs = jobs.filter(Q(ended_at__isnull=True) | Q(ended_at__gte=window.start))
    if states:
        tests.append(lambda record: any(_was(record, state, window) for state in states))
    elif numbers is None or given.has("starttime") or given.has("endtime"):
        tests.append(lambda record: window.has(record.eligible, record.end))
    return Choice(jobs, lambda record: all(test(record) for test in tests), window)


def _was(record: Record, state: State, window: Window) -> bool:
    """True if the job was in the state within the window; a state that ends it, if it came to it then."""
    if state is State.PENDING:
        return window.has(record.eligible, record.start)
    if state is State.RUNNING:
        return window.has(record.start, record.end)
    return record.state is state and record.end is not None and window.has(record.end, record.end)


@dataclass(frozen=True, slots=True)
class _Number:
    """A job of `-j`: maybe one index of an array, maybe one step."""

    job: int
    index: int | None
    step: str | None

    @property
    def rows(self) -> Q:
        if self.index is not None:
            return Q(group=self.job, array_index=self.index)
        return Q(pk=self.job) | Q(group=self.job, array_index__isnull=False)

    def means(self, record: Record) -> bool:
        """True if the step of the record is the one named, or none is."""
        job = record.job
        if self.index is not None:
            mine = (job.group_id, job.array_index) == (self.job, self.index)
        else:
            mine = job.pk == self.job or (job.array_index is not None and job.group_id == self.job)
        return mine and (self.step is None or record.step == self.step)


def _numbers(given: Parsed) -> list[_Number] | None:
    if not given.has("jobs"):
        return None
    found = []
    for word in _words(given, "jobs"):
        parts = _JOB.fullmatch(word)
        if not parts:
            raise Refused(f"sacct: fatal: Bad job/step specified: {word}")
        # Of a job whose steps are not shown, the job stands for a step that is asked for.
        step = None if given.has("allocations") else parts[3]
        found.append(_Number(int(parts[1]), None if parts[2] is None else int(parts[2]), step))
    return found


def _states(given: Parsed) -> list[State]:
    found = []
    for word in _words(given, "state"):
        state = State.of_word(word)
        if state is None:
            raise Refused(f"sacct: fatal: unrecognized job state value '{word}'")
        if state in _UNACCOUNTED:
            raise Refused(f"sacct: fatal: job state {word} is not supported / accounted")
        found.append(state)
    return found


def _window(given: Parsed, call: Call, now: datetime, *, by_number: bool, by_state: bool) -> Window:
    """The window: today unless it is given; with states this moment, or that of `-S` alone; with numbers all time."""
    local = now.astimezone(call.zone)

    def at(name: str) -> datetime | None:
        text = given.last(name)
        if text is None:
            return None
        try:
            return moment(text, local, coming=False)
        except ValueError as error:
            raise Refused(f"Invalid time specification (pos=0): {text}") from error

    start, end = at("starttime"), at("endtime")
    if start is None and not by_number:
        start = now if by_state else local.replace(hour=0, minute=0, second=0, microsecond=0)
    elif start is not None and end is None and by_state:
        end = start
    window = Window(start, end or now)
    if start is not None and start > window.end:
        first, last = call.moment(start), call.moment(window.end)
        raise Refused(f"sacct: error: Start time ({first}) requested is after end time ({last}).")
    return window


def _owned(given: Parsed, user: User) -> QuerySet[Job]:
    """The jobs of the users that are named; else the caller's own, and all that an operator can see."""
    jobs = visible_jobs(user)
    names = _words(given, "user") + _words(given, "uid")
    if not names:
        return jobs if given.has("allusers") or user.is_operator else jobs.filter(owner=user)
    uids = [int(name) for name in names if name.isdecimal() and len(name) < 10]
    words = {name for name in names if not name.isdecimal()}
    for name in words - known_users(user, words):
        raise Refused(f"sacct: error: Invalid user id: {name}")
    return jobs.filter(Q(owner__username__in=words) | Q(owner__uid__in=uids))


def _named(given: Parsed, call: Call, jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Those of the jobs with one of the names, and in one of the partitions, accounts and qualities, that are given."""
    if names := _words(given, "name"):
        jobs = jobs.filter(name__in=names)
    if words := _words(given, "partition"):
        jobs = jobs.filter(_by_word("SLURM_JOB_PARTITION", "pool__name", words))
    if words := _words(given, "accounts"):
        jobs = jobs.filter(_by_word("SLURM_JOB_ACCOUNT", "vc__name", words))
    if words := _words(given, "qos"):
        known = site_of(call.user).qos
        for word in words:
            if word not in known:
                raise Refused(
                    f"sacct: error: You gave a bad qos '{word}'. Valid QOS's are {','.join(known)}\n"
                    "sacct: fatal: problem processing qos list"
                )
        jobs = jobs.filter(_by_word("SLURM_JOB_QOS", "spec__priority", words))
    if (text := given.last("nodelist")) is not None:
        try:
            nodes = expand(text)
        except ValueError:
            nodes = []
        jobs = jobs.filter(attempts__allocations__node__name__in=nodes).distinct()
    return jobs


def _by_word(variable: str, otherwise: str, words: Sequence[str]) -> Q:
    """Jobs with one of the words in the variable of their script, or without it in the column that stands for it."""
    key = f"spec__env__{variable}"
    return Q(**{f"{key}__in": words}) | Q(**{f"{key}__isnull": True, f"{otherwise}__in": words})


def _tests(given: Parsed) -> Iterator[Test]:
    if (text := given.last("nnodes")) is not None:
        least, most = _range(text, "node")
        yield lambda record: least <= (record.given.nodes or record.asked.nodes) <= most
    if (text := given.last("ncpus")) is not None:
        fewest, top = _range(text, "cpu")
        yield lambda record: fewest <= (record.given.cpus or record.asked.cpus) <= top
    if (text := given.last("timelimit-min")) is not None:
        shortest, longest = _limit_s(text), _limit_s(given.last("timelimit-max") or text)
        yield lambda record: shortest <= (record.job.time_limit_s or float("inf")) <= longest


def _range(text: str, of: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    if not found:
        raise Refused(f'sacct: error: Invalid numeric value "{text}" for requested {of} range.')
    return int(found[1]), int(found[2] or found[1])


def _limit_s(text: str) -> float:
    try:
        found = minutes(text)
    except ValueError as error:
        raise Refused("sacct: fatal: Invalid time limit specification") from error
    return float("inf") if found is None else 60.0 * found


def _words(given: Parsed, name: str) -> list[str]:
    """The values of an option between its commas."""
    return [word for word in (given.last(name) or "").split(",") if word]


def _any(conditions: Iterator[Q]) -> Q:
    found = Q(pk__in=[])
    for condition in conditions:
        found |= condition
    return found
