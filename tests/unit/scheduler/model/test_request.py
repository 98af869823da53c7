"""Requests: what they refuse, how they compare, and what they accept."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.codec import CodecError, to_json
from scheduler.model.lifecycle import Locality, RuntimeNeed
from scheduler.model.request import (
    Choice,
    ElasticRange,
    Over,
    Request,
    RequestError,
    interned,
    request_from_dict,
    words_for_choices,
)

A100 = Choice("A100", 4, 16, 65536)
V100 = Choice("V100", 8, 32, 131072)
ANY = Choice(None, 4, 16, 65536)
NO_GPUS = Choice(None, 0, 4, 4096)

choices = st.lists(
    st.builds(Choice, st.sampled_from(["A100", "H100", "V100"]), st.integers(1, 8), st.integers(0, 64), st.integers(0)),
    min_size=1,
    max_size=3,
    unique_by=lambda choice: choice.gpu_type,
).map(tuple) | st.sampled_from([(ANY,)])
requests = st.builds(
    Request,
    choices,
    nodes=st.integers(1, 4),
    locality=st.sampled_from(Locality),
    nodes_in=st.lists(st.sampled_from(["gpu01", "gpu02"])).map(tuple),
    node_labels=st.sampled_from([(), (("net", "ib"),), (("zone", "a"), ("net", "ib"))]),
    exclude_nodes=st.lists(st.sampled_from(["gpu03", "gpu04"])).map(tuple),
    shares_gpu=st.booleans(),
    gpu_memory_mib=st.none() | st.integers(0, 1 << 20),
    elastic=st.none() | st.builds(ElasticRange, st.just(1), st.integers(1, 8), st.sampled_from(Over)),
    runtime=st.sampled_from(RuntimeNeed),
    resources=st.dictionaries(st.sampled_from(["fpga", "licence"]), st.integers(1, 4)).map(lambda d: tuple(d.items())),
)


@given(requests)
def test_a_request_survives_json(request: Request) -> None:
    assert request_from_dict(json.loads(json.dumps(to_json(request)))) == request


@given(requests, requests)
def test_requests_are_equal_when_their_json_is(one: Request, other: Request) -> None:
    assert (one == other) == (to_json(one) == to_json(other))


@given(requests)
def test_an_equal_request_has_an_equal_hash_and_one_interned_value(request: Request) -> None:
    copy = pickle.loads(pickle.dumps(request))
    assert (copy, hash(copy)) == (request, hash(request))
    assert interned(copy) is interned(request)


@given(requests)
def test_a_request_accepts_each_of_its_choices_and_what_is_given_accepts_no_other(request: Request) -> None:
    for choice in request.choices:
        assert request.accepts(choice, request.nodes)
        given_one = request.given(choice)
        assert given_one.choices == (choice,)
        assert [other for other in request.choices if given_one.accepts(other, request.nodes)] == [choice]


@given(requests)
def test_a_request_accepts_each_of_its_sizes_and_what_is_given_has_its_gpus(request: Request) -> None:
    for choice in request.choices:
        asked, *others = request.sizes(choice)
        assert (asked, sorted(others)) == (choice.gpus * request.nodes, others)
        for size in (asked, *others):
            given_ones = request.in_size(choice, size)
            assert [one.gpus_total for one in given_ones] == [size] * len(given_ones)
            assert all(request.accepts(one.first, one.nodes) and one.elastic is None for one in given_ones)
        assert not request.has_size(choice, max(asked, *others, 0) + 1)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        pytest.param({"choices": ()}, "choices", "choices: there is none", id="no choices"),
        pytest.param(
            {"choices": (A100, replace(A100, gpus=8))}, "choices", "choices: A100 is named twice", id="a type twice"
        ),
        pytest.param(
            {"choices": (A100, ANY)}, "choices", "choices: any GPU type stands beside named ones", id="any beside named"
        ),
        pytest.param(
            {"choices": (A100, NO_GPUS)}, "choices", "choices: one without GPUs stands beside others", id="none beside"
        ),
        pytest.param({"nodes": 0}, "nodes", "nodes: 0 is less than 1", id="no nodes"),
        pytest.param(
            {"nodes": 2, "divisible": True}, "nodes", "nodes: a divisible job has nodes 1, not 2", id="a lot on nodes"
        ),
        pytest.param({"nodes_in": ("",)}, "nodes_in", "nodes_in: a node has no name", id="a node without a name"),
        pytest.param(
            {"nodes_in": ("gpu02", "gpu01"), "exclude_nodes": ("gpu01", "gpu02", "gpu03")},
            "exclude_nodes",
            "exclude_nodes: no node is left of nodes_in: gpu01, gpu02",
            id="nodes in and out leave nothing",
        ),
        pytest.param(
            {"gpu_memory_mib": -1}, "gpu_memory_mib", "gpu_memory_mib: -1 is negative", id="negative memory of a GPU"
        ),
        pytest.param(
            {"choices": (NO_GPUS,), "elastic": ElasticRange(1, 2)},
            "elastic",
            "elastic: a job without GPUs has no range of them",
            id="a range of no GPUs",
        ),
        pytest.param(
            {"divisible": True, "elastic": ElasticRange(1, 2, Over.GANG)},
            "elastic",
            "elastic: a divisible job has no equal number of GPUs on each node",
            id="a lot over a gang",
        ),
        pytest.param(
            {"resources": (("fpga", 1), ("fpga", 2))},
            "resources",
            "resources: fpga is named twice",
            id="resource twice",
        ),
        pytest.param(
            {"resources": (("fpga", 0),)}, "resources", "resources: 0 of fpga is less than 1", id="none of a resource"
        ),
        pytest.param(
            {"resources": (("", 1),)}, "resources", "resources: a resource has no name", id="unnamed resource"
        ),
    ],
)
def test_a_request_that_contradicts_itself_is_refused_with_its_field(
    fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(RequestError) as error:
        Request(**{"choices": (A100,), **fields})
    assert (error.value.field, str(error.value)) == (field, message)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ((None, -1, 0, 0), "choices.gpus"),
        ((None, 0, -1, 0), "choices.cpus"),
        ((None, 0, 0, -1), "choices.memory_mib"),
        (("", 1, 0, 0), "choices.gpu_type"),
        (("A100", 0, 1, 1), "choices.gpu_type"),
    ],
)
def test_a_choice_of_an_impossible_size_is_refused_with_its_field(
    values: tuple[str | None, int, int, int], field: str
) -> None:
    with pytest.raises(RequestError) as error:
        Choice(*values)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("ends", "field"), [((0, 4), "elastic.min_gpus"), ((4, 2), "elastic.max_gpus")], ids=["begins at 0", "is empty"]
)
def test_an_elastic_range_that_holds_no_size_is_refused(ends: tuple[int, int], field: str) -> None:
    with pytest.raises(RequestError) as error:
        ElasticRange(*ends)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "Request: missing or unknown field: extra"),
        (
            {"choices": [{"gpu_type": "A100"}]},
            "Request.choices: Choice: missing or unknown field: cpus, gpus, memory_m",
        ),
        ({"resources": [["fpga"]]}, "Request.resources: ['fpga'] does not have 2 items"),
        ({"resources": [["fpga", "1"]]}, "Request.resources: '1' has the wrong type"),
        ({"elastic": {"min_gpus": 2, "max_gpus": 1}}, "Request.elastic: elastic.max_gpus: 1 is less than min_gpus, 2"),
        ({"nodes": True}, "Request.nodes: True has the wrong type"),
    ],
)
def test_stored_json_of_another_shape_is_refused_with_its_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CodecError) as error:
        request_from_dict(to_json(Request((A100,))) | change)
    assert str(error.value).startswith(message)


def test_names_are_kept_in_order_and_once() -> None:
    request = Request(
        (A100,), nodes_in=("gpu2", "gpu1", "gpu2"), exclude_nodes=("gpu9", "gpu8"), resources=(("b", 1), ("a", 2))
    )
    assert request.nodes_in == ("gpu1", "gpu2")
    assert request.exclude_nodes == ("gpu8", "gpu9")
    assert request.resources == (("a", 2), ("b", 1))


def test_choices_stand_in_order_of_preference() -> None:
    request = Request((V100, A100))
    assert request.first == V100
    assert request.gpu_types == ("V100", "A100")
    assert request.types_among(["A100", "H100", "V100"]) == ("V100", "A100")
    assert words_for_choices(request.choices) == "V100:8 or A100:4"
    assert request != Request((A100, V100))


def test_any_type_is_every_type_of_the_pool() -> None:
    request = Request((ANY,))
    assert request.gpu_types == ()
    assert request.types_among(["A100", "H100"]) == ["A100", "H100"]
    assert request.choice_of("H100") == replace(ANY, gpu_type="H100")
    assert words_for_choices(request.choices) == "4"


def test_a_size_is_accepted_with_its_own_type_only() -> None:
    request = Request((A100, V100))
    assert request.accepts(A100, 1)
    assert request.accepts(V100, 1)
    assert not request.accepts(A100, 2)
    assert not request.accepts(replace(A100, gpu_type="V100"), 1)
    assert not request.accepts(replace(A100, gpu_type="H100"), 1)
    assert not request.accepts(replace(A100, cpus=8), 1)


@pytest.mark.parametrize(("gpus", "accepted"), [(1, False), (2, True), (6, True), (7, False)])
def test_an_elastic_job_accepts_the_sizes_of_its_range(gpus: int, accepted: bool) -> None:
    request = Request((A100,), elastic=ElasticRange(2, 6))
    size = request.resized(A100, gpus)
    assert request.accepts(size, 1) is accepted
    assert not request.accepts(size, 2)
    assert not request.accepts(replace(size, cpus=size.cpus + 1), 1)


def test_a_job_that_is_elastic_over_its_gang_has_equally_many_gpus_on_as_few_nodes_as_possible() -> None:
    request = Request((A100, V100), nodes=2, elastic=ElasticRange(6, 12, Over.GANG))
    assert request.sizes(A100) == (8, 6, 7, 9, 10, 11, 12)
    assert (request.min_gpus, request.max_gpus) == (6, 12)
    assert [(one.nodes, one.first.gpus, one.first.cpus) for one in request.in_size(A100, 6)] == [
        (1, 6, 24),
        (2, 3, 12),
        (3, 2, 8),
        (6, 1, 4),
    ]
    assert request.in_size(V100, 16)[1] == request.given(V100)


@pytest.mark.parametrize(
    ("gpus", "nodes", "accepted"), [(6, 1, True), (3, 2, True), (1, 12, True), (1, 5, False), (5, 3, False)]
)
def test_a_job_that_is_elastic_over_its_gang_accepts_any_number_of_nodes(gpus: int, nodes: int, accepted: bool) -> None:
    request = Request((A100,), elastic=ElasticRange(6, 12, Over.GANG))
    size = request.resized(A100, gpus)
    assert request.accepts(size, nodes) is accepted
    assert not request.accepts(replace(size, cpus=size.cpus + 1), nodes)


def test_a_range_that_was_stored_without_what_it_counts_is_of_each_node() -> None:
    stored = to_json(Request((A100,), elastic=ElasticRange(2, 6)))
    del stored["elastic"]["over"]
    assert request_from_dict(stored).elastic == ElasticRange(2, 6, Over.NODE)


def test_a_resized_job_gets_cpus_and_memory_in_proportion_and_a_lot_has_them_for_each_gpu() -> None:
    assert Request((Choice("A100", 4, 6, 1000),)).resized(Choice("A100", 4, 6, 1000), 3) == Choice("A100", 3, 5, 750)
    lot = Request((Choice("A100", 4, 6, 1000),), divisible=True)
    assert lot.resized(lot.first, 3) == Choice("A100", 3, 6, 1000)
