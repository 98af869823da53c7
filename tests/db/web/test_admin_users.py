"""The admin's pages of users: the tenants that they belong to, and who is turned away."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from muster.accounts.models import User
from muster.events.models import AuditEntry
from muster.tenants.roles import Role
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db

NEW_PASSWORD = "a long and winding road"


@pytest.fixture
def browser(client: Client) -> Client:
    client.force_login(make_user("olga", operator=True))
    return client


def rows(*memberships: dict[str, Any]) -> dict[str, Any]:
    """The fields of a new user's tenants, as the browser sends them."""
    data: dict[str, Any] = {"memberships-TOTAL_FORMS": len(memberships), "memberships-INITIAL_FORMS": 0}
    for index, row in enumerate(memberships):
        data |= {f"memberships-{index}-{name}": value for name, value in row.items()}
    return data


def test_a_user_is_added_with_a_tenant_on_one_page_and_the_password_is_shown_nowhere(browser: Client) -> None:
    tenant = make_tenant("vision")
    data = {"username": "ada", "email": "", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    data |= rows({"tenant": tenant.pk, "role": "manager"})
    answer = browser.post(reverse("admin:accounts_user_add"), data, follow=True)
    assert answer.redirect_chain == [(reverse("admin:accounts_user_changelist"), 302)]
    assert "vision (manager)" in answer.content.decode()
    ada = User.objects.get(username="ada")
    assert ada.memberships.get().role == Role.MANAGER
    assert AuditEntry.objects.get(object_type="membership").actor == "olga"
    page = browser.get(reverse("admin:accounts_user_change", args=[ada.pk])).content.decode()
    assert "Set a new password" in page
    assert "argon2" not in page


def test_a_user_without_a_tenant_is_pointed_out(browser: Client) -> None:
    data = {"username": "ada", "email": "", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    answer = browser.post(reverse("admin:accounts_user_add"), data | rows(), follow=True)
    assert "ada belongs to no tenant, and can submit no jobs" in answer.content.decode()


def test_a_user_who_is_no_operator_is_told_so_in_the_place_of_the_sign_in_form(client: Client) -> None:
    client.force_login(make_user("ada"))
    answer = client.get("/admin/", follow=True)
    text = answer.content.decode()
    assert answer.status_code == 403
    assert "You are signed in as <strong>ada</strong>" in text
    assert 'href="/"' in text
    assert 'type="password"' not in text
