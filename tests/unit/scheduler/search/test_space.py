"""Parameters of a sweep: what a spec may say, the points of a grid, and draws that a longer sweep repeats."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.search.space import (
    Integer,
    OneOf,
    Parameter,
    Range,
    SearchError,
    combinations,
    draw,
    env_text,
    grid,
    parse_space,
)

finite = st.one_of(
    st.lists(st.integers(), min_size=1, max_size=5, unique=True).map(lambda values: OneOf(tuple(values))),
    st.tuples(st.integers(-9, 9), st.integers(1, 9)).map(lambda pair: Integer(pair[0], pair[0] + pair[1])),
)
ranges = st.tuples(st.floats(1e-6, 1), st.floats(2, 9), st.booleans()).map(lambda drawn: Range(*drawn))


def spaces(parameter: st.SearchStrategy[Parameter]) -> st.SearchStrategy[dict[str, Parameter]]:
    return st.dictionaries(st.sampled_from("abcd"), parameter, min_size=1, max_size=4)


def test_each_form_is_read() -> None:
    forms = {
        "lr": {"log": [1e-5, 0.1]},
        "batch": [32, 64],
        "layers": {"int": [1, 4]},
        "dropout": {"uniform": [0, 0.5]},
        "norm": ["layer", "none", True],
    }
    assert parse_space(forms) == {
        "lr": Range(1e-5, 0.1, log=True),
        "batch": OneOf((32, 64)),
        "layers": Integer(1, 4),
        "dropout": Range(0.0, 0.5),
        "norm": OneOf(("layer", "none", True)),
    }


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (0.1, "give a list of values"),
        ({"log": [1, 2], "int": [1, 2]}, "give a list of values"),
        ({"normal": [0, 1]}, "'normal' is no form"),
        ({"log": ["1e-5", 0.1]}, "two numbers"),
        ({"log": [0, 1]}, "above 0"),
        ({"log": [1]}, "two numbers"),
        ({"uniform": [2, 1]}, "a below b, not [2, 1]"),
        ({"uniform": [0, math.inf]}, "two numbers"),
        ({"int": [1.5, 3]}, "two integers"),
        ([], "is empty"),
        ([1, "1"], "has 1 twice"),
        ([[1]], "[1] is no value"),
        ([math.nan], "nan is no value"),
    ],
)
def test_a_parameter_that_cannot_be_is_named(form: object, says: str) -> None:
    with pytest.raises(SearchError) as refused:
        parse_space({"lr": form})
    assert refused.value.field == "sweep.params.lr"
    assert says in refused.value.problem


@pytest.mark.parametrize("params", [None, {}, [1], {"my-lr": [1]}, {"1": [1]}, {2: [1]}])
def test_parameters_need_names_of_environment_variables(params: object) -> None:
    with pytest.raises(SearchError) as refused:
        parse_space(params)
    assert refused.value.field.startswith("sweep.params")


def test_a_grid_is_counted_before_it_is_built() -> None:
    with pytest.raises(SearchError, match="1,000,000,000,000 combinations"):
        grid({"a": Integer(1, 10**6), "b": Integer(1, 10**6)})
    assert len(grid({"a": Integer(1, 1000)})) == 1000
    with pytest.raises(SearchError, match=r"sweep\.params\.lr: a grid takes a list"):
        grid({"lr": Range(0, 1)})


def test_a_grid_has_each_combination_once() -> None:
    assert grid({"a": OneOf((1, 2)), "b": Integer(8, 9)}) == [
        {"a": 1, "b": 8},
        {"a": 1, "b": 9},
        {"a": 2, "b": 8},
        {"a": 2, "b": 9},
    ]


@given(spaces(finite | ranges), st.integers(0, 40), st.integers(0, 40), st.integers())
def test_a_longer_sweep_has_the_same_first_members(
    space: dict[str, Parameter], count: int, more: int, seed: int
) -> None:
    drawn = draw(space, count, seed)
    assert len(drawn) == count
    assert draw(space, count + more, seed)[:count] == drawn


@given(spaces(finite), st.integers())
def test_a_finite_space_is_drawn_without_repetition(space: dict[str, Parameter], seed: int) -> None:
    count = combinations(space)
    assert count is not None
    for points in (draw(space, min(count, 200), seed), draw(space, 2 * count, seed)[count:] if count < 100 else []):
        assert len({tuple(point.values()) for point in points}) == len(points)


@given(spaces(ranges), st.integers())
def test_draws_stay_in_their_range(space: dict[str, Parameter], seed: int) -> None:
    for point in draw(space, 5, seed):
        for name, value in point.items():
            parameter = space[name]
            assert isinstance(parameter, Range)
            assert isinstance(value, float)
            assert parameter.low <= value <= parameter.high


def test_a_logarithmic_range_has_as_many_draws_in_each_decade() -> None:
    draws = draw({"lr": Range(1e-4, 1.0, log=True)}, 1000, seed=1)
    decades = [math.floor(math.log10(float(point["lr"]))) for point in draws]
    assert all(200 <= decades.count(decade) <= 300 for decade in (-4, -3, -2, -1))


def test_values_in_the_environment() -> None:
    assert [env_text(value) for value in (True, 3, 1e-05, "a b")] == ["true", "3", "1e-05", "a b"]
