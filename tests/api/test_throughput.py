"""Rates that a spec claims by GPU type: what is stored, and which claims are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.jobs.models import Job
from tests.api.asking import JOBS, problem_of, require_described, send, submit
from tests.api.conftest import World

Api = Callable[[User | None], Client]

BAD: list[tuple[str, Any, dict[str, Any], str, str]] = [
    ("zero", {"A100": 0}, {}, "throughput.A100", "write more than 0"),
    ("a negative rate", {"A100": -3}, {}, "throughput.A100", "write more than 0"),
    ("an absurd rate", {"A100": 1e300}, {}, "throughput.A100", "write 1e+12 or less"),
    ("a rate that is not a number", {"A100": "fast"}, {}, "throughput.A100", "write a number"),
    ("no mapping", 410, {}, "throughput", "write a mapping, such as {A100: 410, V100: 190}"),
    ("a type that the pool does not have", {"A1000": 3}, {}, "throughput.A1000", "it has A100"),
    ("a type that the job does not accept", {"V100": 3}, {"gpus": "A100:1"}, "throughput.V100", "does not accept V100"),
    ("a job without GPUs", {"A100": 3}, {"gpus": 0}, "throughput", "ask for gpus"),
    ("too many types", {f"T{n}": 1 for n in range(33)}, {}, "throughput", "write at most 32 entries"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case[0]) for case in BAD])
def test_a_wrong_claim_is_refused_by_field(
    case: tuple[str, Any, dict[str, Any], str, str], world: World, api: Api
) -> None:
    _, claims, changes, field, told = case
    spec = {"command": "x", "gpus": 1, "throughput": claims} | changes
    for path in (JOBS, f"{JOBS}:dry-run"):
        answer = send(api(world.owner), "POST", path, spec)
        assert answer.status_code == 422, answer.content
        require_described("POST", path, answer)
        assert [(one["field"], told in one["message"]) for one in problem_of(answer)["errors"]] == [(field, True)]


@pytest.mark.parametrize("gpus", [1, "A100:1", {"any_of": ["A100:1", "V100:1"]}])
def test_claims_are_stored_and_shown_in_the_spec(gpus: Any, world: World, api: Api) -> None:
    answer = submit(api(world.owner), {"command": "x", "gpus": gpus, "throughput": {"A100": 410}})
    assert answer.status_code == 201, answer.content
    require_described("POST", JOBS, answer)
    assert answer.json()["spec"]["throughput"] == {"A100": 410}
    assert Job.objects.get(pk=answer.json()["id"]).spec["throughput"] == {"A100": 410}
