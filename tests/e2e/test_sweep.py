"""A real sweep on real agents: members report, hopeless ones stop early, and the best one wins."""

from __future__ import annotations

import pytest

from tests.faults.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

# The cluster runs no worker `default`: this is what its clock does.
LOOK = "from muster.sweeps.tasks import look; look()"
STEPS = 20
# Its loss falls with the steps, and is the lower the smaller Q is.
TRAINING = f"""
for step in $(seq {STEPS}); do
    echo "{{\\"step\\": $step, \\"loss\\": $((Q * 1000 / step))}}" >> "$MUSTER_METRICS"
    sleep 1
done
"""


def test_a_sweep_stops_hopeless_members_and_finds_the_best(cluster: Cluster) -> None:
    client = cluster.client()
    sweep = client.submit_sweep(
        {
            "name": "search",
            "command": TRAINING,
            "gpus": 1,
            "cpus": 1,
            "sweep": {
                "method": "asha",
                "metric": "loss",
                "params": {"Q": [1, 2, 3, 4, 5, 6]},
                "members": 6,
                "parallel": 3,
                "rungs": {"first": 2, "last": STEPS},
            },
        }
    )
    max_at_once = 0

    def is_over() -> bool:
        nonlocal max_at_once
        cluster.python(LOOK)
        found = client.sweep(sweep["id"])
        max_at_once = max(max_at_once, found["members"]["running"])
        return found["state"] != "active"

    until(is_over, "the sweep is over", within_s=200, every_s=0.5)
    ended = client.sweep(sweep["id"])
    members = client.sweep_members(sweep["id"])
    assert ended["state"] == "succeeded", (ended["reason"], members)
    assert ended["best"] is not None
    assert (ended["best"]["params"], ended["best"]["value"]) == ({"Q": 1}, 1000 // STEPS)
    assert max_at_once <= 3
    stopped = [one for one in members if one["state"] == "stopped"]
    assert stopped
    assert {one["state"] for one in members} == {"stopped", "succeeded"}
    assert all("loss" in one["why"] and one["saved_gpu_hours"] > 0 for one in stopped)
    assert ended["saved_gpu_hours"] > 0
    assert ended["rungs"][0]["reached"] == 6
    cluster.settle()


def test_members_that_all_fail_end_the_sweep_with_the_reason(cluster: Cluster) -> None:
    client = cluster.client()
    asked = {"method": "grid", "metric": "loss", "params": {"Q": list(range(40))}, "parallel": 3}
    spec = {"name": "broken", "command": "sleep 2; exit 3", "gpus": 1, "cpus": 1, "sweep": asked}
    sweep = client.submit_sweep(spec)

    def is_over() -> bool:
        cluster.python(LOOK)
        return client.sweep(sweep["id"])["state"] != "active"

    until(is_over, "the sweep is over", within_s=150, every_s=0.5)
    ended = client.sweep(sweep["id"])
    assert ended["state"] == "failed"
    assert "members to end failed, and none succeeded" in ended["reason"]
    assert ended["members"]["stopped"] >= 20, ended["members"]
    cluster.settle()
