"""Tiresias's gain on Gavel's traces where it keeps jobs on one node, from the published table."""

from pathlib import Path

import pytest

from bench.published.data import NoData, data_folder
from bench.published.skew import EVERY_JOB, Workload, figures


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return data_folder()
    except NoData as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("trace", ["max_min_fairness", "minimize_makespan"])
def test_jobs_that_wait_for_one_node_end_sooner_and_take_less_gpu_time(folder: Path, trace: str) -> None:
    workload = Workload(trace, "V100:4x4")
    unaware, aware, every_job = (figures(folder, workload, slowdown) for slowdown in (0.0, 1.0, EVERY_JOB))
    assert aware.jct_h < 0.8 * unaware.jct_h
    assert aware.gpu_h < 0.8 * unaware.gpu_h
    assert aware.jct_h <= every_job.jct_h
