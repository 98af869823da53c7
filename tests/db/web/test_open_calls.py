"""Calls that are open while the access of their callers ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module

import httpx
import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from muster.accounts.models import ApiToken, Session, User
from muster.accounts.services import revoke_token, token_of_secret
from muster.api.access import Access, access_of, accesses_of
from muster.api.authentication import Caller
from muster.api.streaming import access as open_calls
from muster.api.streaming.access import AccessEnded, AccessWatch
from muster.offers.models import Role as OfferRole
from muster.offers.services import register_framework
from muster.tenants.models import Membership
from muster.tenants.roles import Role
from muster.tenants.services import add_member
from tests.db.conftest import client
from tests.db.stories import WAIT_S, World, start
from tests.factories import make_token, make_user
from tests.waiting import stretched

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

AT_ONCE_S = 1.0


def session_of(user: User) -> str:
    """The key of a new session of the user's."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


@pytest.fixture
def by_session(server: str, world: World) -> Iterator[httpx.Client]:
    """A browser in which the user of the world has signed in."""
    cookies = {"sessionid": session_of(world.user), "csrftoken": "x" * 32}
    headers = {"X-CSRFToken": "x" * 32}
    with httpx.Client(base_url=server, timeout=WAIT_S, cookies=cookies, headers=headers, trust_env=False) as http:
        yield http


@pytest.fixture
def operator(db: None) -> Client:
    browser = Client()
    browser.force_login(make_user("olga", operator=True))
    return browser


def seconds_open(http: httpx.Client, paths: list[str], end_access: Callable[[], object]) -> list[float]:
    """Seconds that each of the streams stays open after access has ended."""
    ended_at: dict[str, float] = {}

    def read(path: str, lines: Iterator[str]) -> None:
        for _ in lines:
            pass
        ended_at[path] = time.monotonic()

    with ExitStack() as stack:
        readers = []
        for path in paths:
            lines = stack.enter_context(http.stream("GET", path)).iter_lines()
            next(lines)  # it is open
            readers.append(threading.Thread(target=read, args=(path, lines)))
        for reader in readers:
            reader.start()
        began_at = time.monotonic()
        end_access()
        for reader in readers:
            reader.join(WAIT_S)
    return [ended_at[path] - began_at for path in paths]


@pytest.fixture
def streams(world: World) -> list[str]:
    return ["/api/v1/stream?topics=jobs", f"/api/v1/jobs/{start(world).job_id}/logs?follow=1"]


class TestStreamsEndAtOnce:
    @pytest.fixture(autouse=True)
    def _only_announcements_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(open_calls, "RECHECK_EVERY_S", 600.0)

    def test_when_an_operator_deactivates_the_user(
        self, http: httpx.Client, world: World, operator: Client, streams: list[str]
    ) -> None:
        action = {"action": "deactivate", "_selected_action": [world.user.pk]}
        took = seconds_open(http, streams, lambda: operator.post(reverse("admin:accounts_user_changelist"), action))
        assert max(took) < stretched(AT_ONCE_S)
        assert http.get(streams[0]).status_code == 401

    def test_when_the_token_is_revoked(self, http: httpx.Client, world: World, streams: list[str]) -> None:
        token = ApiToken.objects.get()
        took = seconds_open(http, streams, lambda: revoke_token(user=world.user, token_id=token.pk))
        assert max(took) < stretched(AT_ONCE_S)

    def test_when_the_user_signs_out(self, by_session: httpx.Client, streams: list[str]) -> None:
        took = seconds_open(by_session, streams, lambda: by_session.post("/api/v1/logout", json={}))
        assert max(took) < stretched(AT_ONCE_S)

    def test_when_an_operator_signs_out_of_the_admin(
        self, by_session: httpx.Client, world: World, streams: list[str]
    ) -> None:
        User.objects.filter(pk=world.user.pk).update(is_staff=True)
        form = {"csrfmiddlewaretoken": "x" * 32}
        took = seconds_open(by_session, streams, lambda: by_session.post("/admin/logout/", data=form))
        assert max(took) < stretched(AT_ONCE_S)

    @pytest.mark.parametrize("ended", ["one", "all others"])
    def test_when_the_user_ends_the_session_from_another_browser(
        self, by_session: httpx.Client, world: World, streams: list[str], ended: str
    ) -> None:
        session_id = Session.objects.get().pk
        browser = Client()
        browser.force_login(world.user)
        path = "/api/v1/sessions" if ended == "all others" else f"/api/v1/sessions/{session_id}"
        assert max(seconds_open(by_session, streams, lambda: browser.delete(path))) < stretched(AT_ONCE_S)
        assert by_session.get(streams[0]).status_code == 401

    def test_when_an_operator_sets_another_password(
        self, by_session: httpx.Client, world: World, operator: Client, streams: list[str]
    ) -> None:
        page = reverse("admin:auth_user_password_change", args=[world.user.pk])
        form = {"password1": "another-password-2", "password2": "another-password-2"}
        assert max(seconds_open(by_session, streams, lambda: operator.post(page, form))) < stretched(AT_ONCE_S)

    @pytest.mark.parametrize("role", list(Role))
    def test_when_a_role_is_given(self, http: httpx.Client, world: World, streams: list[str], role: Role) -> None:
        Membership.objects.filter(user=world.user).update(role=next(other for other in Role if other != role))
        took = seconds_open(
            http, streams, lambda: add_member(tenant=world.tenant, user=world.user, role=role, actor="olga")
        )
        assert max(took) < stretched(AT_ONCE_S)
        assert http.get(streams[1].removesuffix("?follow=1")).status_code == 200

    def test_and_not_when_another_users_access_ends(
        self, http: httpx.Client, server: str, world: World, streams: list[str]
    ) -> None:
        other = make_user(tenant=world.tenant)
        with client(server, other) as others, http.stream("GET", streams[1]) as kept:
            lines = kept.iter_lines()
            next(lines)
            token = ApiToken.objects.get(user=other)
            assert seconds_open(others, streams[:1], lambda: revoke_token(user=other, token_id=token.pk))
            assert next(line for line in lines if line.startswith("event:")) == "event: state"


def test_a_stream_ends_within_ten_seconds_without_an_announcement(
    http: httpx.Client, world: World, streams: list[str]
) -> None:
    users = User.objects.filter(pk=world.user.pk)
    assert max(seconds_open(http, streams, lambda: users.update(is_active=False))) < 10


def test_a_long_poll_is_refused_when_the_token_is_revoked(http: httpx.Client, world: World) -> None:
    OfferRole.objects.create(name="research", vc=world.vc)
    register_framework(user=world.user, role_name="research")
    token = ApiToken.objects.get()
    revoking = threading.Timer(0.3, revoke_token, kwargs={"user": world.user, "token_id": token.pk})
    revoking.start()
    began_at = time.monotonic()
    assert http.get("/api/v1/offers?wait=25").status_code == 401
    assert time.monotonic() - began_at < 3


def test_an_upload_is_broken_off_when_the_token_is_revoked(http: httpx.Client, world: World) -> None:
    token = ApiToken.objects.get()

    def body() -> Iterator[bytes]:
        yield b"x" * 1000
        revoke_token(user=world.user, token_id=token.pk)
        for _ in range(250):  # 5 s: a busy machine notices late, and the whole body is sent in any case
            time.sleep(0.02)
            yield b"x"

    answer = http.post("/api/v1/uploads", content=body(), headers={"X-Content-SHA256": "0" * 64})
    assert answer.status_code == 401


class TestTheWatch:
    def test_a_call_is_not_ended_while_the_access_stays_the_same(self, world: World) -> None:
        async def call() -> str:
            watch = AccessWatch()
            async with watch.watched(Caller(world.user, session_key=key), access):
                await watch.recheck()
                await asyncio.sleep(0)
                return "went on"

        key, access = session_of(world.user), access_of(world.user)
        assert asyncio.run(call()) == "went on"

    def test_the_present_access_is_told_where_it_changed(self, world: World) -> None:
        before = Access(is_operator=False, roles=frozenset())

        async def call() -> None:
            watch = AccessWatch()
            async with watch.watched(Caller(world.user, session_key=key), before):
                await watch.recheck()
                await asyncio.sleep(WAIT_S)

        key = session_of(world.user)
        with pytest.raises(AccessEnded) as ended:
            asyncio.run(call())
        assert ended.value.access == access_of(world.user) != before

    def test_a_timeout_of_the_call_itself_is_passed_on(self, world: World) -> None:
        async def call() -> None:
            async with AccessWatch().watched(Caller(world.user), access):
                raise TimeoutError

        access = access_of(world.user)
        with pytest.raises(TimeoutError):
            asyncio.run(call())

    def test_a_thousand_callers_take_three_queries(
        self, world: World, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        users = User.objects.bulk_create(
            User(username=f"u{number}", password="!", uid=1_000_000 + number) for number in range(1000)
        )
        callers = [Caller(user, token=token_of_secret(make_token(user))) for user in users]
        with django_assert_num_queries(3):
            assert set(accesses_of(callers)) == set(callers)
