"""Jobs that accept several GPU types, and jobs that name nodes, in the cycles of a pool."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dispatch.explain.selectors import why
from muster.dispatch.models import PolicyState
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.models import Node
from muster.jobs.models import Job
from muster.samples.rates import refresh_rates
from muster.tenants.models import Quota
from scheduler.model.lifecycle import NodeAdmin
from scheduler.model.reasons import Reason
from tests.db.stories import World, claim, cycle, end, live_attempt, make_world, now_of, ranks, run, submit
from tests.factories import make_node

pytestmark = pytest.mark.django_db

BOTH = {"any_of": ["A100:2", "V100:4"]}


@pytest.fixture
def world() -> World:
    """Two nodes of four A100 and one of eight V100; the quota is large."""
    world = make_world(nodes=2)
    world.nodes.append(make_node(world.pool, "volta", gpus=8, gpu_type="V100", credential="volta"))
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=8)
    return world


def where(job: Job) -> list[tuple[str, int, int]]:
    """The node, GPUs and CPUs of each rank of the job's live attempt."""
    return [(rank.node.name, rank.claims.count(), rank.cpus) for rank in ranks(live_attempt(job))]


def quota(world: World, gpu_type: str, gpus: int) -> None:
    Quota.objects.filter(vc=world.vc, gpu_type=gpu_type).update(gpus=gpus)


def test_gavel_moves_a_running_job_to_the_type_on_which_it_is_faster(world: World) -> None:
    world.pool.policy, world.pool.policy_params = "gavel", {"objective": "throughput", "round_s": 1, "reset_s": 0}
    world.pool.save()
    quota(world, "A100", 0)
    job = submit(world, gpus=BOTH, throughput={"A100": 9, "V100": 1})
    cycle(world)
    assert where(job)[0][0] == "volta"
    claim(ranks(live_attempt(job))[0])
    run(ranks(live_attempt(job))[0])
    quota(world, "A100", 2)
    refresh_rates()
    state = PolicyState.objects.get(pool=world.pool)
    state.data |= {"ends_at": 0.0, "jobs": []}  # the round has ended, and the job came in it
    state.save()
    cycle(world)
    moved = live_attempt(job)
    assert (moved.state, moved.reason_detail) == ("stopping", "its configuration changes from V100:4 to A100:2")


def test_a_job_starts_in_its_second_choice_and_a_retry_chooses_anew(world: World) -> None:
    quota(world, "A100", 1)
    job = submit(world, gpus=BOTH)
    cycle(world)
    assert where(job) == [("volta", 4, 32)]
    assert str(live_attempt(job).request.first) == "V100:4"
    (live,) = pool_snapshot(world.pool, seed=0).running
    assert [str(choice) for choice in live.job.request.choices] == ["V100:4", "A100:2"]
    end(ranks(live_attempt(job))[0], Reason.NODE_LOST, started=False)
    quota(world, "A100", 2)
    assert [str(choice) for choice in now_of(job).request.choices] == ["A100:2", "V100:4"]
    Job.objects.filter(pk=job.pk).update(eligible_at=now_of(job).submitted_at)
    cycle(world)
    assert [(gpus, cpus_had) for _, gpus, cpus_had in where(job)] == [(2, 32)]


def test_a_job_is_placed_on_a_node_that_it_allows(world: World) -> None:
    first, second = (node.name for node in world.nodes[:2])
    named = submit(world, gpus=1, nodes_in=[second])
    excluding = submit(world, gpus=1, exclude_nodes=[first, "volta"])
    cycle(world)
    assert [where(job)[0][0] for job in (named, excluding)] == [second, second]


@pytest.mark.parametrize(
    ("keys", "detail"),
    [
        ({"nodes_in": 1}, "{0} does not have 4 free A100"),
        ({"nodes_in": 2}, "none of {0}, {1} has 4 free A100"),
        ({"exclude_nodes": 1}, "{0} has 4 free A100, and this job excludes it"),
    ],
)
def test_a_job_that_waits_for_its_nodes_is_told_which(world: World, keys: dict[str, int], detail: str) -> None:
    names = sorted(node.name for node in world.nodes[:2])
    (key, count), told = next(iter(keys.items())), detail.format(*names)
    for name in names if key == "nodes_in" else names[1:]:
        submit(world, gpus=1, nodes_in=[name])
    cycle(world)
    waits = submit(world, gpus="A100:4", **{key: names[:count]})
    cycle(world)
    found: Any = why(now_of(waits))
    assert (found["reason"], found["detail"]) == ("named_nodes", told)


def test_a_job_whose_node_was_retired_waits_and_says_so(world: World) -> None:
    job = submit(world, gpus=1, nodes_in=[world.nodes[0].name])
    Node.objects.filter(pk=world.nodes[0].pk).update(admin=NodeAdmin.RETIRED)
    cycle(world)
    assert now_of(job).hold_reason == "infeasible"
    assert now_of(job).hold["detail"] == f"{world.nodes[0].name} does not have 1 A100"
