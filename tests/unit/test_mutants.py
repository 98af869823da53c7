"""The mutants fit the code and the tests as they are now; `make mutants` tries them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.mutants.catalogue import Mutant, load

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = load()
PRODUCT = ("scheduler/", "nodeagent/", "muster_client/", "platform/muster/")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_names_tests_that_exist(mutant: Mutant) -> None:
    assert mutant.file.startswith(PRODUCT)
    assert mutant.count_in(ROOT) == 1
    ast.parse(mutant.applied_to((ROOT / mutant.file).read_text()))
    for test in mutant.tests:
        file, *_, function = test.partition("[")[0].split("::")
        assert re.search(rf"^ *def {function}\(", (ROOT / file).read_text(), re.MULTILINE), test


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
