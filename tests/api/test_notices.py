"""Notices and webhooks over REST: one's own only, and a secret once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.events.delivery import WEBHOOK, waiting
from muster.notices.models import Webhook
from muster.notices.webhooks import add_webhook, disable_webhook
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]
SETTINGS = "/api/v1/me/notifications"
WEBHOOKS = "/api/v1/webhooks"
URL = "https://hooks.example.org/T1/B2"


def ask(client: Client, verb: str, path: str, body: Any = None, *, template: str | None = None) -> Any:
    answer = send(client, verb, path, body) if body is not None else send(client, verb, path)
    require_described(verb, template or path, answer)
    return answer


class TestSettings:
    def test_they_are_read_and_changed_in_part(self, world: World, api: Api) -> None:
        client = api(world.owner)
        before = ask(client, "GET", SETTINGS).json()
        assert before["mail"] == ["failed", "advice", "idle", "kept"]
        assert before["webhook"] == [
            "started",
            "ended",
            "failed",
            "preempted",
            "requeued",
            "screening",
            "advice",
            "idle",
            "kept",
        ]
        assert before["weekly_digest"] is False
        assert "E-mail is not set up here" in before["no_mail_because"]
        after = ask(client, "PATCH", SETTINGS, {"mail": ["failed", "ended"], "weekly_digest": True}).json()
        assert after == {**before, "mail": ["ended", "failed"], "weekly_digest": True}
        assert ask(client, "GET", SETTINGS).json() == after

    def test_each_has_their_own(self, world: World, api: Api) -> None:
        ask(api(world.owner), "PATCH", SETTINGS, {"mail": []})
        assert ask(api(world.peer), "GET", SETTINGS).json()["mail"] == ["failed", "advice", "idle", "kept"]

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"mail": ["faild"]}, "mail"),
            ({"webhook": ["failed", "pager"]}, "webhook"),
            ({"mail": "failed"}, "mail"),
            ({"weekly_digest": "sometimes"}, "weekly_digest"),
        ],
    )
    def test_what_cannot_be_is_refused_and_the_field_named(
        self, world: World, api: Api, body: dict[str, Any], field: str
    ) -> None:
        answer = ask(api(world.owner), "PATCH", SETTINGS, body)
        assert answer.status_code == 422
        assert any(name.startswith(field) for name in fields_of(answer))


class TestWebhooks:
    def test_one_is_made_listed_pinged_and_removed(self, world: World, api: Api) -> None:
        client = api(world.owner)
        answer = ask(client, "POST", WEBHOOKS, {"url": URL})
        assert answer.status_code == 201
        made = answer.json()
        assert made.pop("secret").startswith("whsec_")
        assert (made["url"], made["state"], made["last_result"]) == (URL, "working", None)
        assert ask(client, "GET", WEBHOOKS).json() == {"results": [made], "next": None}
        one = f"{WEBHOOKS}/{made['id']}"
        assert ask(client, "GET", one, template=f"{WEBHOOKS}/{{webhook_id}}").json() == made
        pinged = ask(client, "POST", f"{one}:test", {}, template=f"{WEBHOOKS}/{{webhook_id}}:test")
        assert pinged.status_code == 202
        assert waiting().get(topic=WEBHOOK).payload["document"]["type"] == "ping"
        assert ask(client, "DELETE", one, template=f"{WEBHOOKS}/{{webhook_id}}").status_code == 204
        assert not Webhook.objects.exists()
        assert not waiting().exists()

    @pytest.mark.parametrize("part", ["peer", "manager", "stranger", "operator"])
    def test_anothers_looks_as_if_it_were_not_there(self, world: World, api: Api, part: str) -> None:
        webhook, _ = add_webhook(user=world.owner, url=URL)
        client = api(world.user(part))
        assert ask(client, "GET", WEBHOOKS).json()["results"] == []
        for verb, suffix in (("GET", ""), ("DELETE", ""), ("POST", ":test")):
            answer = send(client, verb, f"{WEBHOOKS}/{webhook.pk}{suffix}")
            assert (answer.status_code, problem_of(answer)["detail"]) == (404, f"you have no webhook {webhook.pk}")
        assert Webhook.objects.filter(pk=webhook.pk).exists()

    @pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://2130706433/", "file:///etc/passwd", "x", 3, None, ""])
    def test_a_url_that_leads_inside_or_nowhere_is_refused(self, world: World, api: Api, url: Any) -> None:
        answer = ask(api(world.owner), "POST", WEBHOOKS, {"url": url})
        assert (answer.status_code, fields_of(answer)) == (422, ["url"])

    def test_one_that_an_operator_disabled_says_so_and_is_not_pinged(self, world: World, api: Api) -> None:
        webhook, _ = add_webhook(user=world.owner, url=URL)
        disable_webhook(webhook=webhook, reason="too loud", actor="oscar")
        client = api(world.owner)
        (shown,) = ask(client, "GET", WEBHOOKS).json()["results"]
        assert (shown["state"], shown["reason"]) == ("disabled", "too loud")
        assert send(client, "POST", f"{WEBHOOKS}/{webhook.pk}:test").status_code == 409

    @pytest.mark.parametrize("path", [SETTINGS, WEBHOOKS])
    def test_nobody_reads_them_without_a_token(self, world: World, api: Api, path: str) -> None:
        assert send(api(None), "GET", path).status_code == 401
