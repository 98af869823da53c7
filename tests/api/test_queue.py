"""The queue of a virtual cluster: its order, hold and release, one's own order, and a manager's bump."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.events.models import Event
from muster.jobs.models import Job, QueueOrder
from muster.predictions.models import WaitRecord
from scheduler.model.lifecycle import HoldReason, JobClass, JobState
from tests.api.asking import problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import make_job, make_token

Api = Callable[[User | None], Client]


@pytest.fixture
def path(world: World) -> str:
    return f"/api/v1/vcs/{world.vc.pk}/queue"


def queue(client: Client, path: str, **query: Any) -> dict[str, Any]:
    answer = client.get(path, query)
    require_described("GET", path, answer)
    found: dict[str, Any] = answer.json()
    return found


def ids(client: Client, path: str, **query: Any) -> list[int]:
    return [job["id"] for job in queue(client, path, **query)["results"]]


def act(client: Client, job: Job, what: str, status: int = 200) -> Any:
    answer = client.post(f"/api/v1/jobs/{job.pk}:{what}")
    require_described("POST", f"/api/v1/jobs/{job.pk}:{what}", answer)
    assert answer.status_code == status, answer.content
    return answer.json()


def test_it_lists_what_waits_in_the_order_of_the_last_cycle_and_new_jobs_behind(
    world: World, api: Api, path: str
) -> None:
    first, second, third = world.waiting, make_job(world.vc, world.peer), make_job(world.vc, world.owner)
    QueueOrder.objects.create(vc=world.vc, job_ids=[second.pk, world.running.pk, first.pk])
    hold = {"reason": "quota", "detail": "none left", "evidence": {"gpu_type": "A100"}, "helps": ["wait"]}
    Job.objects.filter(pk=second.pk).update(hold_reason=HoldReason.QUOTA, hold=hold)
    found = queue(api(world.owner), path)
    rows = found["results"]
    assert [(job["id"], job["position"], job["movable"]) for job in rows] == [
        (second.pk, 1, False),
        (first.pk, 2, True),
        (third.pk, 3, True),
    ]
    assert (rows[0]["hold"]["detail"], rows[0]["evidence"]) == ("none left", {"gpu_type": "A100"})
    assert (found["vc"], found["pool"], found["waiting"], found["held"]) == ("vision-vc", "main", 3, 0)
    assert not found["manages"]
    assert ids(api(world.owner), path, mine="1") == [first.pk, third.pk]
    page = queue(api(world.owner), path, limit=2)
    assert ids(api(world.owner), path, limit=2, cursor=page["next"]) == [third.pk]


def test_a_waiting_job_has_the_forecast_of_its_start(world: World, api: Api, path: str) -> None:
    forecasts = {"model": [0.83, 20.0, 200.0, 900.0]}
    job, now = world.waiting, timezone.now()
    WaitRecord.objects.create(job=job, pool=world.vc.pool, version=1, features=[], forecasts=forecasts, eligible_at=now)
    make_job(world.vc, world.owner)
    waits = {row["id"]: row["wait"] for row in queue(api(world.owner), path)["results"]}
    assert waits.pop(job.pk)["source"] == "model"
    assert list(waits.values()) == [None]


def test_an_urgent_job_that_no_cycle_has_seen_comes_before_jobs_of_lower_priority(
    world: World, api: Api, path: str
) -> None:
    QueueOrder.objects.create(vc=world.vc, job_ids=[world.waiting.pk])
    urgent = make_job(world.vc, world.peer, priority=30)
    assert ids(api(world.owner), path) == [urgent.pk, world.waiting.pk]


def test_a_held_job_keeps_its_submission_and_comes_last_without_a_place(world: World, api: Api, path: str) -> None:
    later = make_job(world.vc, world.peer)
    held = act(api(world.owner), world.waiting, "hold")
    assert (held["held"], held["hold"]["reason"], held["position"]) == (True, "held", None)
    assert held["hold"]["detail"] == "olivia holds it back"
    assert held["submitted_at"] == act(api(world.owner), world.waiting, "hold")["submitted_at"]  # once more is fine
    assert ids(api(world.owner), path) == [later.pk, world.waiting.pk]
    released = act(api(world.manager), world.waiting, "release")
    assert (released["held"], released["hold"], released["position"]) == (False, None, 1)
    assert list(Event.objects.filter(job_id=world.waiting.pk).values_list("kind", "actor")) == [
        ("job.held", "olivia"),
        ("job.released", "mary"),
    ]


def test_what_a_job_waited_for_before_it_was_held_is_shown_again(world: World, api: Api) -> None:
    hold = {"reason": "group", "detail": "its turn", "evidence": {}, "helps": []}
    Job.objects.filter(pk=world.waiting.pk).update(hold_reason=HoldReason.GROUP, hold=hold)
    act(api(world.owner), world.waiting, "hold")
    assert act(api(world.owner), world.waiting, "release")["hold"]["detail"] == "its turn"


@pytest.mark.parametrize("what", ["hold", "release", "bump"])
def test_a_job_that_runs_or_has_ended_can_be_neither_held_nor_released_nor_bumped(
    world: World, api: Api, what: str
) -> None:
    for job in (world.running, make_job(world.vc, world.owner, state=JobState.SUCCEEDED)):
        answer = api(world.manager).post(f"/api/v1/jobs/{job.pk}:{what}")
        assert answer.status_code == 409
        assert "only a waiting job" in problem_of(answer)["detail"]


def test_a_waiting_job_that_is_not_held_stays_as_it_is_when_it_is_released(world: World, api: Api) -> None:
    assert act(api(world.owner), world.waiting, "release")["held"] is False


def test_jobs_of_one_owner_share_out_their_places(world: World, api: Api, path: str) -> None:
    a, other, b, c = (
        world.waiting,
        *(make_job(world.vc, one) for one in (world.peer, world.owner, world.owner)),
    )
    client = api(world.owner)
    answer = send(client, "POST", f"{path}:reorder", {"jobs": [c.pk, a.pk]})
    require_described("POST", f"{path}:reorder", answer)
    assert answer.status_code == 204
    assert ids(client, path) == [c.pk, other.pk, b.pk, a.pk]
    # A second order is made from what is shown, before any cycle.
    assert send(client, "POST", f"{path}:reorder", {"jobs": [b.pk, c.pk]}).status_code == 204
    assert ids(client, path) == [b.pk, other.pk, c.pk, a.pk]
    ranks = dict(Job.objects.filter(vc=world.vc, own_rank__isnull=False).values_list("pk", "own_rank"))
    assert sorted(ranks, key=lambda pk: ranks[pk] or 0.0) == [b.pk, c.pk, a.pk]
    assert Event.objects.filter(kind="job.reordered", actor="olivia").count() == 4


def test_a_manager_may_order_the_jobs_of_a_member_and_a_member_only_the_own(world: World, api: Api, path: str) -> None:
    jobs = [make_job(world.vc, world.peer).pk for _ in range(2)]
    body = {"jobs": jobs[::-1]}
    assert send(api(world.owner), "POST", f"{path}:reorder", body).status_code == 403
    narrow = Client(headers={"Authorization": f"Bearer {make_token(world.manager, scopes=(Scope.SUBMIT,))}"})
    assert send(narrow, "POST", f"{path}:reorder", body).status_code == 403
    assert send(api(world.manager), "POST", f"{path}:reorder", body).status_code == 204
    assert ids(api(world.owner), path) == [world.waiting.pk, *jobs[::-1]]


def test_an_order_names_the_job_that_has_left_the_queue(world: World, api: Api, path: str) -> None:
    later = make_job(world.vc, world.owner, state=JobState.FAILED)
    answer = send(api(world.owner), "POST", f"{path}:reorder", {"jobs": [later.pk, world.waiting.pk]})
    assert answer.status_code == 409
    assert problem_of(answer)["detail"] == f"job {later.pk} is failed by now and waits no more: load the queue again"
    assert not Job.objects.filter(own_rank__isnull=False).exists()


@pytest.mark.parametrize("make", ["twice", "one", "two owners", "two classes", "elsewhere"])
def test_an_order_that_makes_no_sense_is_refused(make: str, world: World, api: Api, path: str) -> None:
    ours = world.waiting.pk
    jobs = {
        "twice": lambda: [ours, ours],
        "one": lambda: [ours],
        "two owners": lambda: [make_job(world.vc, world.peer).pk, ours],
        "two classes": lambda: [make_job(world.vc, world.owner, klass=JobClass.OPPORTUNISTIC).pk, ours],
        "elsewhere": lambda: [world.others.pk, ours],
    }[make]()
    answer = send(api(world.manager), "POST", f"{path}:reorder", {"jobs": jobs})
    assert answer.status_code == 422
    assert problem_of(answer)["errors"][0]["field"] == "jobs"


def test_a_bump_puts_a_job_at_the_top_of_its_class_and_its_owner_sees_by_whom(
    world: World, api: Api, path: str
) -> None:
    lent = make_job(world.vc, world.peer, klass=JobClass.OPPORTUNISTIC)
    mine, last = (make_job(world.vc, world.owner) for _ in range(2))
    QueueOrder.objects.create(vc=world.vc, job_ids=[lent.pk, world.waiting.pk, mine.pk, last.pk])
    assert act(api(world.manager), last, "bump")["bumped"]
    act(api(world.manager), mine, "bump")
    assert ids(api(world.owner), path) == [lent.pk, mine.pk, last.pk, world.waiting.pk]
    bumps = dict(Job.objects.filter(bumped__gt=0).values_list("pk", "bumped"))
    assert bumps == {last.pk: 1, mine.pk: 2}
    events = api(world.owner).get(f"/api/v1/jobs/{mine.pk}/events").json()["results"]
    assert [(event["kind"], event["actor"]) for event in events] == [("job.bumped", "mary")]
    answer = send(api(world.owner), "POST", f"{path}:reorder", {"jobs": [mine.pk, world.waiting.pk]})
    assert answer.status_code == 409
    assert not act(api(world.manager), mine, "unbump")["bumped"]


def test_a_member_cannot_raise_the_own_priority(world: World, api: Api) -> None:
    path = f"/api/v1/jobs/{world.waiting.pk}"
    answer = send(api(world.owner), "PATCH", path, {"priority": "high"})
    assert answer.status_code == 422
    assert problem_of(answer)["errors"][0]["field"] == "priority"
    assert send(api(world.manager), "PATCH", path, {"priority": "high"}).json()["priority"] == "high"
