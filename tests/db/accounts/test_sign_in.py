"""The limits of sign-ins: one rule for the REST API and the admin, with counters in Postgres."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter as Tally
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
import redis
from django.core import mail
from django.db import connection
from django.test import Client
from django.utils import timezone

from muster.accounts import rates, tasks
from muster.accounts.models import KnownAddress, RateLimit, User
from muster.accounts.rates import Counter, Exceeded, Limit
from muster.api import limits
from muster.asgi import application, behind_proxies
from muster.events.models import AuditEntry, Event, Outbox
from tests.factories import PASSWORD, make_user

HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"


@pytest.fixture
def olga(db: None) -> User:
    return make_user("olga", operator=True, password=PASSWORD)


def api(password: str, *, username: str = "olga", address: str = ELSEWHERE) -> Any:
    """The answer of the REST API to a sign-in."""
    body = {"username": username, "password": password}
    return Client(REMOTE_ADDR=address).post("/api/v1/login", body, content_type="application/json")


def admin(password: str, *, username: str = "olga", address: str = ELSEWHERE) -> Any:
    """The answer of the admin to a sign-in."""
    return Client(REMOTE_ADDR=address).post("/admin/login/", {"username": username, "password": password})


DOORS = pytest.mark.parametrize("door", [api, admin])
Door = Callable[..., Any]


def in_words(answer: Any) -> str:
    """The answer to a sign-in in words, at either door."""
    if answer.status_code == 429:
        return "limited"
    signed_in = "sessionid" in answer.cookies
    return "in" if signed_in else "wrong"


def guesses(door: Door, count: int, **options: Any) -> Tally[str]:
    """The number of times that each answer came for `count` wrong passwords."""
    return Tally(in_words(door(f"guess {number}", **options)) for number in range(count))


@DOORS
def test_wrong_passwords_are_limited_and_the_right_one_then_too(door: Door, olga: User) -> None:
    assert guesses(door, 60) == {"wrong": 10, "limited": 50}
    refused = door(PASSWORD)
    assert refused.status_code == 429
    assert 240 < int(refused.headers["Retry-After"]) <= 300
    assert "Too many attempts. Try again in 5 minutes." in refused.content.decode()


def test_both_doors_count_together(olga: User) -> None:
    assert guesses(api, 5) + guesses(admin, 5) == {"wrong": 10}
    assert in_words(api(PASSWORD)) == in_words(admin(PASSWORD)) == "limited"


@DOORS
def test_many_names_from_one_address_are_limited(door: Door, db: None) -> None:
    answers = Tally(in_words(door("guess", username=f"user-{number}")) for number in range(60))
    assert answers == {"wrong": 30, "limited": 30}


@DOORS
def test_guesses_from_elsewhere_do_not_lock_a_user_out_of_a_known_address(door: Door, olga: User) -> None:
    assert in_words(door(PASSWORD, address=HOME)) == "in"
    assert guesses(door, 20)["limited"] == 10
    assert in_words(door(PASSWORD, address=HOME)) == "in"
    assert in_words(door(PASSWORD, address="192.0.2.1")) == "limited"


def test_a_known_address_has_a_limit_of_its_own(olga: User) -> None:
    assert in_words(api(PASSWORD, address=HOME)) == "in"
    assert guesses(api, 20, address=HOME) == {"wrong": 10, "limited": 10}
    assert in_words(api(PASSWORD, address=ELSEWHERE)) == "in"


def test_a_client_is_its_ipv6_network(olga: User) -> None:
    answers = Tally(in_words(api("guess", username=f"user-{n}", address=f"2001:db8::{n:x}")) for n in range(40))
    assert answers == {"wrong": 30, "limited": 10}
    assert in_words(api(PASSWORD, address="2001:db8:0:1::1")) == "in"
    assert KnownAddress.objects.get().address == "2001:db8:0:1::"


def test_right_passwords_cost_nothing(olga: User) -> None:
    assert Tally(in_words(api(PASSWORD)) for _ in range(15)) == {"in": 15}
    assert not RateLimit.objects.filter(drained_at__gt=timezone.now()).exists()


class TestGuessesFromManyAddresses:
    """Spraying: each address and each name is used once."""

    @pytest.fixture
    def sprayed(self, olga: User, settings: Any) -> Client:
        """A browser of the operator that signed in before more guesses fail than all limits together allow."""
        settings.OPERATORS_MAIL = ["ops@example.org"]
        browser = Client(REMOTE_ADDR=HOME)
        body = {"username": "olga", "password": PASSWORD}
        assert browser.post("/api/v1/login", body, content_type="application/json").status_code == 200
        answers = Tally(
            in_words(api("guess", username=f"user-{number}", address=f"10.0.{number}.1")) for number in range(120)
        )
        # The sixth of a minute that this takes gives a few attempts back.
        assert answers["wrong"] + answers["limited"] == 120
        assert 100 <= answers["wrong"] < 115
        return browser

    def test_new_addresses_are_refused_and_known_ones_and_sessions_are_not(self, sprayed: Client) -> None:
        assert sprayed.get("/api/v1/me").status_code == 200
        assert in_words(api(PASSWORD, address=HOME)) == "in"

    def test_operators_are_told_once(self, sprayed: Client) -> None:
        event = Event.objects.get(kind="sign_in.flood")
        assert event.data["failures"] == 100
        assert Outbox.objects.get(topic="mail").payload["to"] == ["ops@example.org"]
        assert mail.outbox == []

    def test_refused_attempts_leave_no_audit_entries(self, sprayed: Client) -> None:
        assert AuditEntry.objects.filter(action="failed_sign_in").count() < 115


def test_the_limits_hold_without_redis(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis.Redis.from_url("unix:///nowhere/valkey.sock") as gone:
        monkeypatch.setattr(limits, "client", lambda: gone)
        assert guesses(api, 20) == {"wrong": 10, "limited": 10}


@pytest.mark.django_db(transaction=True)
def test_attempts_at_the_same_time_are_all_counted() -> None:
    counters = [Counter(Limit("tried", burst=10, every=timedelta(hours=1)), "x")]
    answers: list[bool] = []

    def attempts() -> None:
        for _ in range(5):
            try:
                rates.take(counters)
            except Exceeded:
                answers.append(False)
            else:
                answers.append(True)
        connection.close()

    threads = [threading.Thread(target=attempts) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (answers.count(True), answers.count(False)) == (10, 20)


class TestBehindAProxy:
    """The whole web process, as a client of it on some address sees it."""

    def sign_in(self, password: str, *, peer: str, proxies: list[str], forwarded: str) -> int:
        transport = httpx.ASGITransport(app=behind_proxies(application, proxies), client=(peer, 4321))

        async def story() -> int:
            headers = {"X-Forwarded-For": forwarded}
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
                await http.get("/api/v1/login")
                token = {"X-CSRFToken": http.cookies["csrftoken"]}
                body = {"username": "olga", "password": password}
                return (await http.post("/api/v1/login", json=body, headers=token)).status_code

        return asyncio.run(story())

    @pytest.fixture
    def olga(self, _no_connection_stays: None, transactional_db: None) -> User:
        return make_user("olga", operator=True, password=PASSWORD)

    def test_a_rotated_header_from_loopback_does_not_help(self, olga: User) -> None:
        answers = Tally(
            self.sign_in("guess", peer="127.0.0.1", proxies=[], forwarded=f"10.0.0.{number}") for number in range(15)
        )
        assert answers == {401: 10, 429: 5}
        assert set(AuditEntry.objects.values_list("address", flat=True)) == {"127.0.0.1"}

    def test_other_clients_of_a_trusted_proxy_do_not_lock_a_user_out(self, olga: User) -> None:
        proxy: dict[str, Any] = {"peer": "127.0.0.1", "proxies": ["127.0.0.1"]}
        assert self.sign_in(PASSWORD, **proxy, forwarded=HOME) == 200
        assert Tally(self.sign_in("guess", **proxy, forwarded=ELSEWHERE) for _ in range(12)) == {401: 10, 429: 2}
        assert self.sign_in(PASSWORD, **proxy, forwarded=HOME) == 200


class TestAudit:
    """Sign-ins in the audit log."""

    @DOORS
    def test_it_has_sign_ins_with_their_address(self, door: Door, olga: User) -> None:
        door(PASSWORD, address=HOME)
        row = AuditEntry.objects.get(action="sign_in")
        assert (row.actor, row.object_id, row.address) == ("olga", "olga", HOME)

    @DOORS
    def test_it_has_failures_with_their_address(self, door: Door, olga: User) -> None:
        door("guess")
        row = AuditEntry.objects.get(action="failed_sign_in")
        assert (row.actor, row.object_id, row.address) == ("anonymous", "olga", ELSEWHERE)

    def test_it_has_no_name_that_may_be_a_password(self, olga: User) -> None:
        api("olga", username=PASSWORD)
        assert AuditEntry.objects.get().object_id == "(unknown)"
        assert PASSWORD not in str(RateLimit.objects.values())


def test_a_user_who_is_no_operator_does_not_enter_the_admin(db: None) -> None:
    make_user("ada", password=PASSWORD)
    assert in_words(admin(PASSWORD, username="ada")) == "wrong"
    assert AuditEntry.objects.get().action == "failed_sign_in"


def test_the_periodic_task_removes_what_counts_nothing_any_more(olga: User) -> None:
    api(PASSWORD, address=HOME)
    api("guess")
    long_ago = timezone.now() - timedelta(days=100)
    RateLimit.objects.update(drained_at=long_ago)
    KnownAddress.objects.update(last_used_at=long_ago)
    tasks.forget()
    assert not RateLimit.objects.exists()
    assert not KnownAddress.objects.exists()
