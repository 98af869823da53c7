"""A GPU that breaks under a job, over real processes: its node is drained, and the job runs elsewhere soon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.faults.cluster import Cluster, until
from tests.faults.conftest import Figure
from tests.faults.layout import GPUS_PER_NODE, NODES
from tests.waiting import stretched

pytestmark = pytest.mark.timeout(300)

WITHIN_S = 30


@pytest.fixture
def breaking(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, whose GPUs are whole again afterwards."""
    yield cluster
    cluster.forget_faults()


def test_a_job_whose_gpu_falls_off_the_bus_runs_elsewhere_within_30_seconds(breaking: Cluster, figure: Figure) -> None:
    cluster = breaking
    saves = 'trap "echo saved > $SCRATCH/$MUSTER_NODE-saved; exit 0" TERM; while :; do sleep 0.1; done'
    job = cluster.submit(saves, checkpoint={"grace": "5s"})
    bad = cluster.until_attempt_runs(job)
    began = time.monotonic()
    cluster.inject(bad, gpu_of(cluster, job["id"]), kind="xid", xid=79, detail="Xid 79, GPU has fallen off the bus.")
    until(lambda: node(cluster, bad)["admin"] == "draining", "the node is drained", WITHIN_S)
    drained_s = time.monotonic() - began
    good = cluster.until_attempt_runs(job, number=2, within_s=max(1.0, WITHIN_S - drained_s))
    again_s = time.monotonic() - began
    assert good != bad
    assert cluster.attempts(job)[0] == ("failed", "gpu_failed"), cluster.story(job)
    assert (cluster.scratch / f"{bad}-saved").read_text() == "saved\n"  # it was asked to save its work
    figure("from Xid 79 to the drain (s)", f"{drained_s:.1f}")
    figure("from Xid 79 to the job on another node (s)", f"{again_s:.1f}")
    print(f"Xid 79: drained after {drained_s:.1f} s, running elsewhere after {again_s:.1f} s")  # noqa: T201
    [broken] = [gpu for gpu in node(cluster, bad)["gpus"] if gpu["health"] != "ok"]
    assert (broken["health"], broken["healthy"], broken["health_why"]) == (
        "failure",
        False,
        "Xid 79: fallen off the bus",
    )
    cluster.client().cancel(job["id"])
    cluster.wait(job, "cancelled")


def test_a_gpu_that_fails_beside_a_job_leaves_the_job_alone(breaking: Cluster) -> None:
    cluster = breaking
    job = cluster.submit("sleep 120")
    where = cluster.until_attempt_runs(job)
    other = (gpu_of(cluster, job["id"]) + 1) % 4
    cluster.inject(where, other, kind="xid", xid=119)
    until(lambda: [gpu["index"] for gpu in node(cluster, where)["gpus"] if not gpu["healthy"]] == [other], "it is out")
    assert node(cluster, where)["admin"] == "active"
    # All that is left of both nodes, so that every GPU that may be given is given.
    for user, count in (("red", 4), ("blue", 2)):
        for _ in range(count):
            cluster.until_attempt_runs(cluster.submit("sleep 120", user=user))
    held = (
        "SELECT healthy, count(*) FROM jobs_gpuclaim c JOIN fleet_gpu g ON g.id = c.gpu_id"
        " WHERE c.released_at IS NULL GROUP BY healthy"
    )
    assert cluster.sql(held) == [(True, len(NODES) * GPUS_PER_NODE - 1)]
    assert cluster.attempts(job) == [("running", "")]


def test_a_broken_gpu_of_a_node_without_jobs_is_heard_of_soon(breaking: Cluster) -> None:
    cluster = breaking
    began = time.monotonic()
    cluster.inject(NODES[1], 2, kind="row_remap_failed")
    until(lambda: not node(cluster, NODES[1])["gpus"][2]["healthy"], "it is out of service", WITHIN_S)
    assert time.monotonic() - began < stretched(WITHIN_S)


def test_memory_left_behind_is_found_before_a_job_starts_and_the_gpu_comes_back_when_it_is_gone(
    breaking: Cluster,
) -> None:
    cluster = breaking
    for name in NODES:
        cluster.inject(name, 0, kind="memory_left", mib=9216)
    job = cluster.submit("echo ran", retry={"max": 0, "on": []})
    assert cluster.wait(job, within_s=60)["state"] == "succeeded"
    attempts = cluster.attempts(job)
    assert attempts[0] == ("failed", "gpu_check_failed"), cluster.story(job)
    assert attempts[-1] == ("succeeded", "completed")
    assert cluster.whole_log(job) == b"ran\n"  # it was never begun where it could not have run
    found = [gpu["health_why"] for name in NODES for gpu in node(cluster, name)["gpus"] if not gpu["healthy"]]
    assert set(found) == {"a check has failed"}
    for name in NODES:
        cluster.inject(name, 0, kind="memory_left", mib=0)
    until(lambda: all(gpu["healthy"] for name in NODES for gpu in node(cluster, name)["gpus"]), "they are back", 90)
    reasons = cluster.sql("SELECT data->>'reason' FROM events_event WHERE kind = 'gpu.given_back'")
    assert reasons
    assert set(reasons) == {("it has passed a check (emulated)",)}


def node(cluster: Cluster, name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", cluster.client().node(name))


def gpu_of(cluster: Cluster, job_id: int) -> int:
    [(index,)] = cluster.sql(
        "SELECT gpu.index FROM jobs_gpuclaim claim JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id"
        " JOIN jobs_allocation held ON held.id = claim.allocation_id JOIN jobs_attempt t ON t.id = held.attempt_id"
        " WHERE claim.released_at IS NULL AND t.job_id = %s",
        job_id,
    )
    return int(index)
