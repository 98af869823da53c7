"""A tenant's credentials for registries: its managers store and remove them, and no answer holds a password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.common.sealed import unseal
from muster.tenants.models import Membership, RegistryCredentials
from muster.tenants.roles import Role
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]
PATH = "/api/v1/registries"
BODY = {"registry": "ghcr.io", "username": "robot", "password": "s3cret of the lab"}


def store(client: Client, **changes: Any) -> Any:
    answer = send(client, "POST", PATH, {**BODY, **changes})
    require_described("POST", PATH, answer)
    return answer


def test_a_manager_stores_replaces_and_removes_credentials(world: World, api: Api) -> None:
    client = api(world.manager)
    answer = store(client)
    assert answer.status_code == 200
    assert BODY["password"] not in answer.content.decode()
    row = RegistryCredentials.objects.get()
    stored = answer.json()
    assert stored == {
        "id": row.pk,
        "tenant": "vision",
        "registry": "ghcr.io",
        "username": "robot",
        "changed_at": stored["changed_at"],
        "changed_by": "mary",
    }
    assert store(client, password="  another one ").json()["id"] == row.pk
    row.refresh_from_db()
    assert unseal(row.sealed_password) == "  another one "
    listed = client.get(PATH)
    require_described("GET", PATH, listed)
    assert [one["id"] for one in listed.json()["results"]] == [row.pk]
    assert "another" not in listed.content.decode()
    removed = send(client, "DELETE", f"{PATH}/{row.pk}")
    require_described("DELETE", f"{PATH}/{row.pk}", removed)
    assert removed.status_code == 204
    assert client.get(PATH).json()["results"] == []


def test_members_and_strangers_neither_see_nor_touch_them(world: World, api: Api) -> None:
    number = store(api(world.manager)).json()["id"]
    Membership.objects.filter(user=world.stranger).update(role=Role.MANAGER)
    for user, status in ((world.owner, 403), (world.stranger, 404)):
        client = api(user)
        assert client.get(PATH).json()["results"] == []
        assert problem_of(store(client, tenant="vision"))["status"] == status
        assert problem_of(send(client, "DELETE", f"{PATH}/{number}"))["status"] == 404
    assert RegistryCredentials.objects.get().username == "robot"


def test_an_operator_names_the_tenant(world: World, api: Api) -> None:
    assert fields_of(store(api(world.operator))) == ["tenant"]
    assert store(api(world.operator), tenant="speech").json()["tenant"] == "speech"
    assert problem_of(store(api(world.operator), tenant="none"))["status"] == 404


def test_who_manages_several_tenants_has_to_say_which(world: World, api: Api) -> None:
    Membership.objects.create(tenant=world.speech, user=world.manager, role=Role.MANAGER)
    refused = store(api(world.manager))
    assert fields_of(refused) == ["tenant"]
    assert "speech, vision" in problem_of(refused)["detail"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"registry": "https://ghcr.io"}, "registry"),
        ({"username": "a:b"}, "username"),
        ({"password": ""}, "password"),
        ({"password": "x" * 20_000}, "password"),
        ({"registry": None}, "registry"),
    ],
)
def test_a_wrong_field_is_named_and_the_password_is_not_repeated(
    changes: dict[str, Any], field: str, world: World, api: Api
) -> None:
    answer = store(api(world.manager), **changes)
    assert fields_of(answer) == [field]
    password = str(changes.get("password", BODY["password"]))
    assert not password or password not in answer.content.decode()
