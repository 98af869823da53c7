"""The list of jobs: filters, pages, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from muster.accounts.models import User
from muster.jobs.models import Attempt, Job
from muster.monitoring.models import IdleWatch
from scheduler.model.lifecycle import AttemptState, HoldReason, JobState
from scheduler.model.reasons import Reason
from tests.api.asking import fields_of, problem_of, require_described
from tests.api.conftest import World
from tests.factories import job_fields, make_attempt, make_group, make_job, make_node

Api = Callable[[User | None], Client]

COUNTS = Path(__file__).with_name("query_counts.json")


def names(answer: Any) -> list[str]:
    return [job["name"] for job in answer.json()["results"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["fourth", "third", "running", "waiting"]),
        ("state=queued", ["third", "waiting"]),
        ("state=queued,failed", ["fourth", "third", "waiting"]),
        ("state=queued&state=active", ["third", "running", "waiting"]),
        ("vc=vision-vc", ["fourth", "third", "running", "waiting"]),
        ("vc=nowhere", []),
        ("tenant=speech", []),
        ("owner=pete", ["third"]),
        ("mine=1", ["fourth", "running", "waiting"]),
        ("mine=0", ["fourth", "third", "running", "waiting"]),
        ("tag=project:seg", ["third", "waiting"]),
        ("tag=project:seg&tag=stage:2", ["third"]),
        ("tag=project:other", []),
        ("search=RUN", ["running"]),
        ("search=%25", []),
        ("search=nothing", []),
        ("state=running", ["running"]),
        ("limit=2", ["fourth", "third"]),
        ("owner=pete&state=failed", []),
    ],
)
def test_each_filter_narrows_the_list(query: str, expected: list[str], world: World, api: Api) -> None:
    make_job(world.vc, world.peer, name="third", tags={"project": "seg", "stage": "2"})
    make_job(world.vc, world.owner, name="fourth", state=JobState.FAILED)
    assert names(api(world.owner).get(f"/api/v1/jobs?{query}")) == expected


@pytest.mark.parametrize("prefix", ["", "#"])
def test_a_number_finds_the_job_with_it_before_jobs_with_the_number_in_their_names(
    prefix: str, world: World, api: Api
) -> None:
    text = f"{prefix}{world.running.pk}"
    make_job(world.vc, world.owner, name=f"like {text}")
    assert names(api(world.owner).get("/api/v1/jobs", {"search": text})) == ["running", f"like {text}"]


def test_a_whole_name_comes_before_newer_jobs_with_it_as_a_part_of_theirs(world: World, api: Api) -> None:
    for name in ("train", "train-2", "retrain"):
        make_job(world.vc, world.owner, name=name)
    client, found, cursor = api(world.owner), [], {}
    while cursor is not None:
        page = client.get("/api/v1/jobs", {"search": "train", "limit": 1, **cursor}).json()
        found += [job["name"] for job in page["results"]]
        cursor = {"cursor": page["next"]} if page["next"] else None
    assert found == ["train", "retrain", "train-2"]


def test_the_refusal_of_a_state_lists_the_states(world: World, api: Api) -> None:
    problem = problem_of(api(world.owner).get("/api/v1/jobs?state=waiting"))
    assert problem["errors"] == [
        {"field": "state.0", "message": "write one of queued, active, succeeded, failed, cancelled"}
    ]


def test_jobs_that_match_are_counted_beyond_what_a_page_holds(world: World, api: Api) -> None:
    for _ in range(3):
        make_job(world.vc, world.owner, gpus=2, nodes=2)
    make_job(world.vc, world.peer, gpus=4)
    answer = api(world.owner).get("/api/v1/jobs:count?mine=1&state=queued,running")
    require_described("GET", "/api/v1/jobs:count", answer)
    assert answer.json() == {
        "jobs": 5,
        "gpus": 15,
        "states": [{"state": "active", "jobs": 1, "gpus": 2}, {"state": "queued", "jobs": 4, "gpus": 13}],
        "cancellable": 5,
    }
    total = api(world.owner).get("/api/v1/jobs:count").json()
    assert (total["jobs"], total["cancellable"]) == (6, 5)


def test_only_jobs_that_ended_after_a_moment_are_counted(world: World, api: Api) -> None:
    ended = make_job(world.vc, world.owner, state=JobState.FAILED)
    at = ended.ended_at or datetime.now(UTC)
    query = {"ended_after": (at - timedelta(seconds=1)).isoformat()}
    assert api(world.owner).get("/api/v1/jobs:count", query).json()["jobs"] == 1
    assert api(world.owner).get("/api/v1/jobs:count", {"ended_after": at.isoformat()}).json()["jobs"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=waiting", "state.0"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=many", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("mine=perhaps", "mine"),
        ("tag=nocolon", "tag.0"),
        ("tag=a:%00", "tag.0"),
        ("search=%00", "search"),
        ("owner=" + "x" * 151, "owner"),
        ("cursor=AAAA", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=MS0y", "cursor"),
        ("cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk", "cursor"),
        ("cursor=%C3%A4", "cursor"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_by_name(query: str, field: str, world: World, api: Api) -> None:
    answer = api(world.owner).get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 422
    assert fields_of(answer) == [field]


def test_a_wrong_value_is_answered_with_what_to_write(world: World, api: Api) -> None:
    for query, message in {
        "limit=many": "write a whole number",
        "limit=0": "write at least 1",
        "limit=201": "write at most 200",
        "limit=" + "9" * 5000: "write a smaller number",
        "mine=perhaps": "write true or false",
        "owner=" + "x" * 151: "write at most 150 characters",
        "ended_after=noon": "write a time, such as 2026-11-28T09:30:00Z",
    }.items():
        answer = problem_of(api(world.owner).get(f"/api/v1/jobs?{query}"))
        assert [error["message"] for error in answer["errors"]] == [message]


@pytest.mark.parametrize("search", ["9" * 40, "%F0%9F%98%80", "%", "\\", "'; DROP TABLE jobs_job; --", "%ED%A0%80"])
def test_strange_searches_find_nothing(search: str, world: World, api: Api) -> None:
    answer = api(world.owner).get("/api/v1/jobs", {"search": search})
    assert answer.status_code == 200
    assert names(answer) == []


def test_pages_show_every_job_once_even_while_new_ones_come(world: World, api: Api) -> None:
    for number in range(7):
        make_job(world.vc, world.owner, name=f"job {number}")
    client, seen, cursor = api(world.owner), [], ""
    while True:
        page = client.get(f"/api/v1/jobs?limit=2{cursor}").json()
        seen += [job["name"] for job in page["results"]]
        make_job(world.vc, world.owner, name="newcomer")
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [*(f"job {number}" for number in reversed(range(7))), "running", "waiting"]


def test_the_last_full_page_has_no_next(world: World, api: Api) -> None:
    assert api(world.owner).get("/api/v1/jobs?limit=2").json()["next"] is None


def test_a_job_reads_as_the_contract_says(world: World, api: Api) -> None:
    Job.objects.filter(pk=world.waiting.pk).update(
        hold_reason=HoldReason.QUOTA, hold={"reason": "quota", "detail": "8 of 8", "helps": ["wait"], "evidence": {}}
    )
    answer = api(world.owner).get(f"/api/v1/jobs/{world.waiting.pk}")
    require_described("GET", f"/api/v1/jobs/{world.waiting.pk}", answer)
    job = answer.json()
    assert job["hold"] == {"reason": "quota", "detail": "8 of 8", "helps": ["wait"]}
    assert job["position"] == 1
    assert job["failure"] is None
    assert job["group"] is None
    assert job["spec"]["command"] == "true"
    assert job["links"]["logs"] == f"/api/v1/jobs/{world.waiting.pk}/logs"
    assert job["submitted_at"].endswith("Z")
    in_list = next(one for one in api(world.owner).get("/api/v1/jobs").json()["results"] if one["id"] == job["id"])
    more = {"spec", "sizes", "cloned_from", "efficiency", "estimate", "failed_resize", "finish", "rates", "shells"}
    more.add("screening_runs")
    assert in_list == {key: value for key, value in job.items() if key not in more}
    assert job["screening_runs"] == []


def test_the_run_time_leaves_out_the_pauses_between_attempts(world: World, api: Api) -> None:
    began = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    job = make_job(world.vc, world.owner)
    for number, hours in enumerate((0, 5)):
        attempt = make_attempt(job, [world.node], state=AttemptState.FAILED)
        start = began + timedelta(hours=hours)
        Attempt.objects.filter(pk=attempt.pk).update(running_at=start, ended_at=start + timedelta(minutes=10 + number))
        job.attempt_count = number + 1
        job.save(update_fields=["attempt_count"])
    listed = {one["id"]: one for one in api(world.owner).get("/api/v1/jobs").json()["results"]}
    assert (listed[job.pk]["run_time_s"], listed[job.pk]["running_since"]) == (21 * 60, None)
    assert (listed[world.waiting.pk]["run_time_s"], listed[world.waiting.pk]["running_since"]) == (0, None)
    running = Attempt.objects.get(job=world.running).running_at
    assert running is not None
    assert datetime.fromisoformat(listed[world.running.pk]["running_since"]) == running


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.EXIT_NONZERO, ("user", "Exit code 1")),
        (Reason.COMMAND_NOT_FOUND, ("user", "Command not found")),
        (Reason.NODE_LOST, ("infrastructure", "Node lost")),
        (Reason.PREEMPTED, ("platform", "Preempted")),
    ],
)
def test_a_failed_job_says_what_failed(reason: Reason, expected: tuple[str, str], world: World, api: Api) -> None:
    job = make_job(
        world.vc,
        world.owner,
        state=JobState.FAILED,
        reason=reason,
        reason_detail="as the agent put it",
        exit_code=1,
    )
    answer = api(world.owner).get(f"/api/v1/jobs/{job.pk}")
    require_described("GET", f"/api/v1/jobs/{job.pk}", answer)
    assert answer.json()["failure"] == {
        "class": reason.value,
        "category": expected[0],
        "line": None,
        "hint": "as the agent put it",
        "retry": None,
        "title": expected[1],
        "retried": None,
        "last_words": None,
    }


def test_last_words_are_told_apart_from_what_tells_why_it_failed(world: World, api: Api) -> None:
    verdict = {"class": "no_signature", "category": "user", "retry": "maybe", "line": "Segment 7 is odd", "hint": ""}
    job = make_job(
        world.vc,
        world.owner,
        state=JobState.FAILED,
        reason=Reason.EXIT_NONZERO,
        reason_detail="exit status 1",
        failure=verdict,
        exit_code=1,
    )
    failure = api(world.owner).get(f"/api/v1/jobs/{job.pk}").json()["failure"]
    assert (failure["class"], failure["line"], failure["last_words"]) == ("exit_nonzero", None, "Segment 7 is odd")
    assert (failure["title"], failure["hint"]) == ("Exit code 1", None)


def test_an_idle_job_says_since_when_and_when_it_is_stopped(world: World, api: Api) -> None:
    attempt = Attempt.objects.get(job=world.running)
    since = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    IdleWatch.objects.create(attempt=attempt, warned_at=since, since=since, stop_at=since + timedelta(minutes=30))
    client = api(world.owner)
    answer = client.get(f"/api/v1/jobs/{world.running.pk}")
    require_described("GET", f"/api/v1/jobs/{world.running.pk}", answer)
    told = {"since": "2026-05-01T12:00:00Z", "stop_at": "2026-05-01T12:30:00Z"}
    assert answer.json()["idle"] == told
    listed = {job["name"]: job["idle"] for job in client.get("/api/v1/jobs").json()["results"]}
    assert listed == {"running": told, "waiting": None}


def test_a_failed_job_says_what_its_log_was_found_to_say(world: World, api: Api) -> None:
    verdict = {
        "class": "gpu_out_of_memory",
        "category": "user",
        "retry": "no",
        "confidence": 0.95,
        "line": "CUDA out of memory.",
        "hint": "Use smaller batches.",
        "rank": 0,
    }
    job = make_job(
        world.vc,
        world.owner,
        state=JobState.FAILED,
        reason=Reason.EXIT_NONZERO,
        failure=verdict,
        exit_code=1,
        retried_because="Attempt 1 was tried again, because jobs failed in a row on its node.",
    )
    answer = api(world.owner).get(f"/api/v1/jobs/{job.pk}")
    require_described("GET", f"/api/v1/jobs/{job.pk}", answer)
    told = {key: verdict[key] for key in ("class", "category", "retry", "line", "hint")}
    assert answer.json()["failure"] == {
        **told,
        "title": "GPU out of memory",
        "retried": "Attempt 1 was tried again, because jobs failed in a row on its node.",
        "last_words": None,
    }
    why = api(world.owner).get(f"/api/v1/jobs/{job.pk}/why")
    require_described("GET", f"/api/v1/jobs/{job.pk}/why", why)
    assert why.json()["failure"] == answer.json()["failure"]


def test_every_list_takes_as_many_queries_for_many_rows_as_for_few(world: World, api: Api) -> None:
    client = api(world.owner)
    client.get("/api/v1/me")  # notes the token's use, once a minute
    of_job = f"jobs/{world.running.pk}"
    make_group(world.vc, world.owner, "queued", "failed")
    paths = ["jobs?limit=100", "jobs?members=false", f"{of_job}/attempts", f"{of_job}/files"]
    paths += ["vcs", "volumes", "pools", "nodes", "gpus", "tokens", "sessions", "me"]

    def counts() -> dict[str, int]:
        found = {}
        for path in paths:
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert client.get(f"/api/v1/{path}").status_code == 200
            found[path.removesuffix("?limit=100").replace(str(world.running.pk), "{id}")] = len(queries)
        return found

    few = counts()
    for number in range(30):
        make_job(world.vc, world.owner, name=f"job {number}", state="failed" if number % 2 else "queued")
    for _ in range(3):
        make_group(world.vc, world.owner, "queued", "failed")
        Client().force_login(world.owner)
        node = make_node(world.pool, gpus=2)
        make_attempt(make_job(world.vc, world.peer, gpus=2), [node])
    assert counts() == few
    assert few == json.loads(COUNTS.read_text())


def test_a_hundred_jobs_of_twenty_thousand_come_without_reading_the_rest(world: World, api: Api) -> None:
    job = Job.objects.create(**job_fields(world.vc, world.owner, state="succeeded"))
    columns = ", ".join(
        f'"{field.column}"' for field in Job._meta.concrete_fields if not field.primary_key and not field.generated
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_job ({columns}) SELECT {columns} FROM jobs_job, generate_series(1, 20000) WHERE id = %s",
            [job.pk],
        )
        cursor.execute("ANALYZE jobs_job")
        cursor.execute(
            "EXPLAIN (FORMAT JSON) SELECT id FROM jobs_job WHERE tenant_id = %s ORDER BY id DESC LIMIT 100",
            [world.vision.pk],
        )
        plan = cursor.fetchone()[0][0]["Plan"]
    assert "Index" in plan["Plans"][0]["Node Type"]
    page = api(world.owner).get("/api/v1/jobs?limit=100").json()
    assert len(page["results"]) == 100
