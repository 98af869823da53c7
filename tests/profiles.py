"""The Hypothesis profiles: how many examples a property draws, and from where.

MUSTER_HYPOTHESIS_PROFILE chooses one. `quick` and `ci` draw the same examples in every run; `long`, which `make faults`
takes, draws new ones, and also makes the tests that kill processes go on for longer. `tests/conftest.py` imports this
module before any test, so that `@settings` of a test inherits from the profile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from hypothesis import settings

VARIABLE = "MUSTER_HYPOTHESIS_PROFILE"
DEFAULT = "ci"
# The examples of each profile, as a multiple of the number that a test names.
FACTORS: Mapping[str, float] = {"quick": 0.1, DEFAULT: 0.4, "long": 5}
# The first example that Hypothesis draws is the simplest one, so fewer than these test next to nothing.
MIN_EXAMPLES = 3
EXAMPLES = 100


def profile_of(environment: Mapping[str, str]) -> str:
    """The name of the profile that the environment chooses.

    Raises:
        pytest.UsageError: there is no such profile.
    """
    name = environment.get(VARIABLE) or DEFAULT
    if name not in FACTORS:
        raise pytest.UsageError(f"{VARIABLE}={name}: there is no such profile. Choose one of: {', '.join(FACTORS)}.")
    return name


def scaled(count: int, *, profile: str) -> int:
    """The number of examples in a profile for a property that names `count`."""
    return max(min(count, MIN_EXAMPLES), round(count * FACTORS[profile]))


PROFILE = profile_of(os.environ)
IS_LONG = PROFILE == "long"


def examples(count: int) -> int:
    """`max_examples` for a property that names `count`; one that names 100 needs no `@settings`."""
    return scaled(count, profile=PROFILE)


for _name in FACTORS:
    settings.register_profile(
        _name,
        max_examples=scaled(EXAMPLES, profile=_name),
        # Other tests use the same processors: the time of one example says nothing.
        deadline=None,
        derandomize=_name != "long",
        database=None,
        print_blob=True,
    )
settings.load_profile(PROFILE)
