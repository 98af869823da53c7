"""Browser sessions: what the table holds, and when they end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from muster.accounts import tasks
from muster.accounts.models import Session, User
from muster.accounts.selectors import live_sessions
from muster.accounts.sessions import SessionStore
from muster.common.secrets import digest
from tests.factories import PASSWORD, make_user

AGENT = "Mozilla/5.0 (X11; Linux x86_64)"


@pytest.fixture
def olga(db: None) -> User:
    return make_user("olga", operator=True, password=PASSWORD)


def by_api(browser: Client) -> None:
    body = {"username": "olga", "password": PASSWORD}
    assert browser.post("/api/v1/login", body, content_type="application/json").status_code == 200


def by_admin(browser: Client) -> None:
    assert browser.post("/admin/login/", {"username": "olga", "password": PASSWORD}).status_code == 302


@pytest.fixture
def browser(olga: User) -> Client:
    browser = Client(REMOTE_ADDR="198.51.100.7", headers={"User-Agent": AGENT})
    by_api(browser)
    return browser


@pytest.mark.parametrize("sign_in", [by_api, by_admin])
def test_the_row_says_whose_it_is_and_where_it_began(sign_in: Any, olga: User) -> None:
    browser = Client(REMOTE_ADDR="198.51.100.7", headers={"User-Agent": AGENT})
    sign_in(browser)
    row = Session.objects.get()
    assert (row.user, row.address, row.user_agent) == (olga, "198.51.100.7", AGENT)


def test_the_key_is_nowhere_in_the_table(browser: Client) -> None:
    key = browser.cookies["sessionid"].value
    assert key not in str(Session.objects.values())
    assert Session.objects.get().key_digest == digest(key)


def test_what_the_table_holds_is_no_key(browser: Client) -> None:
    thief = Client()
    thief.cookies["sessionid"] = Session.objects.get().key_digest
    assert thief.get("/api/v1/me").status_code == 401


def test_an_unused_session_ends(browser: Client, settings: Any) -> None:
    Session.objects.update(last_used_at=timezone.now() - settings.SESSION_IDLE + timedelta(minutes=5))
    assert browser.get("/api/v1/me").status_code == 200
    assert timezone.now() - Session.objects.get().last_used_at < timedelta(minutes=1)
    Session.objects.update(last_used_at=timezone.now() - settings.SESSION_IDLE)
    assert browser.get("/api/v1/me").status_code == 401


def test_a_used_session_ends_too(browser: Client) -> None:
    Session.objects.update(expires_at=timezone.now())
    assert browser.get("/api/v1/me").status_code == 401


def test_its_use_is_written_once_a_minute(browser: Client) -> None:
    before = Session.objects.get().last_used_at
    browser.get("/api/v1/me")
    assert Session.objects.get().last_used_at == before


def test_a_session_that_was_ended_does_not_come_back(browser: Client) -> None:
    store = SessionStore(browser.cookies["sessionid"].value)
    store["seen"] = True
    Session.objects.all().delete()
    assert browser.get("/api/v1/me").status_code == 401
    assert not Session.objects.exists()


def test_signing_in_replaces_a_key_that_somebody_else_may_know(olga: User) -> None:
    planted = SessionStore()
    planted.create()
    browser = Client()
    browser.cookies["sessionid"] = str(planted.session_key)
    by_api(browser)
    assert browser.cookies["sessionid"].value != planted.session_key
    assert Session.objects.get().user == olga


def test_to_look_whether_a_session_is_alive_is_no_use_of_it(browser: Client, settings: Any) -> None:
    key = browser.cookies["sessionid"].value
    used_at = timezone.now() - settings.SESSION_IDLE + timedelta(minutes=5)
    Session.objects.update(last_used_at=used_at)
    assert live_sessions([key, "another"]) == {key}
    assert Session.objects.get().last_used_at == used_at
    Session.objects.update(last_used_at=timezone.now() - settings.SESSION_IDLE)
    assert live_sessions([key]) == set()


def test_the_periodic_task_removes_ended_sessions(browser: Client, settings: Any) -> None:
    by_api(Client())
    by_api(Client())
    expired, idle, live = Session.objects.order_by("pk")
    Session.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    Session.objects.filter(pk=idle.pk).update(last_used_at=timezone.now() - settings.SESSION_IDLE)
    tasks.forget()
    assert Session.objects.get() == live
