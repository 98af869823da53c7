"""The simulator reproduces published figures where the assumptions are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.published.data import NoData, data_folder
from bench.published.pollux import LOADS, WORKLOADS, compare


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return data_folder()
    except NoData as error:
        pytest.skip(str(error))


# `make figures` runs the other loads of Optimus, too, where a workload takes several seconds.
@pytest.mark.parametrize(
    ("policy", "load"), [*(("tiresias", load) for load in LOADS), ("optimus", "0.5"), ("optimus", "1.0")]
)
def test_every_job_has_the_published_jct(folder: Path, policy: str, load: str) -> None:
    for workload in WORKLOADS:
        found = compare(folder, policy, load, workload)
        assert found.ours_s == found.theirs_s
