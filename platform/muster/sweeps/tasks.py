"""Celery: looking after the sweeps that go on."""

from __future__ import annotations

import time

from celery import shared_task

from muster.common.periodic import only_if
from muster.sweeps.controller import ANY_ACTIVE, look_at_sweep, look_at_sweeps

MAX_TURN_S = 10.0
"""So long a worker may go on before it looks at other tasks."""

only_if("sweeps.look", ANY_ACTIVE)


@shared_task(name="sweeps.look")
def look() -> int:
    """Look after the active sweeps; returns how many."""
    return look_at_sweeps(until=time.monotonic() + MAX_TURN_S)


@shared_task(name="sweeps.look_at")
def look_at(group_id: int) -> None:
    """Look after one sweep, of which a member has ended."""
    look_at_sweep(group_id)
