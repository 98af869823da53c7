"""The set of allocations that should exist on a node, as its agent is told: complete every time."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, F, OuterRef, When

from muster.common.models import DatabaseNow
from muster.fleet.models import Node
from muster.jobs.attempt.claimants import is_left_behind
from muster.jobs.models import Allocation
from muster.jobs.spec.spec import stop_signal
from muster.shells.models import Shell
from nodeagent.protocol.messages import Action, DesiredAllocation
from nodeagent.protocol.shellwire import WantedShell
from scheduler.model.lifecycle import SHELL_LIVE, AllocationState


class _Row(NamedTuple):
    """The columns of an allocation that decide its agent's orders."""

    node_id: int
    id: int
    fence: int
    state: str
    observed: str
    reason: str
    running_at: datetime | None
    grace_s: float
    time_limit_s: float | None
    spec: dict[str, Any] | None
    shells: list[int]
    now: datetime
    claimed_by: str
    state_id: str


_COLUMNS = (
    *("node_id", "pk", "attempt_id", "state", "observed", "attempt__reason"),
    *("attempt__running_at", "attempt__grace_s", "attempt__time_limit_s"),
    # Specs are large, and tell something only of those that are to stop.
    Case(When(state=AllocationState.RELEASING, then=F("attempt__job__spec"))),
    ArraySubquery(Shell.objects.filter(allocation=OuterRef("pk"), state__in=SHELL_LIVE).order_by("pk").values("pk")),
    DatabaseNow(),
    *("state_id", "node__state_id"),
)


@dataclass(frozen=True, slots=True)
class DesiredSet:
    """The allocations that should exist, and a name that changes exactly when they do."""

    allocations: tuple[DesiredAllocation, ...]
    observed: dict[int, str]
    shells: tuple[WantedShell, ...]
    generation: str


def desired_sets(nodes: Iterable[Node]) -> dict[Node, DesiredSet]:
    """The desired set of each node, read in one query."""
    nodes = list(nodes)
    held = Allocation.objects.filter(node__in=nodes).exclude(state=AllocationState.RELEASED)
    rows: defaultdict[int, list[_Row]] = defaultdict(list)
    # Every agent asks after every change, so only what the answer needs is read, and it is sorted here.
    for row in sorted(map(_Row._make, held.values_list(*_COLUMNS))):
        # What the agent has no record of is not its own to start, and not to stop either: it would call it unstarted.
        if not is_left_behind(row.claimed_by, row.state_id):
            rows[row.node_id].append(row)
    return {node: _set_of(rows[node.pk]) for node in nodes}


def _set_of(rows: list[_Row]) -> DesiredSet:
    desired = tuple(map(_desired, rows))
    # The time that is left runs down by itself and is no news; the limit would be.
    essence = [
        [one.id, one.fence, one.action.value, row.time_limit_s, *row.shells]
        for one, row in zip(desired, rows, strict=True)
    ]
    generation = hashlib.sha256(json.dumps(essence).encode()).hexdigest()[:16]
    shells = tuple(WantedShell(shell_id, row.id, row.fence) for row in rows for shell_id in row.shells)
    return DesiredSet(desired, {row.id: row.observed for row in rows}, shells, generation)


def _desired(row: _Row) -> DesiredAllocation:
    if row.state == AllocationState.RELEASING:
        return DesiredAllocation(
            id=row.id,
            fence=row.fence,
            action=Action.STOP,
            signal=stop_signal(row.spec or {}),
            grace_s=row.grace_s,
            reason=row.reason,
        )
    left_s = None
    if row.time_limit_s is not None:
        ran_s = (row.now - row.running_at).total_seconds() if row.running_at else 0.0
        left_s = row.time_limit_s - ran_s
    return DesiredAllocation(id=row.id, fence=row.fence, action=Action.RUN, time_left_s=left_s)
