"""A trace as its jobs saw the pool: the features of each job at the moment when it became eligible."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np

from scheduler.predict.waits.features import NAMES, features
from scheduler.predict.waits.state import MAX_STARTED, Floats, Jobs, QueueState, WaitJob

_DAY_S = 86400.0
_CAPACITY_DAYS = 14  # the maximum of the GPUs held at once in these days estimates the number in service

_END, _START, _LATE_END = 0, 1, 2


def rows_of(jobs: list[WaitJob]) -> Floats:
    """The features of jobs, which are in the order of their eligible times: (jobs, features)."""
    rows = np.empty((len(jobs), len(NAMES)))
    for index, state in replay(jobs):
        rows[index] = features(state, jobs[index])
    return rows


def replay(jobs: list[WaitJob]) -> Iterator[tuple[int, QueueState]]:
    """For each job its number and the pool at its eligible time, without the job and those listed after it.

    The pool's GPUs are the most that were held at once in the last two weeks, for all types together.

    Raises:
        ValueError: the jobs are not in the order of their eligible times.
    """
    table = Jobs.of(jobs)
    if (np.diff(table.eligible_at) < 0).any():
        raise ValueError("the jobs are not in the order of their eligible times")
    events = _events(table)
    # Dictionaries keep the order, so that equal traces give equal rows.
    waiting: dict[int, None] = {}
    running: dict[int, None] = {}
    started: deque[int] = deque(maxlen=MAX_STARTED)
    peaks: deque[tuple[int, float]] = deque()  # of days, falling
    held, at = 0.0, 0
    for index, job in enumerate(jobs):
        now = job.eligible_at
        while at < len(events) and events[at][0] <= now:
            moment, what, one = events[at]
            if one >= index:  # it starts at the second of its submission, which comes later in the list
                break
            at += 1
            if what == _START:
                waiting.pop(one, None)
                running[one] = None
                started.append(one)
                held += jobs[one].gpus
            elif running.pop(one, 0) is None:
                held -= jobs[one].gpus
            else:
                waiting.pop(one, None)
            _note(peaks, int(moment // _DAY_S), held)
        _note(peaks, int(now // _DAY_S), held)
        yield (
            index,
            QueueState(now, table, _ints(waiting), _ints(running), _ints(started), {-1: peaks[0][1]}),
        )
        waiting[index] = None


def _events(table: Jobs) -> list[tuple[float, int, int]]:
    """The starts and ends in order; at one moment ends come first, but that of a job after its start."""
    found = []
    for index, (start, end) in enumerate(zip(table.started_at.tolist(), table.ended_at.tolist(), strict=True)):
        if not math.isnan(start):
            found.append((start, _START, index))
        if not math.isnan(end):
            found.append((end, _LATE_END if end == start else _END, index))
    return sorted(found)


def _note(peaks: deque[tuple[int, float]], day: int, held: float) -> None:
    """Keep the days whose peak no later day reaches, for as long as they count."""
    while peaks and peaks[-1][1] <= held:
        peaks.pop()
    if not peaks or peaks[-1][0] != day:
        peaks.append((day, held))
    while peaks[0][0] <= day - _CAPACITY_DAYS:
        peaks.popleft()


def _ints(rows: dict[int, None] | deque[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.fromiter(rows, dtype=np.int64, count=len(rows))
