"""The delays of a virtual cluster over REST."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.events.models import Event
from muster.jobs.models import Attempt
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
        "fair_share_s": 0.0,
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
