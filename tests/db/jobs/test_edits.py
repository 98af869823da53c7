"""Editing a job: only changed fields are checked, with the rights of the user who changes them."""

from __future__ import annotations

import pytest

from muster.common.errors import Conflict, Forbidden, Invalid
from muster.events.models import Event
from muster.jobs.models import CodeArchive, Job
from muster.jobs.services import edit_job, submit_job
from muster.tenants.roles import Role
from tests.db.stories import World, make_world, now_of, start, submit
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world()


def test_a_manager_may_edit_a_members_job_whose_code_is_the_members(world: World) -> None:
    archive = CodeArchive.objects.create(sha256="a" * 64, size=1)
    archive.owners.add(world.user)
    job = submit(world, code={"upload": archive.sha256})
    manager = make_user(tenant=world.tenant, role=Role.MANAGER)
    edit_job(user=manager, job=job, changes={"priority": "high", "tags": {"run": 7}})
    assert (now_of(job).priority, now_of(job).tags, now_of(job).code_id) == (20, {"run": "7"}, archive.sha256)
    assert now_of(job).spec["code"] == {"upload": archive.sha256}


def test_a_member_may_rename_a_job_that_a_manager_has_put_ahead(world: World) -> None:
    manager = make_user(tenant=world.tenant, role=Role.MANAGER)
    job = submit(world)
    edit_job(user=manager, job=job, changes={"priority": "urgent"})
    edit_job(user=world.user, job=job, changes={"name": "better"})
    assert (now_of(job).name, now_of(job).priority) == ("better", 30)


def test_a_member_cannot_put_a_job_ahead(world: World) -> None:
    job = submit(world)
    with pytest.raises(Invalid, match="for managers"):
        edit_job(user=world.user, job=job, changes={"priority": "high"})
    assert now_of(job).priority == 10


def test_another_member_cannot_edit_it(world: World) -> None:
    with pytest.raises(Forbidden):
        edit_job(user=make_user(tenant=world.tenant), job=submit(world), changes={"name": "mine"})


def test_a_time_limit_can_be_set_and_taken_away_while_the_job_waits(world: World) -> None:
    job = submit(world)
    edit_job(user=world.user, job=job, changes={"time": "2h"})
    assert (now_of(job).time_limit_s, now_of(job).spec["time"]) == (7200, "2h")
    edit_job(user=world.user, job=job, changes={"time": None})
    assert now_of(job).time_limit_s is None


def test_a_running_job_keeps_its_priority_and_time(world: World) -> None:
    job = start(world).job
    for changes in ({"priority": "low"}, {"time": "1h"}):
        with pytest.raises(Conflict):
            edit_job(user=world.user, job=job, changes=changes)
    edit_job(user=world.user, job=job, changes={"name": "better"})
    assert now_of(job).name == "better"


@pytest.mark.parametrize(
    "changes", [{"gpus": 2}, {"command": "false"}, {"time": "soon"}, {"priority": "highest"}, {"name": "a\nb"}]
)
def test_what_cannot_be_edited_changes_nothing(world: World, changes: dict[str, object]) -> None:
    job = submit(world)
    before = Job.objects.filter(pk=job.pk).values().get()
    with pytest.raises(Invalid):
        edit_job(user=world.user, job=job, changes=changes)
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_an_edited_spec_can_be_submitted_again_and_the_edit_is_told(world: World) -> None:
    job = submit(world, name="first")
    edit_job(user=world.user, job=job, changes={"name": "second", "time": None})
    assert submit_job(user=world.user, data=now_of(job).spec)[0].name == "second"
    told = Event.objects.get(kind="job.edited").data
    assert (told["before"]["name"], told["after"]["name"]) == ("first", "second")
