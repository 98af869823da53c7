"""The deadline of a spec: which are refused, and that policies are told it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.dispatch.snapshot.snapshot import pool_snapshot
from tests.api.asking import JOBS, problem_of, require_described, send, submit
from tests.api.conftest import World

Api = Callable[[User | None], Client]

BAD: list[tuple[Any, str]] = [
    ("2020-01-01T00:00Z", "is in the past"),
    ("9999-12-31T23:59Z", "more than ten years from now"),
    ("2030-02-30T00:00Z", "day is out of range"),
    ("2030-01-01T00:00", "with a time zone"),
    ("tomorrow", "with a time zone"),
    (1893456000, "write text"),
]


@pytest.mark.parametrize(("deadline", "told"), BAD)
def test_a_wrong_deadline_is_refused_by_field(deadline: Any, told: str, world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", JOBS, {"command": "x", "gpus": 1, "deadline": deadline})
    assert answer.status_code == 422, answer.content
    require_described("POST", JOBS, answer)
    (error,) = problem_of(answer)["errors"]
    assert error["field"] == "deadline"
    assert told in error["message"]


def test_policies_are_told_the_deadline(world: World, api: Api) -> None:
    at = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=2)
    answer = submit(api(world.owner), {"command": "x", "gpus": 1, "deadline": at.strftime("%Y-%m-%dT%H:%MZ")})
    assert answer.status_code == 201, answer.content
    told = {job.id: job.deadline_at for job in pool_snapshot(world.pool, seed=0).waiting}
    assert (told[world.waiting.pk], told[answer.json()["id"]]) == (None, at.timestamp())
