"""The sizes of an elastic job that a pool could ever give it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.demands import feasible_sizes
from scheduler.model import Locality
from scheduler.model.request import Over, request_of
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import demand_of
from tests.unit.scheduler.factories import make_node, make_snapshot

NODES = st.fixed_dictionaries(
    {
        "gpus": st.integers(0, 4),
        "gpu_type": st.sampled_from(["A100", "V100"]),
        "rack": st.sampled_from(["r1", "r2"]),
        "cpus": st.integers(1, 8),
    }
)


@given(
    nodes=st.lists(NODES, max_size=6),
    cpus=st.integers(0, 3),
    most=st.integers(1, 30),
    within=st.sampled_from(Locality),
)
def test_sizes_of_a_gang_are_feasible_if_the_empty_pool_could_meet_one_of_their_demands(
    nodes: list[dict[str, Any]], cpus: int, most: int, within: Locality
) -> None:
    capacity = Capacity(make_snapshot(nodes=[make_node(number, **fields) for number, fields in enumerate(nodes, 1)]))
    request = request_of(gpu_type="A100", gpus=1, cpus=cpus, memory_mib=0, max_gpus=most, over=Over.GANG)
    assert feasible_sizes(capacity, request, request.first, within) == [
        gpus
        for gpus in request.sizes(request.first)
        if any(
            capacity.infeasible(demand_of(one, within=within)) is None for one in request.in_size(request.first, gpus)
        )
    ]
