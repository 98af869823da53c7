"""Groups in the list of jobs: one row for a group, its members below it, and what both cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from muster.accounts.models import User
from muster.jobs.models import Job
from muster.jobs.selectors import matching_jobs
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.api.asking import fields_of, require_described
from tests.api.conftest import World
from tests.factories import make_group, make_job

Api = Callable[[User | None], Client]

JOBS = "/api/v1/jobs"
AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def rows(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{JOBS}?{query}")
    require_described("GET", JOBS, answer)
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def named(found: list[dict[str, Any]]) -> list[str]:
    """Each row as a name, or as a name with the number of the member."""
    return [one["name"] if one["group"] is None else f"{one['name']} {one['group']['member']}" for one in found]


def test_one_row_stands_for_a_group_and_tells_how_far_it_is(world: World, api: Api) -> None:
    group = make_group(world.vc, world.owner, "succeeded", "failed", "active", "queued", "queued", "cancelled")
    Job.objects.filter(group=group, member=6).update(reason=Reason.STOPPED_EARLY)
    Job.objects.filter(group=group, member__in=[1, 3]).update(started_at=AT)
    make_job(world.vc, world.owner, name="newer")
    first, row, *_ = found = rows(api(world.owner), "members=false")
    assert named(found) == ["newer", "search 1", "running", "waiting"]
    assert first["group"] is None
    progress = row["group"].pop("progress")
    assert row["group"] == {
        "id": group.pk, "kind": "sweep", "name": "search", "state": "active", "member": 1, "index": None,
        "members": 6,
    }  # fmt: skip
    assert (progress.pop("started_at"), progress.pop("ended_at")) == ("2026-05-01T12:00:00Z", None)
    assert datetime.fromisoformat(progress.pop("changed_at")) > AT
    assert progress == {
        "waiting": 2, "running": 1, "paused": 0, "succeeded": 1, "failed": 1, "stopped": 1, "cancelled": 0,
    }  # fmt: skip


def test_a_list_has_all_members_unless_it_is_asked_for_groups(world: World, api: Api) -> None:
    group = make_group(world.vc, world.owner, "queued", "queued")
    found = rows(api(world.owner))
    assert named(found) == ["search 2", "search 1", "running", "waiting"]
    assert [one["group"]["progress"] for one in found[:2]] == [None, None]
    assert found[0]["group"]["id"] == group.pk


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=queued", ["search 3", "waiting"]),
        ("state=failed,active", ["search 2", "running"]),
        ("state=cancelled", []),
        ("tag=fold:4", ["search 4"]),
        ("search=SEAR", ["search 1"]),
        ("mine=1&tenant=vision", ["search 1", "running", "waiting"]),
        ("owner=pete", []),
    ],
)
def test_a_group_is_listed_once_where_any_of_its_members_matches(
    query: str, expected: list[str], world: World, api: Api
) -> None:
    group = make_group(world.vc, world.owner, "succeeded", "failed", "queued", "queued")
    Job.objects.filter(group=group, member=4).update(tags={"fold": "4"})
    assert named(rows(api(world.owner), f"members=false&{query}")) == expected


def test_the_number_of_a_member_finds_its_group(world: World, api: Api) -> None:
    member = Job.objects.get(group=make_group(world.vc, world.owner, "queued", "queued", "queued"), member=3)
    assert named(rows(api(world.owner), f"members=false&search={member.pk}")) == ["search 3"]


def test_the_members_of_a_group_come_in_the_order_of_their_numbers_page_by_page(world: World, api: Api) -> None:
    group = make_group(world.vc, world.owner, *["queued"] * 5)
    make_group(world.vc, world.owner, "queued", name="other")
    client, seen, cursor = api(world.owner), [], ""
    while True:
        page = client.get(f"{JOBS}?group={group.pk}&limit=2{cursor}").json()
        seen += named(page["results"])
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [f"search {number}" for number in range(1, 6)]
    assert client.get(f"{JOBS}:count?group={group.pk}").json()["jobs"] == 5


def test_a_group_of_another_tenant_has_no_members_to_see(world: World, api: Api) -> None:
    group = make_group(world.vc, world.owner, "queued")
    assert rows(api(world.stranger), f"group={group.pk}") == []
    assert named(rows(api(world.stranger), "members=false")) == ["others"]


def test_pages_of_groups_have_each_group_once(world: World, api: Api) -> None:
    for number in range(5):
        make_group(world.vc, world.owner, *["queued"] * 3, name=f"sweep-{number}")
    client, seen, cursor = api(world.owner), [], ""
    while True:
        page = client.get(f"{JOBS}?members=false&state=queued&limit=2{cursor}").json()
        seen += named(page["results"])
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [*(f"sweep-{number} 1" for number in reversed(range(5))), "waiting"]


@pytest.mark.parametrize(
    ("query", "field"), [("members=perhaps", "members"), ("group=x", "group"), ("group=0", "group")]
)
def test_a_wrong_filter_of_groups_is_named(query: str, field: str, world: World, api: Api) -> None:
    assert fields_of(api(world.owner).get(f"{JOBS}?{query}")) == [field]


def test_cancelling_the_jobs_of_a_group_leaves_the_others(world: World, api: Api) -> None:
    group = make_group(world.vc, world.owner, "queued", "queued", "succeeded")
    answer = api(world.owner).post(f"{JOBS}:cancel", {"group": group.pk}, content_type="application/json").json()
    assert len(answer["cancelled"]) == 2
    world.waiting.refresh_from_db()
    assert world.waiting.state == JobState.QUEUED


@pytest.mark.parametrize("conditions", [{}, {"state": ["failed"]}])
def test_a_list_of_groups_looks_at_each_member_once(conditions: dict[str, Any], world: World) -> None:
    """And not at each pair of members: each one asks an index for one before it."""
    groups = [make_group(world.vc, world.owner, "succeeded") for _ in range(20)]
    columns = ", ".join(
        f'"{one.column}"' for one in Job._meta.concrete_fields if not one.primary_key and not one.generated
    )
    # Before each failed member there are 50 that do not match.
    state = "CASE WHEN number > 50 THEN 'failed' ELSE state END"
    values = columns.replace('"member"', "number").replace('"state"', state)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_job ({columns}) SELECT {values} FROM jobs_job, generate_series(2, 100) number"
            " WHERE group_id = ANY(%s) ORDER BY jobs_job.id, number",
            [[group.pk for group in groups]],
        )
        cursor.execute("ANALYZE jobs_job")
    jobs = matching_jobs(world.owner, members=False, **conditions).order_by("-pk")[:51]
    (found,) = json.loads(jobs.explain(analyze=True, buffers=True, format="json"))
    assert found["Plan"]["Actual Rows"] >= 20
    # A look at an index reads three blocks.
    assert found["Plan"]["Shared Hit Blocks"] < 5 * 2000
