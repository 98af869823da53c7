"""Notices of arrays: one of the start, and one of the end, with the members by state."""

from __future__ import annotations

from typing import Any

import pytest

from muster.arrays.ends import end_arrays
from muster.arrays.services import submit_array
from muster.events.delivery import deliver_due
from muster.jobs.models import Job
from muster.notices.posting import deliver_webhooks
from muster.notices.tasks import read_events
from muster.notices.webhooks import add_webhook
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.db.receivers import hook_server, mail_server
from tests.db.stories import claim, cycle, end, live_attempt, make_world, ranks, run, until_settled

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("settled_at_once")]


def deliver() -> None:
    """Read what happened, and carry it out."""
    until_settled()
    read_events()
    while deliver_due() or deliver_webhooks():
        pass


def test_an_array_is_told_once_when_it_starts_and_once_with_its_members_when_it_ends(settings: Any) -> None:
    world = make_world(gpus=8)
    world.user.email = "olivia@example.org"
    world.user.save(update_fields=["email"])
    read_events()  # notes where it stands
    with mail_server(settings) as mail, hook_server(settings) as hook:
        add_webhook(user=world.user, url=hook.url)
        data = {"name": "folds", "command": "true", "gpus": 4, "vc": world.vc.name, "array": "3-8"}
        group = submit_array(user=world.user, data=data)[0]
        for reason in (Reason.COMPLETED, Reason.TIME_LIMIT, Reason.TIME_LIMIT):
            cycle(world)
            for job in Job.objects.filter(group=group, state=JobState.ACTIVE):
                run(claim(ranks(live_attempt(job))[0]))
            for job in Job.objects.filter(group=group, state=JobState.ACTIVE):
                end(ranks(live_attempt(job))[0], reason)
        deliver()
        assert [one["type"] for one in hook.documents] == ["job.started"]
        assert end_arrays() == 1
        deliver()
    (came,) = mail.mails
    assert came["Subject"] == f"[Muster] Array {group.pk} folds failed (4 of 6 members failed)"
    lines = came.get_content().splitlines()
    assert {"Members:   4 failed, 2 succeeded", "Failed:    5, 6, 7, 8"} <= set(lines)
    assert any(line.endswith(f"/arrays/{group.pk}") for line in lines)
    told = hook.documents[1]
    assert told["type"] == "array.failed"
    assert told["data"]["array"]["members"] == {"cancelled": 0, "failed": 4, "succeeded": 2}
    assert told["data"]["array"]["failed_indices"] == [5, 6, 7, 8]
