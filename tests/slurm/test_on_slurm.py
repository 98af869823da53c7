"""The record against a live Slurm, where one is installed: three scripts, drawn anew in each run."""

from __future__ import annotations

import random

import pytest

from tests.slurm.compared import comparisons, shared_folder
from tests.slurm.on_slurm import running, why_not
from tests.slurm.scripts import scripts

DRAWN = 3


@pytest.mark.skipif(bool(why_not()), reason=f"Slurm: {why_not()}")
def test_slurm_does_what_was_recorded() -> None:
    names = random.sample([name for name, script in scripts().items() if not script.slow], DRAWN)
    with shared_folder() as shared, running() as slurm, comparisons(slurm, names, shared) as compare:
        assert {name: compare(name) for name in names} == {name: [] for name in names}
