"""The demands of a job in one size, each on another number of nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from scheduler.model import Locality
from scheduler.model.request import Choice, Request
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import Demand, demand_of


def demands_in_size(
    capacity: Capacity,
    given: Sequence[Request],
    *,
    within: Locality,
    farthest: Locality | None,
    closed: frozenset[int],
) -> Sequence[Demand]:
    """The demands for the requests of one size, in their order.

    1. Of several, those remain that the empty pool could meet.
    2. If it could meet none within that locality, each gets the closest one that it could meet, up to `farthest`.
    3. If it could meet none at all, the first remains, so that a denial can name it.
    """
    demands = [demand_of(each, within=within, closed=closed) for each in given]
    if len(demands) < 2 and farthest is None:
        return demands
    possible = _possible(capacity, demands)
    if not possible and farthest is not None:
        demands = [_relaxed(capacity, demand, farthest) for demand in demands]
        possible = _possible(capacity, demands)
    return possible or demands[:1]


def feasible_sizes(capacity: Capacity, request: Request, choice: Choice, within: Locality) -> Sequence[int]:
    """Those of the `sizes` of the request that the empty pool could give it within the locality, in their order."""
    sizes = request.sizes(choice)

    def lacks(gpus: int, nodes: int) -> bool:
        given = request.given(request.resized(choice, gpus), nodes)
        return capacity.infeasible(demand_of(given, within=within)) is not None

    if not request.over_gang:
        return [size for size in sizes if not lacks(size // request.nodes, request.nodes)]
    # With the same GPUs on each node, a gang that fits also fits on fewer nodes.
    feasible = set[int]()
    for gpus in range(1, max(1, capacity.largest(choice.gpu_type)) + 1):
        nodes = bisect_left(range(1, max(sizes) // gpus + 1), True, key=partial(lacks, gpus))
        feasible.update(range(gpus, gpus * nodes + 1, gpus))
    return [size for size in sizes if size in feasible]


def _possible(capacity: Capacity, demands: Sequence[Demand]) -> list[Demand]:
    return [demand for demand in demands if capacity.infeasible(demand) is None]


def _relaxed(capacity: Capacity, demand: Demand, farthest: Locality) -> Demand:
    """The demand with the closest locality that the empty pool could meet."""
    levels = list(Locality)
    allowed = levels[levels.index(demand.within) : levels.index(farthest) + 1]
    demands = (demand.relaxed(level) for level in allowed)
    return next((each for each in demands if capacity.infeasible(each) is None), demand)
