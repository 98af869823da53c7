"""Auctions on real agents: a sweep and a job are leased GPUs, leases are renewed, and one that ends stops its job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.cluster import FIRST_USER, POOL_TABLE, Cluster, until
from tests.faults.layout import NODES, QUOTAS

pytestmark = pytest.mark.timeout(300)

LEASE_S = 10
GPUS = QUOTAS[FIRST_USER]
LOOK = (
    "import json; from muster.dispatch.explain.auctions import last_auctions; from muster.fleet.models import Pool;"
    " print(json.dumps(last_auctions(Pool.objects.get()), default=str))"
)
UNTIL_TOLD = "until [ -e $SCRATCH/$MUSTER_JOB_ID.end ]; do sleep 0.1; done"


@pytest.fixture
def auctioning(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with short leases."""
    change = f"UPDATE {POOL_TABLE} SET policy = %s, policy_params = %s::jsonb"
    cluster.sql(change, "themis", json.dumps({"lease_s": LEASE_S, "every_s": 2, "fairness": 0.5}))
    yield cluster
    cluster.sql(change, "fifo", "{}")


def auctions(cluster: Cluster) -> list[dict[str, Any]]:
    """The last auctions of the pool, the newest first."""
    found: list[dict[str, Any]] = json.loads(cluster.python(LOOK))
    return found


def test_a_sweep_and_a_job_take_turns_by_leases(auctioning: Cluster) -> None:
    cluster, client = auctioning, auctioning.client()
    spec = {
        "name": "search",
        "command": UNTIL_TOLD,
        "gpus": 1,
        "cpus": 1,
        "expected": "1h",
        "checkpoint": {"grace": "2s"},
        "sweep": {"method": "grid", "metric": "loss", "params": {"Q": list(range(1, GPUS + 1))}},
    }
    sweep = client.submit_sweep(spec)
    key = f"sweep {sweep['id']}"
    until(lambda: client.sweep(sweep["id"])["members"]["running"] == GPUS, "all members run", within_s=60)
    first = auctions(cluster)[-1]
    assert first["bids"][0]["application"] == key
    assert [win["application"] for win in first["wins"]] == [key]
    assert first["wins"][0]["part"] == 1  # a single bidder pays nothing

    # Nothing else is there: each lease is renewed, and nothing is restarted.
    until(lambda: auctions(cluster)[0]["number"] >= first["number"] + 2, "leases are renewed", within_s=60)
    members = [one["job"] for one in client.sweep_members(sweep["id"])]
    assert {client.job(number)["attempts"] for number in members} == {1}

    # A job without GPUs is served worse than the sweep: when leases end, it wins.
    job = cluster.submit(UNTIL_TOLD, gpus=GPUS // len(NODES), cpus=1, expected="1h", checkpoint={"grace": "2s"})
    cluster.until_attempt_runs(job, within_s=4 * LEASE_S)
    won = [win for auction in auctions(cluster) for win in auction["wins"] if win["job_ids"] == [job["id"]]]
    assert won
    stopped = [number for number in members if client.job(number)["state"] == "queued"]
    assert len(stopped) >= GPUS // len(NODES)
    assert {cluster.attempts({**job, "id": number})[0] for number in stopped} == {("preempted", "preempted")}
    client.cancel_sweep(sweep["id"])
    client.cancel(job["id"])
    cluster.settle()
