"""Waiting for offers at the real web process, and the example that does."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster.jobs.models import Job
from muster.offers.models import Framework, Offer, Role
from muster.offers.services import register_framework
from muster_client import Client
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.db.conftest import client as client_of
from tests.db.stories import Other, World, claim, cycle, end, live_attempt, make_world, ranks, run
from tests.factories import make_token, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "framework" / "framework.py"


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


@pytest.fixture
def http(server: str, world: World) -> Iterator[httpx.Client]:
    with client_of(f"{server}/api/v1", world.user) as client:
        yield client


@pytest.fixture
def role(world: World) -> Role:
    role = Role.objects.create(name="research", vc=world.vc)
    register_framework(user=world.user, role_name="research")
    return role


def test_whoever_waits_is_told_as_soon_as_a_cycle_ends_with_offers(
    http: httpx.Client, role: Role, world: World
) -> None:
    Framework.objects.update(seen_at=None)
    waiting = Other(lambda: http.get("/offers", params={"wait": 20}))
    while not Framework.objects.filter(seen_at__isnull=False).exists():
        assert waiting.is_alive()
    cycle(world)
    answer = waiting.result()
    assert answer.status_code == 200
    assert [offer["id"] for offer in answer.json()["results"]] == list(Offer.objects.values_list("pk", flat=True))


def test_offers_that_stand_are_told_at_once_and_new_ones_can_be_waited_for(
    http: httpx.Client, role: Role, world: World
) -> None:
    cycle(world)
    known = http.get("/offers").json()["results"]
    assert [offer["node"] for offer in known] == [node.name for node in world.nodes]
    same = http.get("/offers", params={"wait": 1, "after": known[-1]["id"]}).json()
    assert same == {"results": known, "next": None}


@pytest.mark.parametrize("query", ["wait=31", "wait=soon", "after=-1"])
def test_a_wrong_question_is_refused_with_its_field(query: str, http: httpx.Client, role: Role) -> None:
    answer = http.get(f"/offers?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_nobody_waits_without_a_token_or_a_framework(server: str, http: httpx.Client, world: World) -> None:
    assert httpx.get(f"{server}/api/v1/offers").status_code == 401
    assert http.get("/offers").status_code == 404
    stranger = {"Authorization": f"Bearer {make_token(make_user())}"}
    assert httpx.get(f"{server}/api/v1/offers", headers=stranger).status_code == 404


def test_the_example_runs_its_jobs_and_the_failed_one_again(server: str, role: Role, world: World) -> None:
    searching = Other(lambda: _search(server, make_token(world.user)))
    ended: set[int] = set()
    while searching.is_alive():
        cycle(world)
        for job in Job.objects.filter(state=JobState.ACTIVE):
            first = job.name == "rate-0" and not Job.objects.filter(name="rate-0", state=JobState.FAILED).exists()
            (allocation,) = ranks(live_attempt(job))
            claim(allocation)
            run(allocation)
            end(allocation, Reason.EXIT_NONZERO if first else Reason.COMPLETED)
            ended.add(job.pk)
    assert searching.result() == 0
    names = sorted(Job.objects.filter(pk__in=ended).values_list("name", "state"))
    assert names == [("rate-0", "failed"), *((f"rate-{number}", "succeeded") for number in range(5))]
    assert not Offer.objects.filter(state="standing").exists()


def _search(server: str, token: str) -> int:
    spec = importlib.util.spec_from_file_location("framework", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with Client(server, token) as client:
        code: int = module.search(client, "research", 5, look_every_s=0)
    return code
