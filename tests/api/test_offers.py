"""Frameworks over the API: register, ask, accept, decline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.api.service.metrics import exposition
from muster.dispatch.cycles import run_cycle
from muster.fleet.models import Gpu
from muster.fleet.services import cordon_node
from muster.jobs.models import Job
from muster.offers.models import Offer, OfferFilter, Role
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]
OFFERS, FRAMEWORKS = "/api/v1/offers", "/api/v1/frameworks"
SPEC = {"command": "true", "gpus": 1}


@pytest.fixture
def role(world: World) -> Role:
    Job.objects.filter(pk__in=[world.waiting.pk, world.others.pk]).update(desired="stop")  # no job waits in the queue
    return Role.objects.create(name="research", vc=world.vc)


@pytest.fixture
def framework(world: World, role: Role, api: Api) -> Client:
    """Olivia's framework, which two of gpu01's four GPUs are offered to: the others run a job."""
    client = api(world.owner)
    assert send(client, "POST", FRAMEWORKS, {"role": "research"}).status_code == 201
    run_cycle(world.pool.pk, trigger="command")
    return client


def the_offer(client: Client) -> dict[str, Any]:
    (offer,) = client.get(f"{OFFERS}?wait=0").json()["results"]
    assert isinstance(offer, dict)
    return offer


def act(client: Client, verb: str, offer_id: int, body: Any) -> Any:
    answer = send(client, "POST", f"{OFFERS}/{offer_id}:{verb}", body)
    require_described("POST", f"{OFFERS}/{offer_id}:{verb}", answer)
    return answer


def test_registering_tells_where_the_framework_stands(world: World, role: Role, api: Api) -> None:
    client = api(world.owner)
    answer = send(client, "POST", FRAMEWORKS, {"role": "research"})
    require_described("POST", FRAMEWORKS, answer)
    body = answer.json()
    assert (answer.status_code, body["role"], body["vc"], body["pool"]) == (201, "research", "vision-vc", "main")
    again = send(client, "POST", FRAMEWORKS, {"role": "research", "needs": "image"})
    assert (again.status_code, body["needs"], again.json()) == (200, "any", {**body, "needs": "image"})
    wrong = send(client, "POST", FRAMEWORKS, {"role": "research", "needs": "docker"})
    assert (wrong.status_code, fields_of(wrong)) == (422, ["needs"])
    listed = client.get(FRAMEWORKS)
    require_described("GET", FRAMEWORKS, listed)
    assert listed.json()["results"] == [again.json()]


def test_an_offer_tells_what_is_free_on_its_node(framework: Client) -> None:
    answer = framework.get(OFFERS)
    require_described("GET", OFFERS, answer)
    (offer,) = answer.json()["results"]
    assert (offer["node"], offer["role"], offer["cpus"], offer["revocable"]) == ("gpu01", "research", 62, False)
    assert (offer["runtimes"], offer["starts"]) == ([], [])  # its agent has said nothing of them
    assert [(gpu["uuid"], gpu["index"], gpu["type"]) for gpu in offer["gpus"]] == [
        ("GPU-gpu01-2", 2, "A100"),
        ("GPU-gpu01-3", 3, "A100"),
    ]


def test_an_accepted_offer_is_jobs_like_any_others(framework: Client) -> None:
    offer = the_offer(framework)
    body = {"jobs": [{"spec": {**SPEC, "name": "mine"}, "gpus": ["GPU-gpu01-3"]}]}
    answer = act(framework, "accept", offer["id"], body)
    assert answer.status_code == 201
    (job,) = answer.json()["jobs"]
    assert (job["name"], job["state"], job["vc"]) == ("mine", "active", "vision-vc")
    (attempt,) = framework.get(job["links"]["attempts"]).json()["results"]
    assert attempt["allocations"][0]["gpus"] == ["GPU-gpu01-3"]
    assert framework.get(f"{OFFERS}?wait=0").json()["results"] == []


def test_a_refusal_of_the_law_is_a_conflict_with_the_reason_and_nothing_half_done(
    world: World, framework: Client
) -> None:
    offer = the_offer(framework)
    before = Job.objects.count()
    cordon_node(node=world.node, reason="fans", actor="olga")
    answer = act(framework, "accept", offer["id"], {"jobs": [{"spec": SPEC}]})
    assert answer.status_code == 409
    assert "gpu01 takes no jobs: cordoned: fans" in problem_of(answer)["detail"]
    assert Job.objects.count() == before


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["jobs"]),
        ({"jobs": []}, ["jobs"]),
        ({"jobs": [{"spec": "no"}]}, ["jobs.0.spec"]),
        ({"jobs": [{"spec": {**SPEC, "gpu": 1}}]}, ["jobs.0.spec.gpu"]),
        ({"jobs": [{"spec": SPEC, "gpus": ["GPU-gpu01-0"]}]}, ["jobs.0.gpus"]),
        ({"jobs": [{"spec": SPEC}], "filter": "soon"}, ["filter"]),
    ],
)
def test_a_launch_that_cannot_be_names_its_field(body: Any, fields: list[str], framework: Client) -> None:
    answer = act(framework, "accept", the_offer(framework)["id"], body)
    assert (answer.status_code, fields_of(answer)) == (422, fields)


def test_declining_sets_the_filter_that_was_asked_for(framework: Client) -> None:
    offer = the_offer(framework)
    assert act(framework, "decline", offer["id"], {"filter": "1h"}).status_code == 204
    left_s = (OfferFilter.objects.get().until - Offer.objects.get().made_at).total_seconds()
    assert left_s == pytest.approx(3600, abs=5)


def test_offers_are_their_users_alone(world: World, framework: Client, api: Api) -> None:
    offer = the_offer(framework)
    for user in (world.stranger, world.peer, world.operator):
        client = api(user)
        assert act(client, "accept", offer["id"], {"jobs": [{"spec": SPEC}]}).status_code == 404
        assert act(client, "decline", offer["id"], {}).status_code == 404
        assert client.get(f"{OFFERS}?wait=0").status_code == 404
    assert send(api(world.stranger), "POST", FRAMEWORKS, {"role": "research"}).status_code == 404


def test_leaving_gives_back_what_was_offered(framework: Client) -> None:
    (row,) = framework.get(FRAMEWORKS).json()["results"]
    assert send(framework, "DELETE", f"{FRAMEWORKS}/{row['id']}").status_code == 204
    assert Offer.objects.get().state == "rescinded"


def test_the_figures_count_what_is_offered(framework: Client) -> None:
    text = exposition().decode()
    assert 'muster_offers_standing{role="research"} 1.0' in text
    assert 'muster_gpus_offered{role="research"} 2.0' in text
    assert Gpu.objects.count() == 4
