"""The simulator comes to what others have published, where the assumptions are the same."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from bench.published.data import NoData, data_folder
from bench.published.pollux import WORKLOADS, compare


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return data_folder()
    except NoData as error:
        pytest.skip(str(error))


def test_tiresias_has_the_published_jct_of_every_job_at_pollux_load(folder: Path) -> None:
    for workload in WORKLOADS:
        found = compare(folder, "tiresias", "1.0", workload)
        assert found.ours_s == found.theirs_s


@pytest.mark.parametrize("load", ["0.5", "1.5", "2.0"])
def test_tiresias_has_the_published_mean_jct_at_other_loads(folder: Path, load: str) -> None:
    runs = [compare(folder, "tiresias", load, workload) for workload in WORKLOADS]
    assert fmean(run.ours_mean_s for run in runs) == pytest.approx(fmean(run.theirs_mean_s for run in runs), rel=0.01)
    assert max(abs(run.deviation) for run in runs) <= 0.03


def test_optimus_has_the_published_mean_jct_of_every_workload(folder: Path) -> None:
    for workload in WORKLOADS:
        assert abs(compare(folder, "optimus", "1.0", workload).deviation) <= 0.01
