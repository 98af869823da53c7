"""Signing in and out, and tokens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from muster.accounts.models import ApiToken, User
from muster.accounts.sessions import SessionStore
from muster.api.authentication import Caller, authenticate_request
from muster.common.secrets import digest
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import PASSWORD, make_token, make_user

Api = Callable[[User | None], Client]
LOGIN, TOKENS = "/api/v1/login", "/api/v1/tokens"


@pytest.fixture
def ada(world: World) -> User:
    return make_user("ada", tenant=world.vision, password=PASSWORD)


@pytest.fixture
def browser() -> Client:
    """A browser that has opened the page for signing in, and whose writes are checked as a browser's are."""
    browser = Client(enforce_csrf_checks=True)
    assert browser.get(LOGIN).status_code == 204
    return browser


def post(browser: Client, path: str, body: Any) -> Any:
    return send(browser, "POST", path, body, X_CSRFToken=browser.cookies["csrftoken"].value)


def sign_in(browser: Client, **changes: Any) -> Any:
    return post(browser, LOGIN, {"username": "ada", "password": PASSWORD, **changes})


def test_a_session_begins_and_ends(ada: User, browser: Client) -> None:
    answer = sign_in(browser)
    assert answer.status_code == 200
    require_described("POST", LOGIN, answer)
    assert answer.json() == {
        "username": "ada",
        "email": "",
        "is_operator": False,
        "tenants": [{"name": "vision", "role": "member"}],
        "vcs": ["vision-vc"],
        "default_vc": "vision-vc",
    }
    assert browser.get("/api/v1/me").json() == answer.json()
    assert post(browser, "/api/v1/logout", None).status_code == 204
    assert browser.get("/api/v1/me").status_code == 401


def test_the_session_cookie_is_hidden_from_scripts(ada: User, browser: Client) -> None:
    sign_in(browser)
    cookie = browser.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"password": "wrong"}, 401),
        ({"username": "unknown"}, 401),
        ({"username": ""}, 422),
        ({"password": None}, 422),
        ({"username": "a\u0000"}, 400),
        ({"username": ["ada"]}, 422),
        ({"password": "x" * 5000}, 422),
    ],
)
def test_wrong_credentials_begin_no_session(changes: dict[str, Any], status: int, ada: User, browser: Client) -> None:
    answer = sign_in(browser, **changes)
    assert answer.status_code == status
    require_described("POST", LOGIN, answer)
    assert "sessionid" not in browser.cookies


def test_an_inactive_user_cannot_sign_in(ada: User, browser: Client) -> None:
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert sign_in(browser).status_code == 401


def test_signing_in_without_the_csrf_token_is_refused(ada: User) -> None:
    answer = send(Client(enforce_csrf_checks=True), "POST", LOGIN, {"username": "ada", "password": PASSWORD})
    assert answer.status_code == 403
    require_described("POST", LOGIN, answer)


def test_a_write_of_a_session_without_the_csrf_token_is_refused(ada: User, browser: Client) -> None:
    sign_in(browser)
    refused = send(browser, "POST", TOKENS, {"name": "evil"})
    assert refused.status_code == 403
    assert "CSRF" in problem_of(refused)["detail"]
    assert not ApiToken.objects.exists()
    assert post(browser, TOKENS, {"name": "good"}).status_code == 201


def test_another_kind_of_authorization_does_not_replace_the_csrf_token(ada: User, browser: Client) -> None:
    sign_in(browser)
    refused = send(browser, "POST", TOKENS, {"name": "evil"}, Authorization="Basic YWRhOng=")
    assert refused.status_code == 403
    assert not ApiToken.objects.exists()


def test_an_excess_of_wrong_passwords_is_refused_with_the_time_to_wait(ada: User, browser: Client) -> None:
    statuses = [sign_in(browser, password=f"guess {number}").status_code for number in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    answer = sign_in(browser)
    assert answer.status_code == 429
    require_described("POST", LOGIN, answer)
    assert problem_of(answer)["detail"] == "Too many attempts. Try again in 5 minutes."
    assert 240 < int(answer.headers["Retry-After"]) <= 300


def test_signing_in_often_is_no_guessing(ada: User, browser: Client) -> None:
    assert [sign_in(browser).status_code for _ in range(12)] == [200] * 12


def test_a_token_is_shown_once_and_stored_as_a_digest(world: World, client: Client) -> None:
    client.force_login(world.owner)
    answer = send(client, "POST", TOKENS, {"name": "laptop", "expires_in": "30d"})
    assert answer.status_code == 201
    require_described("POST", TOKENS, answer)
    secret = answer.json()["token"]
    row = ApiToken.objects.get(name="laptop")
    assert row.digest == digest(secret)
    assert secret not in str(ApiToken.objects.values())
    expires_at = parse_datetime(answer.json()["expires_at"])
    assert expires_at is not None
    assert abs(expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    listed = client.get(TOKENS)
    require_described("GET", TOKENS, listed)
    assert secret not in listed.content.decode()
    assert row.digest not in listed.content.decode()
    assert Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/me").json()["username"] == "olivia"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "../../x"}, "name"),
        ({"name": "x", "expires_in": "soon"}, "expires_in"),
        ({"name": "x", "expires_in": "0s"}, "expires_in"),
        ({"name": "x", "expires_in": "400d"}, "expires_in"),
        ({"name": "x", "expires_in": "999999999w"}, "expires_in"),
        ({"name": "x", "expires_in": 7}, "expires_in"),
    ],
)
def test_a_token_of_the_wrong_kind_is_refused_by_field(
    body: dict[str, Any], field: str, world: World, api: Api
) -> None:
    answer = send(api(world.owner), "POST", TOKENS, body)
    assert answer.status_code == 422
    require_described("POST", TOKENS, answer)
    assert fields_of(answer) == [field]


def test_a_name_is_taken_until_its_token_is_revoked(world: World, api: Api) -> None:
    client = api(world.owner)
    first = send(client, "POST", TOKENS, {"name": "laptop"}).json()
    taken = send(client, "POST", TOKENS, {"name": "laptop"})
    assert taken.status_code == 409
    require_described("POST", TOKENS, taken)
    assert send(client, "DELETE", f"{TOKENS}/{first['id']}").status_code == 204
    assert send(client, "POST", TOKENS, {"name": "laptop"}).status_code == 201


def test_a_revoked_token_and_an_expired_one_are_refused(world: World, api: Api) -> None:
    client = api(world.owner)
    token_id = client.get(TOKENS).json()["results"][0]["id"]
    assert send(client, "DELETE", f"{TOKENS}/{token_id}").status_code == 204
    assert client.get("/api/v1/me").status_code == 401
    expired = make_token(world.owner, expired=True)
    assert Client(headers={"Authorization": f"Bearer {expired}"}).get("/api/v1/me").status_code == 401


def test_the_use_of_a_token_is_noted(world: World, api: Api) -> None:
    client = api(world.owner)
    assert client.get(TOKENS).json()["results"][0]["last_used_at"] is not None


def user_of(caller: Caller | None) -> User | None:
    return caller.user if caller else None


class TestOutsideDjangosViews:
    """The function by which the streams learn who is there."""

    def test_a_token_comes_before_the_session(self, world: World) -> None:
        secret = make_token(world.peer)
        session = self.session_of(world.owner)
        assert user_of(authenticate_request(authorization=f"Bearer {secret}", session_key=session)) == world.peer
        assert authenticate_request(authorization="Bearer wrong", session_key=session) is None
        assert user_of(authenticate_request(authorization=None, session_key=session)) == world.owner

    @pytest.mark.parametrize("key", [None, "", "nothing", "x" * 500])
    def test_an_unknown_session_is_nobody(self, key: str | None, world: World) -> None:
        assert authenticate_request(authorization=None, session_key=key) is None

    def test_a_session_ends_with_the_password_and_with_the_user(self, world: World) -> None:
        session = self.session_of(world.owner)
        User.objects.filter(pk=world.owner.pk).update(is_active=False)
        assert authenticate_request(authorization=None, session_key=session) is None
        User.objects.filter(pk=world.owner.pk).update(is_active=True, password="!another")
        assert authenticate_request(authorization=None, session_key=session) is None

    def session_of(self, user: User) -> str:
        client = Client()
        client.force_login(user)
        key = client.session.session_key
        assert key is not None
        assert SessionStore(key).exists(key)
        return key
