"""A GPU that fails under a job, over real processes: jobs go elsewhere, until that was long ago."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.faults.cluster import POOL_TABLE, Cluster, until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def wary(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a placement that avoids a node after one strike."""
    change = f"UPDATE {POOL_TABLE} SET placement_params = %s::jsonb"
    cluster.sql("DELETE FROM fleet_strike")
    cluster.sql(change, '{"strikes_limit": 0.5}')
    yield cluster
    cluster.sql(change, "{}")
    cluster.forget_faults()


def test_jobs_avoid_a_node_whose_gpu_failed_under_one(wary: Cluster) -> None:
    cluster = wary
    running = cluster.submit("sleep 120")
    bad = cluster.until_attempt_runs(running)
    [(index,)] = cluster.sql(
        "SELECT gpu.index FROM jobs_gpuclaim claim JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id"
        " WHERE claim.released_at IS NULL"
    )
    cluster.inject(bad, index, kind="ecc", detail="double-bit ECC error")
    until(lambda: node(cluster, bad)["strikes"] == 1, "the node is struck")
    (strike,) = node(cluster, bad)["last_strikes"]
    assert (strike["reason"], strike["gpu"], strike["job"]) == ("gpu_ecc", index, running["id"])
    assert node(cluster, bad)["gpus"][index]["health"] == "warning"

    # Beside the job that runs it would lie more tightly, which is what the placement wants of nodes without strikes.
    elsewhere = cluster.submit("true")
    assert cluster.wait(elsewhere)["state"] == "succeeded", cluster.story(elsewhere)
    assert node_of(cluster, elsewhere["id"]) != bad

    # A warning that is not told again is over after an hour.
    cluster.sql("UPDATE fleet_strike SET at = at - interval '2 days'")
    cluster.sql("UPDATE fleet_healthreport SET last_at = last_at - interval '2 hours'")
    until(lambda: {gpu["health"] for gpu in node(cluster, bad)["gpus"]} == {"ok"}, "the warning is over")
    assert node(cluster, bad)["strikes"] == pytest.approx(0.25, abs=0.01)
    back = cluster.submit("true")
    assert cluster.wait(back)["state"] == "succeeded", cluster.story(back)
    assert node_of(cluster, back["id"]) == bad
    assert cluster.client().job(running["id"])["state"] == "active"
    cluster.client().cancel(running["id"])
    cluster.wait(running, "cancelled")


def node(cluster: Cluster, name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", cluster.client().node(name))


def node_of(cluster: Cluster, job_id: int) -> str:
    [(name,)] = cluster.sql(
        "SELECT node.name FROM jobs_allocation held JOIN jobs_attempt attempt ON attempt.id = held.attempt_id"
        " JOIN fleet_node node ON node.id = held.node_id WHERE attempt.job_id = %s",
        job_id,
    )
    return str(name)
