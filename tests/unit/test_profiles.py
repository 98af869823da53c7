"""Number of examples that the properties draw in each Hypothesis profile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.profiles import FACTORS, VARIABLE, profile_of, scaled

TESTS = Path(__file__).resolve().parents[1]
# Searches that end with the first find, and one history of chance in each run.
MAY_BE_FIXED = {"tests/protocol/test_protocol_machine.py"}


def test_the_default_profile_is_ci() -> None:
    assert profile_of({}) == profile_of({VARIABLE: ""}) == "ci"


def test_an_unknown_profile_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(pytest.UsageError, match=r"MUSTER_HYPOTHESIS_PROFILE=slow: .*quick, ci, long"):
        profile_of({VARIABLE: "slow"})


@pytest.mark.parametrize(
    ("count", "quick", "ci", "long"),
    [(100, 10, 40, 500), (12, 3, 5, 60), (2, 2, 2, 10)],
    ids=["scaled", "at least three", "few"],
)
def test_a_profile_scales_the_examples(count: int, quick: int, ci: int, long: int) -> None:
    assert [scaled(count, profile=name) for name in ("quick", "ci", "long")] == [quick, ci, long]


@pytest.mark.parametrize("name", FACTORS)
def test_only_the_long_profile_draws_at_random(name: str) -> None:
    profile = settings.get_profile(name)
    assert profile.derandomize == (name != "long")
    assert profile.max_examples == scaled(100, profile=name)


def test_no_property_draws_a_fixed_number_of_examples() -> None:
    fixed = {
        path.relative_to(TESTS.parent).as_posix()
        for path in TESTS.rglob("test_*.py")
        if re.search(r"max_examples=\d", path.read_text())
    }
    assert fixed == MAY_BE_FIXED
