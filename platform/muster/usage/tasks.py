"""Celery: the grades of jobs that have ended."""

from __future__ import annotations

import time

from celery import shared_task

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
