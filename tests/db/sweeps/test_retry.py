"""Members of a sweep that run again inside it, and what is forgotten of their first ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.common.errors import Conflict, Forbidden
from muster.events.models import Event
from muster.jobs.models import Job
from muster.jobs.services import cancel_job
from muster.sweeps import ends
from muster.sweeps.retry import retry_member, retry_sweep
from muster.sweeps.selectors import standings
from muster.usage.models import Efficiency
from muster.usage.totals import count_ended
from scheduler.diagnosis.efficiency import NoGradeReason
from scheduler.model.lifecycle import GroupState, JobState
from scheduler.model.reasons import Reason
from tests.db.stories import World, make_world
from tests.db.sweeps.test_budget import job
from tests.db.sweeps.test_controller import finish, look, report, running, start_members, states
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(ends, "SETTLED_AFTER", timedelta(0))
    return make_world(gpus=16, black_hole_jobs=0)


def test_failed_members_of_a_sweep_that_has_ended_run_again_and_their_values_count(world: World) -> None:
    group = running(world, "random", members=3)
    report(group, 1, (1, 0.5))
    finish(group, 1)
    for member in (2, 3):
        finish(group, member, Reason.EXIT_NONZERO)
    assert look(group).state == GroupState.SUCCEEDED
    held = job(group, 2).attained_gpu_s

    assert retry_sweep(user=world.user, group=group) == 2
    assert states(group) == ["succeeded", "waiting", "waiting"]
    start_members(world)
    again = job(group, 2)
    assert (again.state, again.attempt_count, again.reason, again.failure) == (JobState.ACTIVE, 2, "", None)
    assert again.attained_gpu_s == held
    report(group, 2, (1, 0.1))
    for member in (2, 3):
        finish(group, member)
    ended = look(group)
    assert (ended.state, ended.reason) == (GroupState.SUCCEEDED, "")
    best = standings([group])[group.pk].best
    assert best is not None
    assert (best.job.member, best.value) == (2, 0.1)
    assert Event.objects.filter(kind="sweep.retried", data__members=2).count() == 1


def test_a_sweep_that_was_stopped_for_its_failures_runs_the_rest_too(world: World) -> None:
    group = running(world, "random", members=5)
    for member in (1, 2, 3):
        finish(group, member, Reason.EXIT_NONZERO)
    look(group)
    with pytest.raises(Conflict, match="is being stopped"):
        retry_sweep(user=world.user, group=group)
    for member in (4, 5):
        finish(group, member, Reason.KILLED_BY_SIGNAL)
    assert look(group).state == GroupState.FAILED

    assert retry_sweep(user=world.user, group=group) == 5
    start_members(world)
    finish(group, 1)
    finish(group, 2, Reason.EXIT_NONZERO)
    # Of the first members to end one has succeeded: their first failures count no more.
    assert look(group).state == GroupState.ACTIVE


def test_a_member_that_the_sweep_stopped_for_its_value_is_not_run_again(world: World) -> None:
    group = running(world)
    for member, value in enumerate((0.5, 0.9, 0.8), start=1):
        report(group, member, (1, value))
        look(group)
    finish(group, 2, Reason.KILLED_BY_SIGNAL)
    assert job(group, 2).state == JobState.CANCELLED
    with pytest.raises(Conflict, match="no member of sweep"):
        retry_sweep(user=world.user, group=group)
    with pytest.raises(Conflict, match=r"would again: loss 0\.9 at step 1 is number 2 of 2"):
        retry_member(user=world.user, job=job(group, 2))


def test_one_member_runs_again_alone_also_one_that_was_cancelled(world: World) -> None:
    group = running(world, "random", members=3)
    finish(group, 1, Reason.EXIT_NONZERO)
    finish(group, 2)
    cancel_job(user=world.user, job=job(group, 3))
    finish(group, 3, Reason.KILLED_BY_SIGNAL)
    look(group)
    assert retry_member(user=world.user, job=job(group, 3)).state == JobState.QUEUED
    assert states(group) == ["failed", "succeeded", "waiting"]
    with pytest.raises(Conflict, match="has succeeded"):
        retry_member(user=world.user, job=job(group, 2))
    with pytest.raises(Forbidden):
        retry_member(user=make_user(tenant=world.tenant), job=job(group, 1))


def test_what_was_summed_up_of_the_first_end_is_summed_up_anew(world: World) -> None:
    group = running(world, "random", members=2)
    for member in (1, 2):
        finish(group, member, Reason.EXIT_NONZERO)
    look(group)
    count_ended()
    Efficiency.objects.create(
        job=job(group, 1),
        attempt=1,
        ended_at=job(group, 1).ended_at,
        gpu_s=1.0,
        silence=NoGradeReason.TOO_SHORT,
        use={},
    )
    assert Job.objects.filter(group=group, counted=True).count() == 2
    retry_sweep(user=world.user, group=group)
    assert not Job.objects.filter(group=group, counted=True).exists()
    assert not Efficiency.objects.exists()
    start_members(world)
    for member in (1, 2):
        finish(group, member)
    assert count_ended() == 2
