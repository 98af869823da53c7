"""A job that makes room for another, over real processes: it is warned, saves its work, waits, and goes on with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster_client.answers.jobs import Job
from tests.faults.cluster import FIRST_USER, POOL_TABLE, Cluster, processes_with, until
from tests.faults.jobs import let_end
from tests.faults.layout import NODES, QUOTAS

pytestmark = pytest.mark.timeout(180)

# All that their owner may use.
GPUS = QUOTAS[FIRST_USER] // len(NODES)

# It counts, and when it is asked to stop it takes a second to write down how far it came. The next try goes on from
# there and ends ten steps later.
COUNTING = """
saved=$SCRATCH/saved-$MUSTER_JOB_ID-$MUSTER_RANK
step=$(cat $saved 2>/dev/null || echo 0)
end=$((step + 10))
resumed=$step
echo "from $step"
trap 'sleep 1; echo $step > $saved; echo "saved $step"; exit 0' TERM
while [ $resumed = 0 ] || [ $step -lt $end ]; do step=$((step + 1)); sleep 0.1; done
echo "done at $step"
"""


@pytest.fixture
def preemptive(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a policy that lets higher priorities take from lower ones."""
    change = f"UPDATE {POOL_TABLE} SET policy = %s, policy_params = %s::jsonb"
    cluster.sql(change, "priority", '{"preemptive": true}')
    yield cluster
    cluster.sql(change, "fifo", "{}")


def test_a_job_makes_room_saves_its_work_and_goes_on_with_it_later(preemptive: Cluster) -> None:
    cluster, everything = preemptive, {"nodes": len(NODES), "gpus": GPUS, "memory": "64MiB"}
    low = cluster.submit(COUNTING, priority="low", checkpoint={"signal": "TERM", "grace": "15s"}, **everything)
    cluster.until_attempt_runs(low)
    until(lambda: b"from 0" in cluster.log(low, rank=1), "it counts")
    submitted_at = cluster.client().job(low["id"])["submitted_at"]

    served = "until [ -e $SCRATCH/$MUSTER_JOB_ID.end ]; do sleep 0.1; done; echo served"
    high = cluster.submit(served, priority="normal", **everything)
    cluster.until_attempt_runs(high)
    assert cluster.attempts(low) == [("preempted", "preempted")]
    waiting = cluster.client().job(low["id"])
    assert (waiting["state"], waiting["submitted_at"]) == ("queued", submitted_at)
    assert processes_with(cluster.mark(low)) == set()
    [(attained_gpu_s, ran_s, retries, waited_s)] = cluster.sql(
        "SELECT low.attained_gpu_s, low.ran_s, low.retries_used, extract(epoch FROM placed_at - low.requeued_at)"
        " FROM jobs_job low, jobs_attempt high WHERE low.id = %s AND high.job_id = %s",
        low["id"],
        high["id"],
    )
    assert retries == 0
    assert ran_s > 1  # the second in which it saved its work counts, too
    assert attained_gpu_s == pytest.approx(ran_s * len(NODES) * GPUS)
    assert waited_s < 10
    assert cluster.sql("SELECT count(*) FROM jobs_reservation") == [(0,)]

    let_end(cluster, high["id"])
    assert cluster.wait(high)["state"] == "succeeded", cluster.story(high)
    done = cluster.wait(low)
    assert done["state"] == "succeeded", cluster.story(low)
    assert cluster.attempts(low) == [("preempted", "preempted"), ("succeeded", "completed")]
    for rank in range(len(NODES)):
        assert said(cluster, low, 1, rank)[0] == "from 0"
        saved = int(said(cluster, low, 1, rank)[1].removeprefix("saved "))
        assert saved > 0
        assert said(cluster, low, 2, rank) == [f"from {saved}", f"done at {saved + 10}"]


def said(cluster: Cluster, job: Job, attempt: int, rank: int) -> list[str]:
    """The job's own lines; the shell adds some about the signal."""
    lines = cluster.log(job, attempt=attempt, rank=rank).decode().splitlines()
    return [line for line in lines if line.startswith(("from", "saved", "done"))]
