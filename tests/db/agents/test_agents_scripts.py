"""The variable by which the supervisor of a batch script knows its gang."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.agents.launch import launch_spec
from muster.jobs.models import Allocation, Attempt
from tests.db.arrays.test_arrays import array
from tests.db.stories import World, cycle, live_attempt, make_world, place, ranks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


def told(attempt: Attempt, rank: int) -> dict[str, Any]:
    allocation = Allocation.objects.select_related("attempt__job", "node__pool").get(pk=ranks(attempt)[rank].pk)
    env = launch_spec(allocation.node, allocation).env
    assert not [name for name in env if name.startswith("SLURM_")]
    found: dict[str, Any] = json.loads(env["MUSTER_BATCH"])
    return found


def test_each_rank_of_a_batch_script_knows_all_nodes_and_shares_a_secret() -> None:
    attempt = place(make_world(nodes=2, gpus=4), nodes=2, gpus=2, name="study", batch={"tasks": 3})
    first, other = told(attempt, 0), told(attempt, 1)
    assert (first.pop("rank"), other.pop("rank")) == (0, 1)
    assert first == other
    held = ranks(attempt)
    assert first["nodes"] == [one.node.name for one in held]
    assert first["addresses"] == [one.node.address for one in held]
    assert first["cpus"] == [one.cpus for one in held]
    assert first["gpus"] == [[claim.gpu.index for claim in one.claims.order_by("gpu__index")] for one in held]
    assert (first["batch"]["tasks"], first["name"], first["restarts"]) == (3, "study", 0)
    assert (first["job_id"], first["array_id"], first["array"]) == (attempt.job_id, None, None)
    assert first["port"] == attempt.master_port
    assert len(first["secret"]) == 64


def test_a_member_of_an_array_knows_its_index(world: World) -> None:
    group = array(world, "2-8:3", batch={}, gpus=1)
    cycle(world)
    found = told(live_attempt(group.members.get(array_index=5)), 0)
    assert (found["array_id"], found["array_index"]) == (group.pk, 5)
    assert found["array"] == {"count": 3, "min": 2, "max": 8, "step": 3}
    assert len(found["gpus"][0]) == 1


def test_other_jobs_have_no_such_variable(world: World) -> None:
    (allocation,) = ranks(place(world))
    assert "MUSTER_BATCH" not in launch_spec(world.nodes[0], allocation).env
