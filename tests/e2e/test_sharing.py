"""Two gangs on the same GPUs, over real processes: each waits for the other, so they must run at the same time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.cluster import FIRST_USER, POOL_TABLE, Cluster
from tests.faults.layout import NODES, QUOTAS

pytestmark = pytest.mark.timeout(180)

# All that their owner may use.
GANG = {"nodes": len(NODES), "gpus": QUOTAS[FIRST_USER] // len(NODES), "memory": "64MiB"}

# A rank says which GPUs it has, and ends once both jobs have said so.
MEETING = """
echo "has $CUDA_VISIBLE_DEVICES"
touch $SCRATCH/met-$MUSTER_RANK-$ME
until [ -e $SCRATCH/met-$MUSTER_RANK-$OTHER ]; do sleep 0.1; done
echo "met $OTHER"
"""


@pytest.fixture
def packing(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a policy that packs, and takes no turns."""
    change = f"UPDATE {POOL_TABLE} SET policy = %s, policy_params = %s::jsonb"
    cluster.sql(change, "gandiva", '{"slice_s": null}')
    yield cluster
    cluster.sql(change, "fifo", "{}")


def test_two_gangs_share_their_gpus_and_meet_there(packing: Cluster) -> None:
    cluster, shares = packing, {"share": "pack", "gpu_memory": "1GiB"}
    first = cluster.submit(MEETING, env={"ME": "a", "OTHER": "b"}, **GANG, **shares)
    cluster.until_attempt_runs(first)
    alone = cluster.submit("echo late", **GANG)
    second = cluster.submit(MEETING, env={"ME": "b", "OTHER": "a"}, **GANG, **shares)
    for job in (first, second, alone):
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
    for rank in range(len(NODES)):
        (has, met), (has_too, met_too) = (cluster.log(job, rank=rank).decode().splitlines() for job in (first, second))
        assert has == has_too
        assert (met, met_too) == ("met b", "met a")
    # The job that does not share came before the second one, and had to wait until both were gone.
    [(placed_at,)] = cluster.sql("SELECT placed_at FROM jobs_attempt WHERE job_id = %s", alone["id"])
    ends = cluster.sql("SELECT ended_at FROM jobs_attempt WHERE job_id = ANY(%s)", [first["id"], second["id"]])
    assert all(ended_at <= placed_at for (ended_at,) in ends)
