"""Arrays in the scheduler and on nodes: whose turn it is, what members are told, and how an array ends."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models.functions import Now

from muster.agents.launch import launch_spec
from muster.arrays.ends import ANY_OVER, end_arrays
from muster.arrays.services import cancel_array, retry_array, submit_array
from muster.common.statements import Statement
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.models import Allocation, Job, JobGroup
from scheduler.model.lifecycle import GroupState, JobState
from scheduler.model.reasons import Reason
from tests.db.stories import World, claim, cycle, end, live_attempt, make_world, ranks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


@pytest.fixture
def world() -> World:
    return make_world(gpus=8)


def array(world: World, of: Any, **changes: Any) -> JobGroup:
    data = {"command": "true", "gpus": 1, "vc": world.vc.name, "array": of, **changes}
    return submit_array(user=world.user, data=data)[0]


def indices(group: JobGroup, state: JobState) -> list[int | None]:
    found = Job.objects.filter(group=group, state=state).order_by("member")
    return list(found.values_list("array_index", flat=True))


def ended(group: JobGroup, **states: int) -> tuple[str, str]:
    """The state and the reason of the array once so many of its members have ended in these states."""
    jobs = iter(Job.objects.filter(group=group).order_by("member"))
    for state, count in states.items():
        ids = [next(jobs).pk for _ in range(count)]
        Job.objects.filter(pk__in=ids).update(state=state, hold_reason="", hold=None, ended_at=Now())
    ((any_over,),) = Statement(f"SELECT {ANY_OVER}").rows()
    assert any_over == (sum(states.values()) == group.size)
    end_arrays()
    group.refresh_from_db()
    return group.state, group.reason


def test_without_a_limit_all_members_are_in_the_snapshot_and_with_one_as_many_as_it_says(world: World) -> None:
    group = array(world, "1-20")
    assert len(pool_snapshot(world.pool, seed=0).waiting) == 20
    cycle(world)
    assert indices(group, JobState.ACTIVE) == [*range(1, 9)]
    cancel_array(user=world.user, group=group, indices="9-20")
    few = array(world, {"indices": "1-20", "max_parallel": 3})
    assert [one.group_id for one in pool_snapshot(world.pool, seed=0).waiting] == [few.pk] * 3


def test_a_member_sees_its_index_and_its_parameters(world: World) -> None:
    group = array(world, [{"lr": 0.1}, {"lr": 0.2}], slurm_env=True)
    cycle(world)
    job = Job.objects.get(group=group, array_index=1)
    (rank,) = ranks(live_attempt(job))
    allocation = Allocation.objects.select_related("attempt__job", "node__pool").get(pk=rank.pk)
    env = launch_spec(allocation.node, allocation).env
    ours = {name: value for name, value in env.items() if name.startswith("MUSTER_ARRAY_")}
    told = {"COUNT": "2", "MIN": "0", "MAX": "1", "STEP": "1"}
    assert ours == {f"MUSTER_ARRAY_{name}": value for name, value in told.items()} | {
        "MUSTER_ARRAY_ID": str(group.pk),
        "MUSTER_ARRAY_INDEX": "1",
    }
    assert {name: value for name, value in env.items() if name.startswith("SLURM_ARRAY_")} == {
        f"SLURM_ARRAY_TASK_{name}": value for name, value in told.items()
    } | {"SLURM_ARRAY_JOB_ID": str(group.pk), "SLURM_ARRAY_TASK_ID": "1"}
    assert env["lr"] == "0.2"


def test_the_step_of_a_range_is_told(world: World) -> None:
    assert array(world, "1-9:4").env == {
        "MUSTER_ARRAY_COUNT": "3",
        "MUSTER_ARRAY_MIN": "1",
        "MUSTER_ARRAY_MAX": "9",
        "MUSTER_ARRAY_STEP": "4",
    }


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ({"succeeded": 3}, (GroupState.ACTIVE, "")),
        ({"succeeded": 4}, (GroupState.SUCCEEDED, "")),
        ({"succeeded": 2, "failed": 1, "cancelled": 1}, (GroupState.FAILED, "1 of 4 members failed")),
        ({"succeeded": 2, "cancelled": 2}, (GroupState.CANCELLED, "2 of 4 members were cancelled")),
    ],
)
def test_an_array_ends_with_its_last_member(states: dict[str, int], outcome: tuple[str, str], world: World) -> None:
    assert ended(array(world, "1-4"), **states) == outcome


def test_an_array_that_failed_goes_on_after_a_retry(world: World) -> None:
    group = array(world, "1-2")
    cycle(world)
    for job in Job.objects.filter(group=group):
        (rank,) = ranks(live_attempt(job))
        claim(rank)
        end(rank, Reason.COMPLETED if job.array_index == 1 else Reason.EXIT_NONZERO)
    assert end_arrays() == 1
    assert JobGroup.objects.get(pk=group.pk).state == GroupState.FAILED
    assert retry_array(user=world.user, group=group) == 1
    assert JobGroup.objects.get(pk=group.pk).state == GroupState.ACTIVE
    assert indices(group, JobState.QUEUED) == [2]
