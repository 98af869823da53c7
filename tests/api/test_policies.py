"""Policies of pools: the choices, and the right to choose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.dispatch.config.settings import config_of, fall_back
from muster.dispatch.cycles import run_cycle
from muster.events.models import AuditEntry
from muster.jobs.models import Job
from muster.samples.models import RateEstimate
from scheduler.engine.cycle import CycleConfig
from scheduler.engine.policy import POLICIES
from scheduler.presets import PRESETS
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]


@pytest.fixture
def path(world: World) -> str:
    return f"/api/v1/pools/{world.running.pool.name}/policy"


def test_every_plug_in_is_listed_with_the_schema_of_its_parameters(world: World, api: Api) -> None:
    answer = api(world.owner).get("/api/v1/policies")
    require_described("GET", "/api/v1/policies", answer)
    found = {one["name"]: one["params_schema"] for one in answer.json()["policies"]}
    assert tuple(found) == POLICIES.names
    assert found["fifo"]["properties"]["skip_blocked"]["default"] is True
    assert {one["name"] for one in answer.json()["admissions"]} >= {"quota"}
    assert {one["name"] for one in answer.json()["placements"]} >= {"consolidate"}
    assert [one["name"] for one in answer.json()["presets"]] == list(PRESETS)


def test_the_settings_of_a_preset_can_be_sent_as_they_are_listed(world: World, api: Api, path: str) -> None:
    for preset in api(world.operator).get("/api/v1/policies").json()["presets"]:
        answer = send(api(world.operator), "PUT", path, preset["settings"])
        assert answer.json() == {**preset["settings"], "fallback": None}


def test_an_operator_lets_a_pool_decide_in_another_way(world: World, api: Api, path: str) -> None:
    body = {"policy": "fifo", "policy_params": {"skip_blocked": False}, "placement": "spread", "reason": "a trial"}
    answer = send(api(world.operator), "PUT", path, body)
    require_described("PUT", path, answer)
    assert answer.status_code == 200
    assert answer.json() == {
        "policy": "fifo",
        "policy_params": {"skip_blocked": False},
        "placement": "spread",
        "placement_params": {},
        "admission": "quota",
        "admission_params": {},
        "fallback": None,
    }
    assert api(world.operator).get(path).json() == answer.json()
    world.running.pool.refresh_from_db()
    config = config_of(world.running.pool)
    assert (config.policy_params, config.placement) == ({"skip_blocked": False}, "spread")
    row = AuditEntry.objects.get(object_type="pool")
    assert row.before == {"policy_params": {}, "placement": "consolidate"}
    assert row.after == {"policy_params": {"skip_blocked": False}, "placement": "spread", "reason": "a trial"}


def test_a_policy_that_is_named_alone_gets_its_defaults(world: World, api: Api, path: str) -> None:
    send(api(world.operator), "PUT", path, {"policy": "fifo", "policy_params": {"skip_blocked": False}})
    answer = send(api(world.operator), "PUT", path, {"policy": "fifo"})
    assert answer.json()["policy_params"] == {}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "policy"),
        ({"policy": "lottery"}, "policy"),
        ({"policy": "fifo", "policy_params": {"speed": 1}}, "policy_params.speed"),
        ({"policy": "fifo", "policy_params": {"patience_s": -1}}, "policy_params.patience_s"),
        ({"policy": "fifo", "policy_params": []}, "policy_params"),
        ({"policy": "fifo", "admission": "none-such"}, "admission"),
        ({"policy": "gandiva", "admission": "hived"}, "admission"),
    ],
)
def test_what_a_pool_could_not_decide_by_is_refused_by_name(
    body: dict[str, Any], field: str, world: World, api: Api, path: str
) -> None:
    answer = send(api(world.operator), "PUT", path, body)
    assert answer.status_code == 422
    assert fields_of(answer) == [field]
    world.running.pool.refresh_from_db()
    assert config_of(world.running.pool) == CycleConfig()


def test_nobody_else_may(world: World, api: Api, path: str) -> None:
    for role in ("owner", "manager"):
        assert send(api(world.user(role)), "PUT", path, {"policy": "fifo"}).status_code == 403
        assert api(world.user(role)).get(path).status_code == 403
    assert "no pool" in problem_of(api(world.operator).get("/api/v1/pools/none/policy"))["detail"]


def test_it_tells_that_and_why_a_pool_has_fallen_back_until_its_settings_are_sent_again(
    world: World, api: Api, path: str
) -> None:
    pool = world.running.pool
    pool.policy = "tiresias"
    pool.save(update_fields=["policy"])
    fall_back(pool, failed=config_of(pool), to=CycleConfig(), why="ZeroDivisionError: no share", cycle_id=7)
    answer = api(world.operator).get(path)
    require_described("GET", path, answer)
    assert answer.json()["policy"] == "tiresias"
    fallback = answer.json()["fallback"]
    assert (fallback["policy"], fallback["why"], fallback["cycle"]) == ("fifo", "ZeroDivisionError: no share", 7)
    assert send(api(world.operator), "PUT", path, {"policy": "tiresias"}).json()["fallback"] is None


def test_an_operator_sees_what_a_policy_decided_and_by_what_it_knew(world: World, api: Api) -> None:
    pool = world.pool
    path = f"/api/v1/pools/{pool.name}/decisions"
    answer = api(world.operator).get(path)
    require_described("GET", path, answer)
    assert answer.json() == {
        "policy": "fifo",
        "policy_params": {},
        "needs": [],
        "knows": {"jobs": 3, "rates": 0, "by_source": {}, "expected": 0},
        "last_round": None,
        "auctions": [],
        "wakes_at": None,
    }
    pool.policy, pool.policy_params = "gavel", {"objective": "makespan"}
    pool.save(update_fields=["policy", "policy_params"])
    Job.objects.filter(pk=world.running.pk).update(expected_s=60)
    RateEstimate.objects.create(job=world.running, gpu_type="A100", gpus=2, per_s=20, deviation=2, source="claimed")
    run_cycle(pool.pk, trigger="command")
    answer = api(world.operator).get(path)
    require_described("GET", path, answer)
    told = answer.json()
    assert told["needs"] == ["rates", "remaining"]
    assert told["knows"] == {"jobs": 3, "rates": 1, "by_source": {"claimed": 1}, "expected": 1}
    assert told["last_round"]["solve"] == {"jobs": 3, "rows": 3, "parts": 1, "lost": None}
    (row,) = [row for row in told["last_round"]["rows"] if row["job_ids"] == [world.running.pk]]
    assert row["title"].startswith(f"#{world.running.pk} running (vision), 2 GPUs")
    (share,) = row["by_type"]
    assert (share["gpu_type"], share["rate"]["per_s"], share["rate"]["source"]) == ("A100", 20, "claimed")
    assert 0 < share["share"] <= 1
    for role in ("owner", "manager"):
        assert api(world.user(role)).get(path).status_code == 403
    assert api(world.operator).get("/api/v1/pools/none/decisions").status_code == 404


def test_an_operator_sees_who_was_offered_what_and_who_paid(world: World, api: Api) -> None:
    pool = world.pool
    path = f"/api/v1/pools/{pool.name}/decisions"
    pool.policy = "themis"
    pool.save(update_fields=["policy"])
    Job.objects.filter(pk=world.waiting.pk).update(expected_s=60)
    run_cycle(pool.pk, trigger="command")
    answer = api(world.operator).get(path)
    require_described("GET", path, answer)
    (auction,) = answer.json()["auctions"]
    assert datetime.fromisoformat(answer.json()["wakes_at"]) > timezone.now()
    assert auction["number"] == 1
    (bid,) = [bid for bid in auction["bids"] if bid["application"] == f"job {world.waiting.pk}"]
    assert (bid["name"], bid["tenant"], bid["rho"]) == (world.waiting.name, "vision", None)
    (win,) = [win for win in auction["wins"] if win["application"] == bid["application"]]
    assert win["job_ids"] == [world.waiting.pk]
    assert 0 < win["part"] <= 1
    assert win["lease_s"] == pytest.approx(1200 * win["part"])
    assert bid["rows"][0]["gpus"] == win["gpus"] <= sum(auction["offer"].values())
    pool.policy = "fifo"
    pool.save(update_fields=["policy"])
    assert api(world.operator).get(path).json()["auctions"] == []
