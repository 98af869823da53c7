"""Members of an array that start where others of it end: with the answer to the end, and in no other job's turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.db import transaction

from muster.arrays.services import submit_array
from muster.events.services import sole_array_of, wake_pool
from muster.fleet.models import Gpu, Node, NodeLease
from muster.jobs.models import Allocation, GpuClaim, Job, JobGroup
from nodeagent.protocol.messages import EndReason, ItemOutcome, LaunchSpec
from scheduler.diagnosis.health import HealthLevel
from scheduler.model.lifecycle import AllocationState, JobState
from tests.db.agent_calls import Agent, agent_of
from tests.db.stories import Other, World, cycle, make_world, now_of, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


@pytest.fixture
def world() -> World:
    return make_world(gpus=2)


@pytest.fixture
def agent(server: str, world: World) -> Iterator[Agent]:
    agent = agent_of(server, world.nodes[0])
    yield agent
    agent.http.close()


@pytest.fixture
def array(world: World) -> JobGroup:
    return submit_array(user=world.user, data={"command": "true", "gpus": 1, "vc": world.vc.name, "array": "1-5"})[0]


def running(agent: Agent, world: World) -> list[Allocation]:
    """The allocations that a cycle has placed and the agent has claimed."""
    cycle(world)
    found = list(
        Allocation.objects.filter(state=AllocationState.RESERVED).select_related("attempt__job").order_by("pk")
    )
    for allocation in found:
        agent.launch(allocation)
    return found


def ended(
    agent: Agent, *over: Allocation, reason: EndReason = EndReason.COMPLETED, epoch: int | None = None
) -> list[ItemOutcome]:
    items = [agent.end_item(one, reason, epoch=agent.epoch if epoch is None else epoch) for one in over]
    return list(agent.say(*items)) if reason is EndReason.COMPLETED else [agent.tell(item) for item in items]


def gpus_of(allocation_id: int) -> set[int]:
    return set(GpuClaim.objects.filter(allocation=allocation_id).values_list("gpu", flat=True))


def test_the_end_of_a_member_brings_the_launch_of_the_next_one_on_its_gpus(
    agent: Agent, world: World, array: JobGroup
) -> None:
    first, second = running(agent, world)
    assert sole_array_of(world.pool.pk) == array.pk
    launches: list[LaunchSpec] = [launch for one in ended(agent, first, second) if (launch := one.launch) is not None]
    assert [launch.env["MUSTER_ARRAY_INDEX"] for launch in launches] == ["3", "4"]
    for over, launch in zip((first, second), launches, strict=True):
        new = Allocation.objects.select_related("attempt__job").get(pk=launch.allocation_id)
        assert (new.state, new.boot_id, new.attempt_id) == (AllocationState.ACTIVE, agent.boot_id, launch.fence)
        assert gpus_of(new.pk) == gpus_of(over.pk)
        assert launch.gpu_uuids == tuple(Gpu.objects.filter(pk__in=gpus_of(new.pk)).values_list("uuid", flat=True))
        # An agent that has not got the answer claims it as any other, and gets the same.
        assert agent.launch(new).to_dict() == launch.to_dict()
    assert [one.id for one in agent.desired()] == [launch.allocation_id for launch in launches]
    last = list(Allocation.objects.filter(state=AllocationState.ACTIVE).select_related("attempt__job").order_by("pk"))
    assert [one.launch is not None for one in ended(agent, *last)] == [True, False]


def _another_job_after(world: World) -> None:
    submit(world)


def _another_epoch(world: World) -> None:
    NodeLease.objects.filter(pk=world.nodes[0].pk).update(epoch=7)


def _cordoned(world: World) -> None:
    # As if its hint had not come yet.
    Node.objects.filter(pk=world.nodes[0].pk).update(admin="cordoned")


def _unhealthy(world: World) -> None:
    Gpu.objects.filter(node=world.nodes[0]).update(health=HealthLevel.FAILURE)


def _changed(world: World) -> None:
    wake_pool(world.pool.pk)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_another_job_after, None, id="another job before the cycle"),
        pytest.param(None, _another_job_after, id="another job after the cycle"),
        pytest.param(None, _another_epoch, id="a superseded epoch"),
        pytest.param(None, _cordoned, id="a cordoned node"),
        pytest.param(None, _unhealthy, id="a GPU that is not healthy"),
        pytest.param(None, _changed, id="any other change"),
    ],
)
def test_a_member_leaves_its_gpus_to_a_cycle(
    before: Callable[[World], None] | None,
    after: Callable[[World], None] | None,
    agent: Agent,
    world: World,
    array: JobGroup,
) -> None:
    if before is not None:
        before(world)
    first, _ = running(agent, world)
    if after is not None:
        after(world)
    (outcome,) = ended(agent, first)
    assert (outcome.status, outcome.launch) == (200, None)
    assert now_of(first).state == AllocationState.RELEASED
    assert Job.objects.filter(group=array, state=JobState.ACTIVE).count() == 1


def test_a_member_that_failed_is_followed_by_a_cycle_alone(agent: Agent, world: World, array: JobGroup) -> None:
    first, _ = running(agent, world)
    ended(agent, first, reason=EndReason.TIME_LIMIT)
    assert Job.objects.filter(group=array, state=JobState.ACTIVE).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_member_under_another_lock_does_not_hold_up_the_end(agent: Agent, world: World, array: JobGroup) -> None:
    first, _ = running(agent, world)
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(group=array, array_index=3)
        (outcome,) = Other(partial(ended, agent, first)).result()
    assert outcome.launch is not None
    assert outcome.launch.env["MUSTER_ARRAY_INDEX"] == "4"
