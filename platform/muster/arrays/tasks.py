"""Celery: ending the arrays whose last member has ended."""

from __future__ import annotations

from celery import shared_task

from muster.arrays.ends import ANY_OVER, end_arrays
from muster.common.periodic import only_if

only_if("arrays.end", ANY_OVER)


@shared_task(name="arrays.end")
def end() -> int:
    """End the arrays whose members have all ended; returns how many."""
    return end_arrays()
