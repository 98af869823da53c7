"""The form of users in the admin: which uids and gids it takes, and the uid that it gives."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from muster.accounts.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db

NO_TENANTS = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}


@pytest.fixture
def browser(client: Client) -> Client:
    client.force_login(make_user("olga", operator=True))
    return client


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uid": "0"}, "uid 0: it is root&#x27;s"),
        ({"uid": "33"}, "uid 33: numbers below 1000 belong to system accounts"),
        ({"uid": "65534"}, "uid 65534: it is reserved"),
        ({"gids": "[5000, 0]"}, "gid 0: it is root&#x27;s"),
        ({"gids": "[42]"}, "gid 42: numbers below 1000 belong to system accounts"),
        ({"gids": '["x"]'}, "Write a list of group numbers"),
        ({"gids": "{}"}, "Write a list of group numbers"),
    ],
)
def test_the_form_refuses_ids_of_the_system(changes: dict[str, str], message: str, browser: Client) -> None:
    ada = make_user("ada", uid=4321)
    data = {"username": "ada", "is_active": "on", "gids": "[]", "uid": "4321", **NO_TENANTS, **changes}
    page = browser.post(reverse("admin:accounts_user_change", args=[ada.pk]), data)
    assert (page.status_code, message in page.content.decode()) == (200, True)
    ada.refresh_from_db()
    assert (ada.uid, ada.gids) == (4321, [])


def test_the_form_gives_a_new_user_a_uid(browser: Client) -> None:
    secret = "a long and winding road"
    data = {"username": "ada", "uid": "", "password1": secret, "password2": secret, **NO_TENANTS}
    assert browser.post(reverse("admin:accounts_user_add"), data).status_code == 302
    assert User.objects.get(username="ada").uid in settings.UID_RANGE


def test_the_form_refuses_the_uid_of_another_user(browser: Client) -> None:
    make_user("ada", uid=4321)
    secret = "a long and winding road"
    data = {"username": "bob", "uid": "4321", "password1": secret, "password2": secret, **NO_TENANTS}
    page = browser.post(reverse("admin:accounts_user_add"), data)
    assert (page.status_code, "Another user has this uid." in page.content.decode()) == (200, True)


def test_the_form_says_that_no_uid_is_free(browser: Client, settings: Settings) -> None:
    settings.UID_RANGE = range(7000, 7001)
    make_user("ada")
    secret = "a long and winding road"
    data = {"username": "bob", "uid": "", "password1": secret, "password2": secret, **NO_TENANTS}
    page = browser.post(reverse("admin:accounts_user_add"), data)
    assert (page.status_code, "MUSTER_UID_RANGE 7000-7000 is exhausted" in page.content.decode()) == (200, True)
