"""The set of allocations that should exist on a node, as its agent is told: complete every time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from muster.common.clock import database_now
from muster.fleet.models import Node
from muster.jobs.models import Allocation
from muster.jobs.spec import stop_signal
from nodeagent.protocol import Action, DesiredAllocation
from scheduler.lifecycle import AllocationState

_FIELDS = (
    "state",
    "observed",
    "attempt__reason",
    "attempt__running_at",
    "attempt__job__spec",
    "attempt__job__grace_s",
    "attempt__job__time_limit_s",
)


@dataclass(frozen=True, slots=True)
class DesiredSet:
    """What should exist, and a name for it that changes exactly when it does."""

    allocations: tuple[DesiredAllocation, ...]
    observed: dict[int, str]
    generation: str


def desired_set(node: Node) -> DesiredSet:
    """The node's desired set, read in one query."""
    # Every agent asks after every change, so only what the answer needs is read, and it is sorted here.
    found = Allocation.objects.filter(node=node).exclude(state=AllocationState.RELEASED)
    rows = sorted(found.select_related("attempt__job").only(*_FIELDS), key=attrgetter("pk"))
    now = database_now() if any(row.attempt.job.time_limit_s for row in rows) else None
    desired = tuple(_desired(row, now) for row in rows)
    # The time that is left runs down by itself and is no news; the limit would be.
    essence = [
        [one.id, one.fence, one.action.value, row.attempt.job.time_limit_s]
        for one, row in zip(desired, rows, strict=True)
    ]
    generation = hashlib.sha256(json.dumps(essence).encode()).hexdigest()[:16]
    return DesiredSet(desired, {row.pk: row.observed for row in rows}, generation)


def _desired(allocation: Allocation, now: datetime | None) -> DesiredAllocation:
    attempt, job = allocation.attempt, allocation.attempt.job
    if allocation.state == AllocationState.RELEASING:
        return DesiredAllocation(
            id=allocation.pk,
            fence=attempt.pk,
            action=Action.STOP,
            signal=stop_signal(job.spec),
            grace_s=job.grace_s,
            reason=attempt.reason,
        )
    left_s = None
    if job.time_limit_s is not None and now is not None:
        ran_s = (now - attempt.running_at).total_seconds() if attempt.running_at else 0.0
        left_s = job.time_limit_s - ran_s
    return DesiredAllocation(id=allocation.pk, fence=attempt.pk, action=Action.RUN, time_left_s=left_s)
