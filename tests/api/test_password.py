"""Changing one's own password and mail address, and what ends by it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from muster.accounts.models import ApiToken, User
from muster.events.models import AuditEntry
from tests.api.asking import fields_of, require_described, send
from tests.api.conftest import World
from tests.factories import PASSWORD, make_token, make_user

PATH, NEW = "/api/v1/password", "another battery staple"


@pytest.fixture
def ada(world: World) -> User:
    return make_user("ada", tenant=world.vision, password=PASSWORD)


@pytest.fixture
def browser(ada: User) -> Client:
    browser = Client()
    browser.force_login(ada)
    return browser


def change(client: Client, **changes: Any) -> Any:
    return send(client, "POST", PATH, {"current": PASSWORD, "new": NEW, **changes})


def by_token(secret: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {secret}"})


def test_a_new_password_is_set_and_audited_and_not_told(ada: User, browser: Client) -> None:
    answer = change(browser)
    assert answer.status_code == 204
    require_described("POST", PATH, answer)
    ada.refresh_from_db()
    assert ada.check_password(NEW)
    entry = AuditEntry.objects.get(action="set_password")
    assert (entry.actor, entry.object_id, entry.before, entry.after) == ("ada", "ada", None, None)


def test_the_own_session_goes_on_and_others_end(ada: User, browser: Client) -> None:
    elsewhere = Client()
    elsewhere.force_login(ada)
    change(browser)
    assert browser.get("/api/v1/me").status_code == 200
    assert elsewhere.get("/api/v1/me").status_code == 401


def test_tokens_end_but_for_those_that_survive_it(ada: User, browser: Client) -> None:
    ends = make_token(ada, "ends")
    stays = send(browser, "POST", "/api/v1/tokens", {"name": "stays", "survives_password_change": True}).json()
    others = make_token(make_user())
    change(browser)
    statuses = [by_token(secret).get("/api/v1/me").status_code for secret in (ends, stays["token"], others)]
    assert statuses == [401, 200, 200]
    assert AuditEntry.objects.filter(action="revoke", object_type="token").count() == 1


@pytest.mark.parametrize("survives", [True, False])
def test_an_owner_says_later_whether_a_token_stays(survives: bool, ada: User, browser: Client) -> None:
    made = {"name": "laptop", "survives_password_change": not survives}
    token = send(browser, "POST", "/api/v1/tokens", made).json()
    path = f"/api/v1/tokens/{token['id']}"
    answer = send(browser, "PATCH", path, {"survives_password_change": survives})
    assert (answer.status_code, answer.json()["survives_password_change"]) == (200, survives)
    require_described("PATCH", path, answer)
    entry = AuditEntry.objects.get(action="edit", object_type="token")
    assert entry.before == {"survives_password_change": not survives}
    assert entry.after == {"survives_password_change": survives}
    change(browser)
    assert by_token(token["token"]).get("/api/v1/me").status_code == (200 if survives else 401)


@pytest.mark.parametrize("stays", [True, False])
def test_a_token_keeps_no_token_from_the_change(stays: bool, ada: User, browser: Client) -> None:
    made = {"name": "stolen", "survives_password_change": stays, "scopes": ["submit"]}
    stolen = send(browser, "POST", "/api/v1/tokens", made).json()
    other = send(browser, "POST", "/api/v1/tokens", {"name": "other", "scopes": ["admin"]}).json()
    for token in (stolen, other):
        path = f"/api/v1/tokens/{token['id']}"
        refused = send(by_token(stolen["token"]), "PATCH", path, {"survives_password_change": True})
        assert (refused.status_code, fields_of(refused)) == (422, ["survives_password_change"])
        require_described("PATCH", path, refused)
    change(browser)
    assert by_token(other["token"]).get("/api/v1/me").status_code == 401


def test_a_password_that_an_operator_sets_ends_tokens_too(ada: User, world: World) -> None:
    secret = make_token(ada)
    admin = Client()
    admin.force_login(world.operator)
    page = reverse("admin:auth_user_password_change", args=[ada.pk])
    assert admin.post(page, {"password1": NEW, "password2": NEW}).status_code == 302
    assert by_token(secret).get("/api/v1/me").status_code == 401
    assert AuditEntry.objects.get(action="revoke").actor == world.operator.username


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"current": "wrong"}, "current"),
        ({"current": ""}, "current"),
        ({"new": PASSWORD}, "new"),
        ({"new": "short"}, "new"),
        ({"new": "12345678901234"}, "new"),
        ({"new": None}, "new"),
        ({"newer": NEW}, "newer"),
    ],
)
def test_a_password_that_is_wrong_or_weak_is_refused_by_field(
    changes: dict[str, Any], field: str, ada: User, browser: Client
) -> None:
    answer = change(browser, **changes)
    assert (answer.status_code, fields_of(answer)) == (422, [field])
    ada.refresh_from_db()
    assert ada.check_password(PASSWORD)


def test_guessing_the_current_password_becomes_slow(ada: User, browser: Client) -> None:
    statuses = [change(browser, current=f"guess {number}").status_code for number in range(12)]
    assert set(statuses[:10]) == {422}
    assert statuses[-1] == 429
    assert ApiToken.objects.count() == 0


def test_an_address_is_changed_with_the_password_and_audited(ada: User, browser: Client) -> None:
    answer = send(browser, "PATCH", "/api/v1/me", {"email": "ada@example.org", "current": PASSWORD})
    assert (answer.status_code, answer.json()["email"]) == (200, "ada@example.org")
    require_described("PATCH", "/api/v1/me", answer)
    ada.refresh_from_db()
    assert ada.email == "ada@example.org"
    entry = AuditEntry.objects.get(object_type="user")
    assert (entry.actor, entry.before, entry.after) == ("ada", {"email": ""}, {"email": "ada@example.org"})
    assert send(browser, "PATCH", "/api/v1/me", {"email": "", "current": PASSWORD}).json()["email"] == ""


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"current": "wrong"}, "current"), ({"email": "ada"}, "email"), ({"email": "a@b.org\nBcc: c@d.org"}, "email")],
)
def test_an_address_that_is_none_or_a_wrong_password_is_refused_by_field(
    changes: dict[str, str], field: str, ada: User, browser: Client
) -> None:
    answer = send(browser, "PATCH", "/api/v1/me", {"email": "ada@example.org", "current": PASSWORD, **changes})
    assert (answer.status_code, fields_of(answer)) == (422, [field])
    ada.refresh_from_db()
    assert ada.email == ""
