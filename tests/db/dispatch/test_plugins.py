"""Plug-ins from outside in a pool: both decide in its cycle, in a dry run and in the replay."""

from __future__ import annotations

import pytest

from muster.dispatch.config.settings import change_settings
from muster.dispatch.cycles import replay
from muster.dispatch.explain.forecast import dry_run
from muster.dispatch.models import Cycle, PolicyState
from muster.jobs.models import Job
from muster.tenants.services import set_quota
from tests.db.stories import World, cycle, live_attempt, make_world, ranks, states, submit
from tests.factories import make_node, make_vc
from tests.plugins.installed import installed_plugins

__all__ = ["installed_plugins"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound", "installed_plugins")]


@pytest.fixture
def world() -> World:
    """A pool with a node of each of two types."""
    world = make_world(gpus=1)
    world.nodes.append(make_node(world.pool, gpus=1, gpu_type="V100"))
    set_quota(vc=world.vc, gpu_type="V100", gpus=1, actor="ops")
    return world


def test_both_decide_in_a_pool_in_its_dry_run_and_in_the_replay(world: World) -> None:
    other = make_vc(world.tenant, world.pool, quotas={"A100": 10, "V100": 10})
    owners = [
        {"vc": world.vc.name, "nodes": [world.nodes[0].name]},
        {"vc": other.name, "nodes": [world.nodes[1].name]},
    ]
    change_settings(
        pool=world.pool,
        changes={
            "policy": "maxmin",
            "policy_params": {"round_s": 60},
            "admission": "owners",
            "admission_params": {"owners": owners},
        },
        actor="ops",
    )
    either = {"gpus": {"any_of": ["V100:1", "A100:1"]}}
    mine, theirs = submit(world, **either), submit(world, vc=other.name, **either)
    result = cycle(world)
    assert {job.pk: ranks(live_attempt(job))[0].node_id for job in (mine, theirs)} == {
        mine.pk: world.nodes[0].pk,
        theirs.pk: world.nodes[1].pk,
    }
    record = Cycle.objects.get(pk=result.cycle_id)
    assert record.config is not None
    assert (record.config["policy"], record.config["admission"]) == ("maxmin", "owners")
    then, now = replay(record)
    assert then == now
    state = PolicyState.objects.get(pool=world.pool)
    assert state.policy == "maxmin"
    assert state.wake_at is not None
    assert Job.objects.filter(state="active").count() == 2
    assert states(mine)[0] == "active"
    answer = dry_run(user=world.user, data={"command": "true", "vc": other.name, **either})
    assert answer.feasible
    assert not answer.starts_now
