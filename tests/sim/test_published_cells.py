"""The figures of virtual clusters: the anomaly, and how later than alone is counted and drawn."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from bench.published import anomaly, cells, safety
from bench.published.data import NoData, data_folder
from scheduler.model.lifecycle import JobClass
from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.metrics import summarize
from scheduler.sim.options import Options
from scheduler.sim.trace import Trace
from tests.sim.stories import job


def test_plain_quotas_make_a_tenant_wait_longer_than_alone_and_cells_do_not() -> None:
    waits_s = {
        title: next(record.started_s - record.submitted_s for record in result.records if record.name == "a3")
        for title, result in anomaly.runs().items()
        if all(record.started_s is not None for record in result.records)
    }
    assert waits_s == {"the first tenant alone": 32 * 60, "plain quotas": 271 * 60, "cells": 32 * 60}
    assert anomaly.table().splitlines()[-1].endswith("| 32 | 271 | 32 |")


def test_each_job_is_there_a_second_time_as_an_opportunistic_one() -> None:
    both = safety.with_guests(Trace("two", (job(1, at=0, vc="a"), job(2, at=5, vc="b"))))
    told = [(one.id, one.vc, one.job_class) for one in both.jobs]
    guaranteed, opportunistic = JobClass.GUARANTEED, JobClass.OPPORTUNISTIC
    assert told == [
        (1, "a", guaranteed),
        (3, "guests", opportunistic),
        (2, "b", guaranteed),
        (4, "guests", opportunistic),
    ]


def test_the_same_figures_make_the_same_tables_and_plots(tmp_path: Path) -> None:
    result = simulate(Trace("one", (job(1, vc="a"),)), parse_cluster("V100:1x4"), Options(quotas={"a": {"V100": 4}}))
    outcome = cells.Outcome(summarize(result), {"a": [7200.0, 3600.0, 0.0, -60.0]})
    found = dict.fromkeys(product(cells.DIVISORS, cells.SCHEMES), outcome)
    row = cells.table(found).splitlines()[2]
    assert row == "| 4 | quotas | 0.03 | 0.0 | 0.0 | 0.0 | 25.0% | 0 | 50.0% | 1.5 | 2.0 |"
    assert (
        cells.tenants(found, cells.DIVISORS[0]).splitlines()[2].startswith("| a | 4 | 1 | 0.0; 0.0, 0.0; 25%; 0; 2.0 |")
    )
    extra = {grace_s: [0.0, 30.0, 60.0, -5.0] for grace_s in safety.GRACES_S}
    assert safety.table(extra).splitlines()[2] == "| 0 | 50.0% | 22.5 | 59 | 60 |"
    loss = safety.Loss([3600.0, 0.0], [0.0, 0.0])
    assert safety.bad_table({1: loss}).splitlines()[2] == "| 1 | 50.0% | 1.0 | 0.0% | 0.0 |"
    plots = [tmp_path / f"{name}.svg" for name in ("first", "second")]
    for path in plots:
        cells.draw(found, path)
    assert plots[0].read_bytes() == plots[1].read_bytes()
    for path in plots:
        safety.draw(extra, path)
    assert plots[0].read_bytes() == plots[1].read_bytes()
    for path in plots:
        anomaly.draw(path)
    assert plots[0].read_bytes() == plots[1].read_bytes()


def test_the_virtual_clusters_of_philly_have_jobs() -> None:
    try:
        folder = data_folder()
    except NoData as error:
        pytest.skip(str(error))
    nodes = cells.nodes_of(folder)
    assert (len(nodes), sum(nodes.values())) == (11, 352)
    assert {one.vc for one in cells.read(folder).jobs} == nodes.keys()
