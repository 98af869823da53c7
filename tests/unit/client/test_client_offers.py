"""The SDK's calls and answers about offers."""

from __future__ import annotations

import json

import httpx
import pytest

from muster_client.client import Client
from muster_client.errors import ApiError, UnreachableError
from tests.unit.client.fake_server import URL, FakeServer, job, problem

GONE = httpx.ReadError("connection reset")


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def client(server: FakeServer) -> Client:
    return Client(URL, "mst_x", transport=server.transport, backoff=server.backoff)


def test_registering_leaving_and_declining_are_sent_again_when_the_answer_got_lost(
    server: FakeServer, client: Client
) -> None:
    server.on("POST /frameworks", GONE, httpx.Response(200, json={"id": 3}))
    server.on("DELETE /frameworks/3", GONE, httpx.Response(204))
    server.on("POST /offers/7:decline", GONE, httpx.Response(204))
    assert client.register_framework("research", needs="image")["id"] == 3
    bodies = [json.loads(request.content) for request in server.sent("POST /frameworks")]
    assert bodies == [{"role": "research", "needs": "image"}] * 2
    client.leave(3)
    client.decline_offer(7, filter="1m")
    assert [json.loads(request.content) for request in server.sent("POST /offers/7:decline")] == [{"filter": "1m"}] * 2


def test_an_accept_whose_answer_got_lost_is_not_sent_again(server: FakeServer, client: Client) -> None:
    """The second would be told that the offer was accepted, and with which jobs: that is for the framework to read."""
    server.on("POST /offers/7:accept", GONE)
    with pytest.raises(UnreachableError, match="may have been carried out"):
        client.accept_offer(7, [{"spec": {"command": "true"}}])
    assert len(server.requests) == 1


def test_offers_are_waited_for_and_answered(server: FakeServer, client: Client) -> None:
    server.on("GET /offers", httpx.Response(200, json={"results": [{"id": 7}], "next": None}))
    server.on("POST /offers/7:accept", httpx.Response(201, json={"jobs": [job()]}), problem(409, "Over"))
    assert [offer["id"] for offer in client.offers(wait_s=5, after=6)] == [7]
    assert server.sent("GET /offers")[0].url.query == b"wait=5&after=6"
    assert [one["id"] for one in client.accept_offer(7, [{"spec": {"command": "true"}, "gpus": ["GPU-1"]}])] == [7]
    with pytest.raises(ApiError):
        client.accept_offer(7, [{"spec": {"command": "true"}}])
