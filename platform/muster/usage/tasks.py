"""Celery: the grades of jobs that have ended, and the sums of what they held."""

from __future__ import annotations

import time

from celery import shared_task

from muster.usage import totals
from muster.usage.grading import BATCH, read_ends

LONGEST_TURN_S = 20.0
"""So long a worker may go on with what waits before it looks at other tasks."""


@shared_task(name="usage.grade")
def grade() -> int:
    """Grade the jobs that have ended since the last turn; returns how many ends were read."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < LONGEST_TURN_S:
        found = read_ends()
        count += found
        if found < BATCH:
            break
    return count


@shared_task(name="usage.count")
def count() -> int:
    """Add the jobs that have ended since the last turn to the sums by days; returns how many."""
    began, done = time.monotonic(), 0
    while time.monotonic() - began < LONGEST_TURN_S:
        found = totals.count_ended()
        done += found
        if found < totals.BATCH:
            break
    return done
