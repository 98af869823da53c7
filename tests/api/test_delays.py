"""The delays of a virtual cluster over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.events.models import Event
from muster.jobs.models import Attempt, Job
from tests.api.asking import fields_of, require_described
from tests.api.conftest import World

Api = Callable[[User | None], Client]


def test_members_of_the_tenant_see_the_mean_waits_of_all_its_jobs(world: World, api: Api) -> None:
    placed = timezone.now() - timedelta(minutes=1)
    Attempt.objects.filter(job=world.running).update(placed_at=placed)
    for at, kind in ((placed - timedelta(minutes=2), "job.submitted"), (placed, "attempt.placed")):
        Event.objects.create(at=at, kind=kind, actor="scheduler", job_id=world.running.pk)
    path = f"/api/v1/vcs/{world.vc.pk}/delays"
    Event.objects.create(at=placed, kind="job.submitted", actor="ada", job_id=world.waiting.pk)
    ended = api(world.peer).get(path, {"to": (timezone.now() - timedelta(seconds=1)).isoformat()}).json()["results"]
    assert [(one["starts"], one["waiting"], one["other_s"]) for one in ended] == [(1, 0, 120.0)]
    answer = api(world.peer).get(f"{path}?by=week&since=30d")
    require_described("GET", path, answer)
    (row,) = answer.json()["results"]
    monday = placed.date() - timedelta(days=placed.weekday())
    assert row == {
        "begins": monday.isoformat(),
        "starts": 1,
        "waiting": 1,
        "not_eligible_s": 0.0,
        "fair_share_s": 0.0,
        "capacity_s": 0.0,
        "apart_s": 0.0,
        "order_s": 0.0,
        "fragmentation_s": 0.0,
        "other_s": pytest.approx(90.0, abs=10.0),  # two minutes, and one so far
    }
    assert answer.json()["by"] == "week"


def test_a_period_that_is_none_is_refused_with_its_field(world: World, api: Api) -> None:
    path = f"/api/v1/vcs/{world.vc.pk}/delays"
    for query, field in (("since=soon", "since"), ("by=year", "by"), ("from=2100-01-01", "from")):
        answer = api(world.owner).get(f"{path}?{query}")
        require_described("GET", path, answer)
        assert fields_of(answer) == [field]


def test_users_see_the_delays_of_their_own_jobs_and_managers_those_of_their_tenant(world: World, api: Api) -> None:
    placed = timezone.now() - timedelta(minutes=1)
    for before_s, kind, data in (
        (300, "job.submitted", {}),
        (200, "job.held", {"reason": "cap"}),
        (0, "attempt.placed", {}),
    ):
        at = placed - timedelta(seconds=before_s)
        Event.objects.create(at=at, kind=kind, actor="scheduler", job_id=world.running.pk, data=data)
    path = "/api/v1/usage/delays"
    answer = api(world.owner).get(f"{path}?by=tenant,size,week&to={timezone.now().isoformat().replace('+', '%2B')}")
    require_described("GET", path, answer)
    (row,) = answer.json()["results"]
    assert (row["tenant"], row["size"], row["starts"], row["vc"]) == (world.vision.name, "2-4", 1, None)
    assert (row["fair_share_s"], row["other_s"], row["fragmentation_s"]) == (200.0, 100.0, 0.0)
    assert answer.json()["total"]["fair_share_s"] == 200.0
    assert api(world.peer).get(path).json()["total"]["starts"] == 0
    assert api(world.manager).get(path).json()["total"]["starts"] == 1


def test_a_column_that_delays_do_not_have_is_refused(world: World, api: Api) -> None:
    for by in ("gpu_type", "day,week"):
        answer = api(world.owner).get(f"/api/v1/usage/delays?by={by}")
        require_described("GET", "/api/v1/usage/delays", answer)
        assert fields_of(answer) == ["by"]


def test_a_job_has_its_waits_and_the_delay_that_it_suffers_now(world: World, api: Api) -> None:
    hold = {"reason": "behind_head", "delay": "order", "detail": "", "evidence": {}, "helps": []}
    Job.objects.filter(pk=world.waiting.pk).update(hold_reason="behind_head", hold=hold)
    began = timezone.now() - timedelta(minutes=2)
    for at, kind, data in ((began, "job.submitted", {}), (began, "job.held", hold)):
        Event.objects.create(at=at, kind=kind, actor="scheduler", job_id=world.waiting.pk, data=data)
    path = f"/api/v1/jobs/{world.waiting.pk}/delays"
    answer = api(world.owner).get(path)
    require_described("GET", path, answer)
    assert answer.json()["delay"] == "order"
    (wait,) = answer.json()["waits"]
    assert (wait["attempt"], wait["order_s"]) == (None, pytest.approx(120.0, abs=10.0))
