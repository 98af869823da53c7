"""Jobs that are tried before they get their gang, over real processes: a broken one never takes it, a good one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster_client.answers.jobs import Job
from tests.faults.cluster import Cluster, until
from tests.faults.layout import GPUS_PER_NODE, NODES

pytestmark = pytest.mark.timeout(240)

HOME, SMALL = NODES
GANG = {"gpus": GPUS_PER_NODE, "memory": "64MiB"}

_BEGIN = (
    'INSERT INTO fleet_pool SELECT (jsonb_populate_record(pool, \'{"id": 900, "name": "small"}\')).*'
    " FROM fleet_pool pool WHERE name = 'pool'",
    f"UPDATE fleet_node SET pool_id = 900, version = version + 1 WHERE name = '{SMALL}'",
    "INSERT INTO screening_poolscreening"
    " (pool_id, screening_pool_id, min_gpus, minutes, world, max_wait_s, trust_days, tenant_gpus)"
    " SELECT id, 900, 2, 0.05, 2, 600, 7, 2 FROM fleet_pool WHERE name = 'pool'",
)
_END = (
    "DELETE FROM screening_poolscreening",
    "UPDATE fleet_node SET pool_id = pool.id, version = version + 1 FROM fleet_pool pool"
    " WHERE pool_id = 900 AND pool.name = 'pool'",
    "UPDATE jobs_job SET pool_id = vc.pool_id FROM tenants_virtualcluster vc"
    " WHERE vc.id = jobs_job.vc_id AND jobs_job.pool_id = 900",
    "DELETE FROM dispatch_cycle WHERE pool_id = 900",
    "DELETE FROM fleet_pool WHERE id = 900",
)


@pytest.fixture
def screened(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, whose second node is a pool of its own in which the large jobs of the first are tried for 3 s."""
    for statement in _BEGIN:
        cluster.sql(statement)
    yield cluster
    for statement in _END:
        cluster.sql(statement)


def test_a_broken_command_never_takes_its_gang(screened: Cluster) -> None:
    cluster = screened
    # Python must come to its import within the screening run, which ends with it.
    cluster.sql("UPDATE screening_poolscreening SET minutes = 1")
    job = cluster.submit("python3 -c 'import nowhere'", **GANG)
    failed = cluster.wait(job, "failed")
    assert (failed["stage"], failed["exit_code"], failed["started_at"]) == ("screening", 1, None), cluster.story(job)
    assert failed["failure"] is not None
    assert failed["failure"]["class"] == "import_error"
    assert "found in its screening run on 2 of 4 GPUs" in str(failed["reason_detail"])
    [result] = cluster.client().job(job["id"])["screening_runs"]
    assert (result["verdict"], result["line"]) == ("failed", "ModuleNotFoundError: No module named 'nowhere'")
    assert cluster.attempts(job) == [("failed", "exit_nonzero")]
    assert where(cluster, job) == [(SMALL, 2)]
    assert b"No module named 'nowhere'" in cluster.log(job, attempt=1)


def test_a_good_one_passes_and_keeps_its_place(screened: Cluster) -> None:
    cluster = screened
    holder = cluster.submit("sleep 300", screening="never", **GANG)
    cluster.until_attempt_runs(holder)
    words = 'echo "$MUSTER_STAGE on $MUSTER_GPUS"; [ $MUSTER_STAGE = full ] || sleep 300'
    good = cluster.submit(words, retry={"max": 0}, **GANG)
    later = cluster.submit("echo later", screening="never", **GANG)
    until(lambda: cluster.client().job(good["id"])["stage"] == "full", "the screening run has passed", 60)
    assert cluster.attempts(good) == [("cancelled", "screening_passed")]
    assert cluster.client().job(good["id"])["state"] == "queued"
    cluster.client().cancel(holder["id"])
    assert cluster.wait(good)["state"] == "succeeded", cluster.story(good)
    assert cluster.wait(later)["state"] == "succeeded", cluster.story(later)
    assert where(cluster, good) == [(SMALL, 2), (HOME, GPUS_PER_NODE)]
    assert cluster.log(good, attempt=1).startswith(b"screening on 2")
    assert cluster.log(good, attempt=2) == b"full on 4\n"
    placed = "SELECT job_id FROM jobs_attempt WHERE stage = 'full' AND job_id IN (%s, %s) ORDER BY placed_at"
    assert cluster.sql(placed, good["id"], later["id"]) == [(good["id"],), (later["id"],)]
    assert cluster.sql("SELECT retries_used, attempt_count FROM jobs_job WHERE id = %s", good["id"]) == [(0, 2)]


def where(cluster: Cluster, job: Job) -> list[tuple[str, int]]:
    """The node of each attempt, and how many GPUs it had there."""
    return [
        (name, gpus)
        for name, gpus in cluster.sql(
            "SELECT node.name, count(claim.id) FROM jobs_attempt attempt"
            " JOIN jobs_allocation held ON held.attempt_id = attempt.id JOIN fleet_node node ON node.id = held.node_id"
            " JOIN jobs_gpuclaim claim ON claim.allocation_id = held.id WHERE attempt.job_id = %s"
            " GROUP BY attempt.number, node.name ORDER BY attempt.number",
            job["id"],
        )
    ]
