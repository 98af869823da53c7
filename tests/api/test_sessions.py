"""A user's own browser sessions, listed and ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts.models import Session, User
from muster.accounts.scopes import Scope
from muster.events.models import AuditEntry
from tests.api.asking import problem_of, require_described, send
from tests.api.conftest import World
from tests.factories import PASSWORD, make_token, make_user

PATH, AGENT = "/api/v1/sessions", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"


@pytest.fixture
def ada(world: World) -> User:
    return make_user("ada", tenant=world.vision, password=PASSWORD)


def sign_in(username: str = "ada", address: str = "198.51.100.7") -> Client:
    browser = Client(REMOTE_ADDR=address, headers={"User-Agent": AGENT})
    assert send(browser, "POST", "/api/v1/login", {"username": username, "password": PASSWORD}).status_code == 200
    return browser


def by_token(user: User, *scopes: Scope) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_token(user, scopes=scopes or Scope)}"})


def listed(browser: Client) -> list[dict[str, Any]]:
    answer = browser.get(PATH)
    require_described("GET", PATH, answer)
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def current_id(browser: Client) -> int:
    return next(int(session["id"]) for session in listed(browser) if session["current"])


def is_signed_in(browser: Client) -> bool:
    return browser.get("/api/v1/me").status_code == 200


def test_own_sessions_are_listed_with_where_they_began(ada: User) -> None:
    elsewhere, browser = sign_in(address="2001:db8::1"), sign_in()
    sessions = listed(browser)
    assert [(one["address"], one["user_agent"], one["current"]) for one in sessions] == [
        ("198.51.100.7", AGENT, True),
        ("2001:db8::1", AGENT, False),
    ]
    assert [one["current"] for one in listed(elsewhere)] == [False, True]
    assert [one["current"] for one in listed(by_token(ada))] == [False, False]


def test_the_list_has_nothing_of_the_keys(ada: User) -> None:
    browser = sign_in()
    text, row = browser.get(PATH).content.decode(), Session.objects.get()
    assert browser.cookies["sessionid"].value not in text
    assert row.key_digest not in text


def test_other_users_sessions_are_neither_listed_nor_ended(ada: User) -> None:
    make_user("eve", password=PASSWORD)
    browser, other = sign_in(), sign_in("eve")
    path = f"{PATH}/{current_id(browser)}"
    assert len(listed(other)) == 1
    refused = send(other, "DELETE", path)
    assert (refused.status_code, problem_of(refused)["type"]) == (404, "about:blank#not-found")
    require_described("DELETE", path, refused)
    assert send(other, "DELETE", PATH).status_code == 204
    assert is_signed_in(browser)


@pytest.mark.parametrize("ended_by", ["expiry", "idleness", "a new password"])
def test_sessions_that_have_ended_are_not_listed(ended_by: str, ada: User, settings: Any) -> None:
    ended, browser = sign_in(), sign_in()
    row = Session.objects.filter(pk=current_id(ended))
    if ended_by == "expiry":
        row.update(expires_at=timezone.now())
    elif ended_by == "idleness":
        row.update(last_used_at=timezone.now() - settings.SESSION_IDLE - timedelta(seconds=1))
    else:
        send(browser, "POST", "/api/v1/password", {"current": PASSWORD, "new": "another battery staple"})
    assert [one["current"] for one in listed(browser)] == [True]


def test_one_session_is_ended_and_audited(ada: User) -> None:
    browser, lost, third = sign_in(), sign_in(), sign_in()
    session_id = current_id(lost)
    answer = send(browser, "DELETE", f"{PATH}/{session_id}")
    assert answer.status_code == 204
    require_described("DELETE", f"{PATH}/{session_id}", answer)
    assert [is_signed_in(one) for one in (browser, lost, third)] == [True, False, True]
    entry = AuditEntry.objects.get(action="end", object_type="session")
    assert (entry.actor, entry.object_id, entry.address) == ("ada", str(session_id), "198.51.100.7")
    assert send(browser, "DELETE", f"{PATH}/{session_id}").status_code == 404


def test_the_current_session_can_be_ended_too(ada: User) -> None:
    browser = sign_in()
    assert send(browser, "DELETE", f"{PATH}/{current_id(browser)}").status_code == 204
    assert not is_signed_in(browser)


def test_all_other_sessions_are_ended_together(ada: User) -> None:
    browser, second, third = sign_in(), sign_in(), sign_in()
    answer = send(browser, "DELETE", PATH)
    assert answer.status_code == 204
    require_described("DELETE", PATH, answer)
    assert [is_signed_in(one) for one in (browser, second, third)] == [True, False, False]


def test_a_token_ends_all_sessions_and_needs_manage(ada: User) -> None:
    browser = sign_in()
    for path in (PATH, f"{PATH}/{current_id(browser)}"):
        assert send(by_token(ada, Scope.SUBMIT), "DELETE", path).status_code == 403
    assert is_signed_in(browser)
    assert send(by_token(ada, Scope.MANAGE), "DELETE", PATH).status_code == 204
    assert not is_signed_in(browser)


def test_a_session_ends_sessions_only_with_the_csrf_token(ada: User) -> None:
    browser = sign_in()
    browser.handler.enforce_csrf_checks = True
    for path in (PATH, f"{PATH}/{current_id(browser)}"):
        assert send(browser, "DELETE", path).status_code == 403
    assert is_signed_in(browser)
