"""Celery: the grades of jobs that have ended, and the sums of what they held and of how long jobs waited."""

from __future__ import annotations

from celery import shared_task

from muster.common.periodic import only_if
from muster.common.turns import in_batches
from muster.events.selectors import has_news_sql
from muster.usage import delays, totals
from muster.usage.finish_times import GROUPS, store_group_finish_times
from muster.usage.grading import BATCH, read_ends

only_if("usage.grade", has_news_sql("usage_reader"))


@shared_task(name="usage.grade")
def grade() -> int:
    """Grade the jobs that have ended since the last turn; returns how many ends were read."""
    return in_batches(read_ends, of=BATCH)


@shared_task(name="usage.count")
def count() -> int:
    """Add the jobs that ended and the starts since the last turn to the sums; returns how many there were."""
    return (
        in_batches(totals.count_ended, of=totals.BATCH)
        + in_batches(store_group_finish_times, of=GROUPS)
        + in_batches(delays.sum_starts, of=delays.BATCH)
    )
