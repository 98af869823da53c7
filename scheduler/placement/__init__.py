"""Which GPUs exactly: the port of the placements and their registry."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from scheduler.model import AllocationView, Job, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from scheduler.registry import Plugin, Registry


class Placement(Plugin, Protocol):
    """A way to choose nodes and GPUs for one gang."""

    @property
    def relaxes(self) -> bool:
        """Whether jobs that ask for the same may be placed differently, because one has waited longer."""
        ...

    @property
    def fills(self) -> bool:
        """Whether a lot that may lie anywhere and needs no CPUs and memory fits whenever so many GPUs are free."""
        ...

    def within(self, job: Job, now: float) -> Locality:
        """How close together the GPUs of the job must lie by now; never less close than its own `locality`."""
        ...

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """The next moment after `now` at which `within` changes if the job still waits, or None."""
        ...

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, each on a node of its own, or None when the gang does not fit.

        Takes nothing from `free`. Whether a gang fits must not depend on `avoid`, and one that does not fit must not
        fit with less free or with more to place: a cycle does not ask again for what such a failure implies.
        """
        ...


PLACEMENTS: Registry[Placement] = Registry("placement", "scheduler.placement")
