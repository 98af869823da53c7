"""The interface of placements, which choose nodes and GPUs for a gang, and their registry."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from scheduler.model import AllocationView, Job, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from scheduler.registry import Plugin, Registry


class Placement(Plugin, Protocol):
    """Chooses nodes and GPUs for one gang."""

    @property
    def relaxes(self) -> bool:
        """True if the locality of a job depends on how long it has waited."""

    @property
    def fills(self) -> bool:
        """True if a divisible lot with locality `any` and no CPUs or memory fits whenever enough GPUs are free."""

    def within(self, job: Job, now: float) -> Locality:
        """The locality that the placement demands for the job now; never looser than the `locality` of the job."""

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """The next time after `now` at which `within` changes while the job waits, or None."""

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, each on its own node; None if the gang does not fit. Leaves `free` unchanged.

        Whether a gang fits must not depend on `avoid`. A gang that does not fit must not fit with fewer free resources
        or a larger demand, because a cycle does not try again what a failure implies.
        """


PLACEMENTS: Registry[Placement] = Registry(
    "placement",
    "scheduler.placement",
    group="muster.placements",
    needs=("relaxes", "fills", "within", "relaxes_at", "place"),
)
