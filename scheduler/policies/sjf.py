"""Shortest job first, without preemption."""

from __future__ import annotations

from scheduler.policies.predicted import ShortestFirst


class Sjf(ShortestFirst):
    """Serves the job with the shortest predicted run time first, without preemption."""

    __slots__ = ()


PLUGIN = Sjf
