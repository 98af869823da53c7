"""GPU-hours over REST: who may see them, what is refused, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.fleet.models import Gpu
from muster.jobs.models import GpuClaim, Job
from muster.usage.models import Efficiency
from scheduler.model.lifecycle import AttemptState
from scheduler.model.reasons import Reason
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import make_attempt, make_job, make_node

Api = Callable[[User | None], Client]
USAGE, WASTE, WORST = "/api/v1/usage", "/api/v1/usage/waste", "/api/v1/usage/least-efficient"


def hold_for(job: Job, hours: float, *, begin: datetime | None = None) -> None:
    """Let the claims of the job's attempts be so long; of those that are over, or held up to now."""
    claims = GpuClaim.objects.filter(allocation__attempt__job=job)
    begin = begin or timezone.now() - timedelta(hours=hours)
    claims.update(claimed_at=begin)
    claims.filter(released_at__isnull=False).update(released_at=begin + timedelta(hours=hours))


@pytest.fixture
def used(world: World) -> World:
    """Olivia's running job has two GPUs for an hour now, Pete's failed on one after two hours, and Stan's after one."""
    hold_for(world.running, 1.0)
    node = make_node(world.pool, "gpu02", gpus=4)
    for owner, vc, hours in ((world.peer, world.vc, 2.0), (world.stranger, world.other_vc, 1.0)):
        job = make_job(vc, owner, state="failed")
        make_attempt(job, [node], state=AttemptState.FAILED, reason=Reason.EXIT_NONZERO)
        hold_for(job, hours)
    return world


def by_user(answer: Any) -> dict[str, float]:
    return {row["user"]: round(row["gpu_hours"], 2) for row in answer.json()["results"]}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("owner", {"olivia": 2.0}),
        ("peer", {"pete": 2.0}),
        ("manager", {"olivia": 2.0, "pete": 2.0}),
        ("stranger", {"stan": 1.0}),
        ("operator", {"olivia": 2.0, "pete": 2.0, "stan": 1.0}),
    ],
)
def test_each_sees_what_they_may(role: str, expected: dict[str, float], used: World, api: Api) -> None:
    client = api(used.user(role))
    answer = client.get(f"{USAGE}?by=user")
    require_described("GET", USAGE, answer)
    assert by_user(answer) == expected
    assert round(answer.json()["total"]["gpu_hours"], 2) == sum(expected.values())
    waste = client.get(WASTE)
    require_described("GET", WASTE, waste)
    assert round(waste.json()["total"]["gpu_hours"], 2) == sum(expected.values())


@pytest.mark.parametrize("asked", ["tenant=vision", "vc=vision-vc", "user=olivia", "user=absent", "tenant=nowhere"])
def test_what_is_others_is_as_empty_as_what_is_not_there(asked: str, used: World, api: Api) -> None:
    client = api(used.stranger)
    answer = client.get(f"{USAGE}?by=user&{asked}")
    assert (answer.status_code, answer.json()["results"]) == (200, [])
    assert client.get(f"{WASTE}?{asked}").json()["outcomes"] == []


def test_nobody_sees_nothing(world: World, api: Api) -> None:
    assert [api(None).get(path).status_code for path in (USAGE, WASTE, WORST)] == [401, 401, 401]


def test_rows_have_what_was_asked_for_and_null_beside_it(used: World, api: Api) -> None:
    document = api(used.peer).get(f"{USAGE}?by=day,outcome,failure,gpu_type&since=1d").json()
    assert document["by"] == ["day", "outcome", "failure", "gpu_type"]
    for row in document["results"]:
        assert (row["outcome"], row["failure"], row["gpu_type"]) == ("failed", "exit_nonzero", "A100")
        assert (row["user"], row["vc"], row["class"], row["week"]) == (None, None, None, None)
    assert sum(row["gpu_hours"] for row in document["results"]) == pytest.approx(2.0)


def test_waste_tells_what_failed_and_of_what(used: World, api: Api) -> None:
    document = api(used.operator).get(WASTE).json()
    assert document["wasted_gpu_hours"] == pytest.approx(3.0)
    assert {row["outcome"]: row["attempts"] for row in document["outcomes"]} == {"running": 1, "failed": 2}
    assert [(row["failure"], row["category"], row["attempts"]) for row in document["failures"]] == [
        ("exit_nonzero", "user", 2)
    ]
    assert {row["state"]: row["jobs"] for row in document["states"]} == {"active": 1, "failed": 2}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        ("from=2026-02-02&to=2026-02-01", "from"),
        ("from=2099-01-01", "from"),
        ("from=2020-01-01", "from"),
        ("from=0001-01-01T00:00:00%2B14:00", "from"),
        ("to=0001-01-01", "to"),
        ("since=soon", "since"),
        ("since=500d", "since"),
        ("since=1d&from=2026-01-01", "since"),
        ("by=planet", "by"),
        ("by=day,week", "by"),
        ("format=xml", "format"),
        ("user=" + "x" * 151, "user"),
        ("tenant=%00", "tenant"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_field(query: str, field: str, world: World, api: Api) -> None:
    answer = api(world.operator).get(f"{USAGE}?{query}")
    assert answer.status_code == 422, answer.content
    require_described("GET", USAGE, answer)
    assert fields_of(answer) == [field]


def table_of(answer: Any) -> list[list[str]]:
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.content.decode())))


@pytest.mark.parametrize(
    ("query", "accept", "kind"),
    [
        ("format=csv", None, "text/csv"),
        ("format=csv", "application/json", "text/csv"),
        ("", "text/csv", "text/csv"),
        ("", "text/csv, application/json", "application/json"),
        ("format=json", "text/csv", "application/json"),
        ("", "*/*", "application/json"),
    ],
)
def test_csv_is_for_those_who_ask_for_it(query: str, accept: str | None, kind: str, used: World, api: Api) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = send(api(used.operator), "GET", f"{USAGE}?{query}", **headers)
    assert answer.headers["Content-Type"].partition(";")[0] == kind


def test_a_table_has_the_columns_that_were_asked_for(used: World, api: Api) -> None:
    head, *rows = table_of(api(used.owner).get(f"{USAGE}?by=tenant,user&format=csv"))
    assert head == ["tenant", "user", "gpu_hours", "jobs", "attempts"]
    assert [(row[0], row[1], round(float(row[2]), 2), *row[3:]) for row in rows] == [
        ("vision", "olivia", 2.0, "1", "1")
    ]


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"])
def test_no_cell_is_a_formula(name: str, used: World, api: Api) -> None:
    Gpu.objects.filter(node=used.node).update(type=name)
    User.objects.filter(pk=used.owner.pk).update(username=name)
    _, row = table_of(api(used.owner).get(f"{USAGE}?by=gpu_type,user&format=csv"))
    assert row[:2] == [f"'{name}", f"'{name}"]


def test_a_refusal_is_a_problem_also_for_those_who_want_a_table(world: World, api: Api) -> None:
    answer = api(world.owner).get(f"{USAGE}?by=planet&format=csv")
    assert problem_of(answer)["status"] == 422


@pytest.fixture
def graded(world: World) -> Job:
    """A job of Olivia's that has ended, and used a half of its two GPUs."""
    job = make_job(world.vc, world.owner, name="wasteful", gpus=2, state="succeeded")
    gpu = {"rank": 0, "index": 0, "utilization": 50.0, "memory_used_mib": None, "memory_mib": 40_960}
    Efficiency.objects.create(
        job=job,
        attempt=1,
        ended_at=timezone.now(),
        grade="fair",
        gpu_s=7200,
        utilization=50.0,
        idle_gpu_s=3600,
        use={
            "ran_s": 3600.0,
            "gpus": [gpu],
            "cpus": 8,
            "cpu_cores": None,
            "memory_mib": 65_536,
            "memory_used_mib": 20_480.0,
        },
        advice=["It used 50 % of 2 GPUs; one might have been enough."],
    )
    return job


def test_a_job_that_has_ended_tells_what_it_used(graded: Job, world: World, api: Api) -> None:
    path = f"/api/v1/jobs/{graded.pk}"
    answer = api(world.peer).get(path)
    require_described("GET", path, answer)
    told = answer.json()["efficiency"]
    assert (told["grade"], told["silence"], told["utilization"], told["idle_gpu_hours"]) == ("fair", None, 50.0, 1.0)
    assert (told["gpus"][0]["utilization"], told["memory_used_mib"], len(told["advice"])) == (50.0, 20_480.0, 1)
    assert api(world.owner).get(f"/api/v1/jobs/{world.running.pk}").json()["efficiency"] is None


@pytest.mark.parametrize(
    ("role", "names"), [("owner", ["wasteful"]), ("peer", []), ("manager", ["wasteful"]), ("stranger", [])]
)
def test_the_least_efficient_jobs_are_those_one_may_see(
    role: str, names: list[str], graded: Job, world: World, api: Api
) -> None:
    answer = api(world.user(role)).get(f"{WORST}?since=1d")
    require_described("GET", WORST, answer)
    document = answer.json()
    assert [row["name"] for row in document["results"]] == names
    assert (document["total"]["jobs"], document["total"]["utilization"]) == ((1, 50.0) if names else (0, None))


@pytest.mark.parametrize(("query", "field"), [("limit=0", "limit"), ("limit=101", "limit"), ("since=x", "since")])
def test_a_list_of_the_worst_has_bounds(query: str, field: str, world: World, api: Api) -> None:
    assert fields_of(api(world.owner).get(f"{WORST}?{query}")) == [field]
