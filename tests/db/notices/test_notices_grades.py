"""The end of a job is told with what it used of its GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

import pytest

from muster.events.delivery import deliver_due
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.notices.posting import deliver_webhooks
from muster.notices.preferences import choose
from muster.notices.reading import read_events
from muster.notices.webhooks import add_webhook
from muster.notices.wording import Grade
from muster.samples.models import GpuTenSeconds
from muster.usage.models import Efficiency
from tests.db.receivers import Hook, MailServer, hook_server, mail_server
from tests.db.stories import World, end, make_world, ranks, start, until_settled

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("settled_at_once")]


@pytest.fixture
def world(db: None) -> World:
    world = make_world(gpus=8)
    world.user.email = "olivia@example.org"
    world.user.save(update_fields=["email"])
    read_events()  # notes where it stands
    return world


@pytest.fixture
def hook(settings: Any, world: World) -> Iterator[Hook]:
    with hook_server(settings) as running:
        add_webhook(user=world.user, url=running.url)
        yield running


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    with mail_server(settings) as running:
        yield running


def deliver() -> None:
    """Read what happened, and carry it out."""
    until_settled()
    read_events()
    while deliver_due() or deliver_webhooks():
        pass


def ran_for_an_hour(attempt: Attempt, *, utilization: float) -> Attempt:
    """The attempt as if it had begun an hour ago, with as many readings of its GPUs as a grade needs."""
    begin = attempt.placed_at - timedelta(hours=1)
    Attempt.objects.filter(pk=attempt.pk).update(placed_at=begin, running_at=begin)
    for claim_ in GpuClaim.objects.filter(allocation__attempt=attempt):
        GpuClaim.objects.filter(pk=claim_.pk).update(claimed_at=begin)
        GpuTenSeconds.objects.bulk_create(
            GpuTenSeconds(
                gpu_id=claim_.gpu_id,
                allocation_id=claim_.allocation_id,
                at=begin + timedelta(minutes=minute),
                samples=6,
                utilization=utilization,
                utilization_max=utilization,
            )
            for minute in range(60)
        )
    return attempt


def test_an_end_is_told_with_what_the_job_used_of_its_gpus(world: World, mail: MailServer, hook: Hook) -> None:
    choose(user=world.user, changes={"mail": ["ended"], "webhook": ["ended", "started"]})
    attempt = ran_for_an_hour(start(world, name="train", gpus=2), utilization=30.0)
    end(ranks(attempt)[0])
    deliver()
    (came,) = mail.mails
    lines = came.get_content().splitlines()
    assert "GPUs used: poor: 30 % of the time of its 2 GPUs" in lines
    assert "Advice:    It used 30 % of 2 GPUs; one might have been enough." in lines
    told = {one["data"]["kind"]: one["data"]["efficiency"] for one in hook.documents}
    assert told["started"] is None
    assert (told["ended"]["grade"], told["ended"]["utilization"]) == ("poor", 30.0)
    assert Efficiency.objects.get().job_id == attempt.job_id


def test_an_end_is_told_though_no_grade_can_be_given(world: World, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Collection[int]) -> dict[int, Grade]:
        Job.objects.raw("select no_such_column")[0]
        return {}

    monkeypatch.setattr("muster.notices.grades._gradings", [broken])
    choose(user=world.user, changes={"webhook": ["ended"]})
    end(ranks(start(world))[0])
    deliver()
    assert [one["data"]["efficiency"] for one in hook.documents] == [None]
