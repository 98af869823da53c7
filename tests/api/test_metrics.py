"""Use of jobs and nodes over time, for those who may see it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.jobs.models import Attempt
from muster.samples.levels import floor
from muster.samples.models import GpuTenSeconds, HostTenSeconds, RankTenSeconds
from scheduler.model.lifecycle import AttemptState
from tests.api.asking import fields_of, problem_of, require_described
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Api = Callable[[User | None], Client]
NODE = "/api/v1/nodes/gpu01/metrics"


def path_of(job: Any) -> str:
    return f"/api/v1/jobs/{job.pk}/metrics"


@pytest.fixture
def now() -> datetime:
    return floor(timezone.now(), 10)


@pytest.fixture
def attempt(world: World, now: datetime) -> Attempt:
    """The running job's: it was placed five minutes ago, and was measured once since."""
    attempt = world.running.attempts.get()
    Attempt.objects.filter(pk=attempt.pk).update(placed_at=now - timedelta(minutes=5))
    allocation = attempt.allocations.get()
    at = now - timedelta(minutes=1)
    for claim, power_w in zip(allocation.claims.order_by("gpu__index"), (250.0, 310.5), strict=True):
        row = {"gpu_id": claim.gpu_id, "at": at, "samples": 2}
        GpuTenSeconds.objects.create(**row, allocation_id=allocation.pk, power_w=power_w, power_w_max=power_w + 20)
        before = {**row, "at": at - timedelta(minutes=2)}
        GpuTenSeconds.objects.create(**before, allocation_id=0, power_w=60.0, power_w_max=60.0)
    RankTenSeconds.objects.create(allocation_id=allocation.pk, at=at, samples=1, cpu_cores=1.5, cpu_cores_max=2.0)
    HostTenSeconds.objects.create(node_id=world.node.pk, at=at, samples=1, cpu_percent=40.0, cpu_percent_max=40.0)
    return attempt


def known(document: Any, figure: Any) -> dict[int, float]:
    """The values that are there, by their time."""
    return {at: value for at, value in zip(document["times"], figure["mean"], strict=True) if value is not None}


def test_a_job_tells_what_its_gpus_and_ranks_used(attempt: Attempt, world: World, api: Api, now: datetime) -> None:
    answer = api(world.owner).get(path_of(world.running))
    require_described("GET", path_of(world.running), answer)
    document = answer.json()
    at = int(now.timestamp()) - 60
    assert (document["attempt"], document["step_s"]) == (1, 10)
    assert [(gpu["index"], gpu["node"], gpu["rank"], gpu["type"]) for gpu in document["gpus"]] == [
        (0, "gpu01", 0, "A100"),
        (1, "gpu01", 0, "A100"),
    ]
    (figure,) = document["gpus"][1]["figures"]
    assert (figure["name"], figure["unit"]) == ("power_w", "W")
    assert known(document, figure) == {at: 310.5}
    assert [value for value in figure["max"] if value is not None] == [330.5]
    (rank,) = document["ranks"]
    assert (rank["rank"], rank["node"], rank["cpus"]) == (0, "gpu01", world.running.request.first.cpus)
    assert [(one["name"], one["unit"], known(document, one)) for one in rank["figures"]] == [
        ("cpu_cores", "cores", {at: 1.5})
    ]


def test_a_node_tells_of_its_gpus_whoever_held_them(attempt: Attempt, world: World, api: Api, now: datetime) -> None:
    answer = api(world.stranger).get(NODE)
    require_described("GET", NODE, answer)
    document = answer.json()
    at = int(now.timestamp()) - 60
    assert [gpu["index"] for gpu in document["gpus"]] == [0, 1, 2, 3]
    assert known(document, document["gpus"][0]["figures"][0]) == {at - 120: 60.0, at: 250.0}
    assert document["gpus"][3]["figures"] == []
    assert known(document, document["host"]["figures"][0]) == {at: 40.0}
    assert b"vision" not in answer.content


@pytest.mark.parametrize(("role", "status"), [("peer", 200), ("operator", 200), ("stranger", 404)])
def test_who_may_see_a_job_may_see_what_it_used(role: str, status: int, world: World, api: Api) -> None:
    answer = api(world.user(role)).get(path_of(world.running))
    assert answer.status_code == status
    require_described("GET", path_of(world.running), answer)


def test_nobody_sees_anything(world: World, api: Api) -> None:
    assert [api(None).get(path).status_code for path in (path_of(world.running), NODE)] == [401, 401]


def test_a_job_that_was_never_placed_has_used_nothing(world: World, api: Api) -> None:
    document = api(world.owner).get(path_of(world.waiting)).json()
    assert (document["attempt"], document["gpus"], document["ranks"]) == (None, [], [])


def test_an_attempt_is_chosen_by_its_number(attempt: Attempt, world: World, api: Api) -> None:
    job = make_job(world.vc, world.owner)
    for number in (1, 2):
        node = make_node(world.pool, f"one-{number}")
        made = make_attempt(job, [node], state=AttemptState.FAILED)
        job.refresh_from_db()
        type(job).objects.filter(pk=job.pk).update(attempt_count=made.number)
        job.refresh_from_db()
    client = api(world.owner)
    assert [client.get(f"{path_of(job)}{query}").json()["ranks"][0]["node"] for query in ("", "?attempt=1")] == [
        "one-2",
        "one-1",
    ]
    assert client.get(f"{path_of(job)}?attempt=3").status_code == 404


def test_a_window_and_a_step_can_be_asked_for(attempt: Attempt, world: World, api: Api, now: datetime) -> None:
    start = now - timedelta(hours=1)
    query = {"from": start.isoformat(), "to": (now - timedelta(seconds=30)).isoformat(), "step": "60"}
    document = api(world.owner).get(path_of(world.running), query).json()
    assert document["step_s"] == 60
    assert datetime.fromisoformat(document["from"]) == floor(start, 60)
    assert document["times"][0] == int(floor(start, 60).timestamp())
    assert all(second - first == 60 for first, second in zip(document["times"], document["times"][1:], strict=False))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("to=%00", "to"),
        ("step=-1", "step"),
        ("step=86401", "step"),
        ("step=" + "9" * 5000, "step"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=1700-01-01T00:00:00Z&to=1700-01-02T00:00:00Z", "from"),
        ("from=9999-12-31T23:59:59Z", "from"),
        ("to=0001-01-01T00:00:00Z", "from"),
        ("attempt=0", "attempt"),
        ("attempt=99999999999999999999", "attempt"),
    ],
)
def test_a_window_that_cannot_be_is_refused_by_its_field(query: str, field: str, world: World, api: Api) -> None:
    answer = api(world.owner).get(f"{path_of(world.running)}?{query}")
    assert answer.status_code == 422, answer.content
    assert fields_of(answer) == [field]
    if field != "attempt":
        assert fields_of(api(world.owner).get(f"{NODE}?{query}")) == [field]


def test_far_windows_are_cut_to_what_is_kept(world: World, api: Api) -> None:
    document = api(world.owner).get(f"{NODE}?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z").json()
    assert document["step_s"] == 86_400
    assert len(document["times"]) <= 402
    assert datetime.fromisoformat(document["to"]) <= datetime.now(UTC) + timedelta(days=1)


def test_there_is_no_node_of_another_name(world: World, api: Api) -> None:
    assert problem_of(api(world.owner).get("/api/v1/nodes/gpu99/metrics"))["status"] == 404
