"""Reports of an executor to the platform about the ranks that it runs.

An executor starts the ranks of placed attempts and tells what becomes of them, in whatever way it learns it: the agents
by their protocol (`muster.agents`). The platform takes it over (`reports`), and both sides follow the same rules:

1. A rank is named with its fencing token. What comes with another token is a `Conflict`, and changes nothing.
2. A rank is claimed before anything of it starts, by one claimant; any other one is refused.
3. Everything may be told again, and changes nothing the second time.
4. A rank has ended when none of its processes is left: that frees its GPUs.

`tests/db/execution/` holds an executor against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.jobs.attempt.attempts import End
from muster.jobs.attempt.claimants import Claimant
from muster.jobs.attempt.gangs import Rank
from muster.jobs.models import Allocation
from muster.logs.store import Chunk, LogEnd
from muster.monitoring.store import Point
from scheduler.model.reasons import Reason


class Port(Protocol):
    """The calls of an executor; `Conflict` and `NotFound` are answers to be expected."""

    def claim(self, rank: Rank, *, claimant: Claimant) -> Allocation:
        """The claimant may start the rank."""
        ...

    def running(self, rank: Rank) -> None:
        """Its processes run."""
        ...

    def progress(self, rank: Rank, *, text: str) -> None:
        """The progress of its start, for people."""
        ...

    def report(self, told: Sequence[tuple[Rank, Sequence[Point]]]) -> None:
        """The metrics that processes of ranks report of themselves, of every rank of a gang.

        They come often and are told of many ranks together. So what comes with another token is passed over.
        """
        ...

    def kept(self, rank: Rank, *, end: End, left_s: float) -> None:
        """Its command has failed, and what it ran in is kept for `left_s` seconds; its end follows."""
        ...

    def end(self, rank: Rank, *, claimant: Claimant, end: End, points: Sequence[Point] = ()) -> None:
        """None of its processes is left; `points` of its metrics come with the end."""
        ...

    def lose(self, *, attempt_id: int, node_id: int, reason: Reason, detail: str, blame: bool = True) -> bool:
        """It is proven that none of the attempt's processes is left on the node, and not known how they ended.

        False if the attempt held nothing there. Without `blame` the next attempt may run on the node.
        """
        ...

    def log(self, allocation: Allocation, chunk: Chunk) -> int:
        """The size of the rank's log with this chunk of it."""
        ...

    def end_log(self, allocation: Allocation, end: LogEnd) -> None:
        """The rank's log ends so; nothing of it follows."""
        ...
