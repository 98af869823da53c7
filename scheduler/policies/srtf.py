"""Shortest remaining time first, with preemption."""

from __future__ import annotations

from scheduler.policies.predicted import ShortestRemainingFirst


class Srtf(ShortestRemainingFirst):
    """Serves the job with the shortest predicted remaining time first, and preempts jobs with more."""

    __slots__ = ()


PLUGIN = Srtf
