"""The figure of AlloX on emulated GPUs comes out in its order, and within 15 %."""

from __future__ import annotations

import pytest

from bench.published import allox
from bench.published.__main__ import PAGES
from tests.sim.data import data

THEIRS = {"DRFF": 95.0, "DRFS": 77.0, "Allox": 56.0}
*AS_THERE, IDEAL = allox.STUDIES.values()


def test_each_scheduler_is_within_15_percent_and_in_its_place() -> None:
    ours = {name: allox.simulated(study) for name, study in AS_THERE}
    assert ours == {name: pytest.approx(theirs, rel=0.15) for name, theirs in THEIRS.items()}
    assert ours["DRFF"] > ours["DRFS"] > ours["Allox"] > allox.simulated(IDEAL[1])


def test_the_page_has_the_figures_that_there_are() -> None:
    folder = data("gpemu", "plots/rep__allox__jct.csv").parents[2]
    assert allox.published(folder) == THEIRS
    text = PAGES["emulated"].read_text()
    assert allox.page(folder, text) == text
