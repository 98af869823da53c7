"""Speeds over real processes and in real time: a pair that gets little done is found out by what its jobs report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.faults.cluster import FIRST_USER, POOL_TABLE, Cluster, until
from tests.faults.layout import LONG, NODES, QUOTAS

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not LONG, reason="it takes as long as speeds are measured: minutes (make faults)"),
]

# All of their owner's quota, so a job that is moved off waits.
GANG: Mapping[str, Any] = {
    "nodes": len(NODES),
    "gpus": QUOTAS[FIRST_USER] // len(NODES),
    "share": "pack",
    "gpu_memory": "1GiB",
}

# It does ten steps in a second, and two while the other one is there.
HOST = """
n=0
until [ -e $SCRATCH/enough ]; do
  if [ -e $SCRATCH/there-$MUSTER_RANK ]; then n=$((n + 2)); else n=$((n + 10)); fi
  echo $n > $MUSTER_PROGRESS
  sleep 1
done
"""
GUEST = """
[ $MUSTER_ATTEMPT -gt 1 ] && exit 0
trap 'rm $SCRATCH/there-$MUSTER_RANK; exit 1' TERM
touch $SCRATCH/there-$MUSTER_RANK
while true; do n=$((n + 5)); echo $n >> $MUSTER_PROGRESS; sleep 1; done
"""
WHY = "the two jobs on its GPUs are slower than with time slices"


@pytest.fixture
def packing(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a policy that packs, and takes no turns."""
    change = f"UPDATE {POOL_TABLE} SET policy = %s, policy_params = %s::jsonb"
    cluster.sql(change, "gandiva", '{"slice_s": null}')
    yield cluster
    cluster.sql(change, "fifo", "{}")


def test_a_pair_that_gets_less_done_than_by_turns_is_undone(packing: Cluster) -> None:
    cluster = packing
    host = cluster.submit(HOST, **GANG)
    alone = "SELECT per_s FROM samples_speedalone WHERE job_id = %s"
    until(lambda: cluster.sql(alone, host["id"]), "its speed alone", within_s=180)
    guest = cluster.submit(GUEST, **GANG)
    cluster.until_attempt_runs(guest, within_s=60)
    ended = "SELECT outcome, reason_detail FROM jobs_attempt WHERE job_id = %s AND number = 1 AND ended_at IS NOT NULL"
    until(lambda: cluster.sql(ended, guest["id"]), "the end of the pair", within_s=300)
    ((_, why),) = cluster.sql(ended, guest["id"])
    assert why == f"{WHY}: job {host['id']}", cluster.story(guest)
    assert cluster.client().job(guest["id"])["state"] == "queued"
    told = "SELECT count(*) FROM events_event WHERE job_id = %s AND data::text LIKE %s"
    assert cluster.sql(told, guest["id"], f"%{WHY}%") != [(0,)]
    # They are not placed together again: one waits for the other.
    (cluster.scratch / "enough").touch()
    for job in (host, guest):
        assert cluster.wait(job)["state"] == "succeeded", cluster.story(job)
    assert len(cluster.attempts(guest)) == 2
