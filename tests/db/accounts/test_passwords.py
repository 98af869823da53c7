"""Refused passwords, at each place where one is set."""

from __future__ import annotations

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.accounts.services import create_user
from muster.common.errors import Invalid
from tests.factories import make_user

LIKE_THE_NAME = "christopherson1"

pytestmark = pytest.mark.django_db


def test_a_new_user_does_not_get_a_password_like_the_name() -> None:
    with pytest.raises(Invalid, match="too similar to the username"):
        create_user(username="christopherson", password=LIKE_THE_NAME, actor="test")


def test_an_operator_cannot_set_one_in_the_admin(client: Client) -> None:
    client.force_login(make_user("olga", operator=True))
    passwords = {"usable_password": "true", "password1": LIKE_THE_NAME, "password2": LIKE_THE_NAME}
    page = client.post("/admin/accounts/user/add/", {"username": "christopherson", **passwords})
    assert "too similar to the username" in page.content.decode()
    assert not User.objects.filter(username="christopherson").exists()
    user = make_user("christopherson")
    page = client.post(f"/admin/accounts/user/{user.pk}/password/", passwords)
    assert "too similar to the username" in page.content.decode()
