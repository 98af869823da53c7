"""The demands that did not fit in a decision."""

from __future__ import annotations

from collections.abc import Hashable

from scheduler.placement.demand import Demand


class FailedDemands:
    """The demands that did not fit in this cycle. They are not tried again until something is released."""

    def __init__(self) -> None:
        self._smallest: dict[tuple[Hashable, ...], list[Demand]] = {}

    def imply(self, demand: Demand, key: Hashable) -> bool:
        """True if a failed demand implies that this one fails: it is no smaller in any resource.

        `key` is that of the ledger: demands with different ones may get different GPUs.
        """
        return any(
            demand.gpus >= failed.gpus
            and demand.nodes >= failed.nodes
            and demand.cpus >= failed.cpus
            and demand.memory_mib >= failed.memory_mib
            for failed in self._smallest.get(_alike(demand, key), ())
        )

    def add(self, demand: Demand, key: Hashable) -> None:
        """Record a failed demand that no earlier failure implies."""
        self._smallest.setdefault(_alike(demand, key), []).append(demand)

    def forget(self) -> None:
        """Forget all failures, because resources were released."""
        self._smallest.clear()


def _alike(demand: Demand, key: Hashable) -> tuple[Hashable, ...]:
    """The parts of a demand other than its size."""
    return demand.gpu_type, demand.divisible, demand.within, demand.closed, key
