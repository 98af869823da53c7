"""A forecast before a submission, held against the start, over real processes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.cluster import Cluster, until

pytestmark = pytest.mark.timeout(180)

READ = "from muster.predictions.tasks import read_waits; read_waits()"
RUN_FORWARD = "from muster.predictions.forward.runs import run_due_pools; print(run_due_pools())"
HELD_S = 6
BUSY_MACHINE_S = 20.0


def test_a_forecast_before_the_submission_holds_against_the_start(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.python(READ)
    first = cluster.submit(f"sleep {HELD_S}", gpus=3, nodes=2, time="30s", expected=f"{HELD_S}s")
    cluster.wait(first, "active")
    assert int(cluster.python(RUN_FORWARD)) >= 1
    spec: dict[str, Any] = {"command": "true", "gpus": 2, "time": "30s"}
    foretold = client.dry_run(spec)
    wait = foretold["wait"]
    assert wait is not None, foretold["wait_unknown"]
    assert wait["says"].startswith("likely within 10 minutes")
    job = client.submit(spec)
    cluster.python(READ)
    waiting = client.when(job["id"])
    assert waiting["submitted"] is not None
    assert waiting["submitted"]["source"] == wait["source"]
    cluster.wait(client.job(job["id"]), "succeeded")
    until(lambda: cluster.python(READ) == "" and client.when(job["id"])["wait"] is None, "its start has been read")
    started = client.when(job["id"])
    assert started["waited_s"] is not None
    assert started["started_at"] is not None
    assert started["waited_s"] <= wait["p90_s"] + BUSY_MACHINE_S
    assert abs(started["waited_s"] - wait["p50_s"]) <= HELD_S + BUSY_MACHINE_S
    ((pool,),) = cluster.sql("SELECT name FROM fleet_pool")
    total = client.waits(pool)["total"]
    assert total is not None
    assert total["quick_real"] == 1.0
    assert total["jobs"] >= 1
