"""A node on which every command fails, over real processes: it is cordoned before it has eaten the queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.cluster import POOL_TABLE, Cluster, until
from tests.faults.conftest import Figure
from tests.faults.layout import LONG, NODES

pytestmark = pytest.mark.timeout(300)

JOBS = 60 if LONG else 16
ENOUGH = 3


@pytest.fixture
def watchful(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the usual settings of a pool, which other tests have turned off, and nodes that are alike."""
    cluster.sql("DELETE FROM fleet_strike")
    cluster.sql(f"UPDATE {POOL_TABLE} SET black_hole_jobs = %s", ENOUGH)
    yield cluster
    cluster.sql(f"UPDATE {POOL_TABLE} SET black_hole_jobs = 0")
    given_back = "admin = 'active', reason = '', black_hole_at = NULL, resumed_at = clock_timestamp()"
    cluster.sql(f"UPDATE fleet_node SET {given_back}, version = version + 1")


def test_a_node_that_fails_every_job_is_cordoned_after_three(watchful: Cluster, figure: Figure) -> None:
    cluster, bad = watchful, NODES[0]
    command = f'[ "$MUSTER_NODE" != {bad} ] || exit 1; sleep 1; echo done'
    jobs = [cluster.submit(command) for _ in range(JOBS)]

    def is_cordoned() -> bool:
        if cluster.client().node(bad)["admin"] == "cordoned":
            return True
        # The queue does not end before: where this node's agent is slow, the other node takes nearly all that comes.
        jobs.append(cluster.submit(command))
        return False

    until(is_cordoned, "the node is cordoned", 60, every_s=0.25)
    ended = [cluster.wait(job, "succeeded", "failed", within_s=120) for job in jobs]
    lost = [job["id"] for job in ended if job["state"] == "failed"]
    starts = "SELECT count(*) FROM jobs_attempt WHERE state = 'failed' AND job_id = ANY(%s)"
    [(failed,)] = cluster.sql(starts, [job["id"] for job in jobs])
    assert failed >= ENOUGH, cluster.story(jobs[0])
    assert len(lost) <= ENOUGH, cluster.story(jobs[0])
    assert "jobs in a row failed here within 60 s" in cluster.client().node(bad)["reason"]
    assert cluster.client().node(NODES[1])["admin"] == "active"
    figure("jobs", len(jobs))
    figure("lost for good", len(lost))
    figure("starts that failed there", failed)


def test_jobs_that_fail_everywhere_cost_no_node(watchful: Cluster) -> None:
    cluster = watchful
    jobs = [cluster.submit("exit 1", user=user) for _ in range(4) for user in ("red", "blue")]
    for job in jobs:
        cluster.wait(job, "failed", within_s=60)
    assert {cluster.client().node(name)["admin"] for name in NODES} == {"active"}
