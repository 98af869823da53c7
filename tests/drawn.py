"""A pytest plugin (`-p tests.drawn`): of the tests that only add cases, a tenth is drawn where `--draw SEED` is given.

Made-up requests, acts on pages, pages of the admin, published figures and scripts for Slurm are many cases of a few
properties.
`make check` draws from them, and prints the seed; `make test-long` and `make check ARGS=--all` run all.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict

import pytest

SHARE = 0.1
_FILES = ("tests/e2e/test_page_actions.py", "tests/sim/test_published", "tests/slurm/test_on_muster.py")
_TESTS = (
    "tests/e2e/test_admin_pages.py::test_axe_finds_nothing_serious_in_the_admin",
    "tests/api/test_openapi.py::test_made_up_requests",
    "tests/unit/scheduler/policies/gavel/test_gavel.py::test_the_authors_figures",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--draw", metavar="SEED", help="run a tenth of the tests that only add cases, drawn by this seed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that were not drawn."""
    seed = config.getoption("--draw")
    if seed is not None:
        left_out = left_out_of([item.nodeid for item in items], seed)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


def left_out_of(nodeids: list[str], seed: str) -> set[str]:
    """The tests that this seed does not draw, of each file those that are more than its tenth."""
    files = defaultdict(list)
    for nodeid in sorted(nodeids):
        if nodeid.startswith((*_FILES, *_TESTS)):
            files[nodeid.partition("::")[0]].append(nodeid)
    left_out: set[str] = set()
    for name, tests in files.items():
        drawn = random.Random(f"{seed} {name}").sample(tests, math.ceil(SHARE * len(tests)))
        left_out.update(set(tests) - set(drawn))
    return left_out
