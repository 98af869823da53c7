"""Tenants' credentials for registries: which jobs get them, and that nothing else shows the password."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from muster.agents.launch import launch_spec
from muster.common.errors import Invalid
from muster.common.sealed import unseal
from muster.events.models import AuditEntry, Event
from muster.fleet.models import Pool
from muster.jobs.models import Allocation, Attempt, Job
from muster.tenants.models import PrivateRegistry, RegistryCredentials, Tenant
from muster.tenants.registries import registry_of, remove_registry, require_registry, store_registry
from nodeagent.protocol.messages import LaunchSpec, RegistryLogin
from nodeagent.runtime.container import images
from tests.factories import make_attempt, make_job, make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db

PASSWORD = "s3cret:of/ada+"


def store(tenant: Tenant, registry: str = "ghcr.io", username: str = "robot") -> RegistryCredentials:
    return store_registry(tenant=tenant, registry=registry, username=username, password=PASSWORD, actor="mary")


def launch_of(tenant: Tenant, image: str) -> LaunchSpec:
    """The agent's launch spec for a job of the tenant in this image."""
    vc = make_vc(tenant)
    job = make_job(vc)
    Job.objects.filter(pk=job.pk).update(
        spec={**job.spec, "image": image, "env": {}, "workdir": "/w", "on_disconnect": "stop"}
    )
    job.refresh_from_db()
    node = make_node(vc.pool)
    attempt = make_attempt(job, [node])
    return launch_spec(node, attempt.allocations.get())


def whole_database() -> str:
    """Every row of every table, as text."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        texts = []
        for name in names:
            cursor.execute(f'SELECT "{name}"::text FROM "{name}"')
            texts += [row[0] for row in cursor.fetchall()]
    return "\n".join(texts)


def test_a_job_gets_its_tenants_login_for_its_images_registry() -> None:
    tenant = make_tenant()
    store(tenant)
    store(tenant, "reg.example.org:5000", "other")
    spec = launch_of(tenant, "ghcr.io/lab/model:1")
    assert spec.ask_registry
    assert spec.registry_login == RegistryLogin("ghcr.io", "robot", PASSWORD)
    spec = launch_of(tenant, "reg.example.org:5000/lab/model")
    assert spec.registry_login == RegistryLogin("reg.example.org:5000", "other", PASSWORD)


def test_an_agent_is_told_what_the_pool_says_of_containers() -> None:
    tenant = make_tenant()
    spec = launch_of(tenant, "busybox")
    assert (spec.gang_network, spec.pool, spec.infiniband) == ("", Pool.objects.get().name, False)
    Pool.objects.update(gang_network="overlay-1", infiniband=True)
    node = make_node(Pool.objects.get())
    attempt = Attempt.objects.get(job_id=spec.job_id)
    Allocation.objects.filter(attempt=attempt).update(node=node)
    spec = launch_spec(node, attempt.allocations.get())
    assert (spec.gang_network, spec.infiniband) == ("overlay-1", True)


def test_another_tenant_has_to_ask_the_registry_without_that_login() -> None:
    store(make_tenant())
    spec = launch_of(make_tenant(), "ghcr.io/lab/model:1")
    assert (spec.ask_registry, spec.registry_login) == (True, None)


def test_a_registry_that_nobody_signs_in_at_is_not_asked_for_what_the_node_has() -> None:
    tenant = make_tenant()
    store(tenant)
    spec = launch_of(tenant, "pytorch/pytorch:2.9")
    assert (spec.ask_registry, spec.registry_login) == (False, None)


def test_when_the_last_credentials_are_gone_the_registry_is_still_asked() -> None:
    tenant = make_tenant()
    remove_registry(credentials=store(tenant), actor="mary")
    spec = launch_of(tenant, "ghcr.io/lab/model:1")
    assert (spec.ask_registry, spec.registry_login) == (True, None)


def test_the_password_is_nowhere_in_the_database() -> None:
    tenant = make_tenant()
    row = store(tenant)
    launch_of(tenant, "ghcr.io/lab/model:1")
    assert PASSWORD not in whole_database()
    assert unseal(row.sealed_password) == PASSWORD


def test_what_is_done_to_credentials_is_audited_without_them() -> None:
    tenant = make_tenant("vision")
    store(tenant)
    remove_registry(credentials=store(tenant, username="robot-2"), actor="olga")
    rows = AuditEntry.objects.filter(object_type="tenant", object_id="vision").order_by("id")
    assert [(row.action, row.actor, row.before, row.after) for row in rows] == [
        ("add_registry", "mary", None, {"registry": "ghcr.io", "username": "robot"}),
        (
            "replace_registry",
            "mary",
            {"registry": "ghcr.io", "username": "robot"},
            {"registry": "ghcr.io", "username": "robot-2"},
        ),
        ("remove_registry", "olga", {"registry": "ghcr.io", "username": "robot-2"}, None),
    ]


def test_credentials_that_no_key_opens_are_told_to_the_job(settings: pytest.FixtureRequest) -> None:
    tenant = make_tenant()
    store(tenant)
    settings.ENCRYPTION_KEYS = ["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]  # type: ignore[attr-defined]
    spec = launch_of(tenant, "ghcr.io/lab/model:1")
    assert (spec.ask_registry, spec.registry_login) == (True, None)
    told = Event.objects.filter(job_id=spec.job_id).order_by("-id").first()
    assert told is not None
    assert "the tenant's credentials for ghcr.io cannot be read" in told.data["text"]


def test_credentials_are_encrypted_anew(settings: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    row = store(make_tenant())
    old = settings.ENCRYPTION_KEYS  # type: ignore[attr-defined]
    new = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    settings.ENCRYPTION_KEYS = [new, *old]  # type: ignore[attr-defined]
    call_command("reencrypt")
    assert capsys.readouterr().out.startswith("1 secrets are encrypted by the first key.")
    settings.ENCRYPTION_KEYS = [new]  # type: ignore[attr-defined]
    row.refresh_from_db()
    assert unseal(row.sealed_password) == PASSWORD


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"registry": ""}, "registry"),
        ({"registry": "https://ghcr.io"}, "registry"),
        ({"registry": "ghcr.io/lab"}, "registry"),
        ({"registry": "ghcr"}, "registry"),
        ({"registry": "ghcr.io:0"}, "registry"),
        ({"registry": "ghcr.io:70000"}, "registry"),
        ({"registry": "-x.io"}, "registry"),
        ({"registry": "a b.io"}, "registry"),
        ({"username": ""}, "username"),
        ({"username": "a:b"}, "username"),
        ({"username": "a\nb"}, "username"),
        ({"password": ""}, "password"),
        ({"password": " \n"}, "password"),
        ({"password": "a\0b"}, "password"),
        ({"password": "x" * 20_000}, "password"),
    ],
)
def test_credentials_that_no_registry_could_take_are_refused_by_name(fields: dict[str, str], field: str) -> None:
    values = {"registry": "ghcr.io", "username": "robot", "password": PASSWORD, **fields}
    with pytest.raises(Invalid) as caught:
        store_registry(tenant=make_tenant(), actor="mary", **values)
    assert [error.field for error in caught.value.errors] == [field]
    assert not RegistryCredentials.objects.exists()
    assert values["password"] == "" or values["password"] not in caught.value.detail


@pytest.mark.parametrize("text", [" GHCR.io ", "ghcr.io"])
def test_a_registry_is_stored_as_images_name_it(text: str) -> None:
    assert require_registry(text) == "ghcr.io"
    assert require_registry("index.docker.io") == "docker.io"


@pytest.mark.parametrize(
    "image",
    [
        *("a", "a:1", "a/b", "A/b", "a.b/c", "a:5/b", "localhost/a", "localhost:5/a", "index.docker.io/a/b"),
        *("GHCR.IO/a", "x@sha256:" + "0" * 64, "docker.io/library/a", "registry-1.docker.io/a"),
    ],
)
def test_platform_and_agent_read_the_same_registry_from_an_image(image: str) -> None:
    assert registry_of(image) == images.registry_of(image)


def test_in_the_admin_a_password_goes_in_and_never_comes_out(client: Client) -> None:
    client.force_login(make_user("olga", operator=True))
    tenant = make_tenant("vision")
    add = reverse("admin:tenants_registrycredentials_add")
    data = {"tenant": tenant.pk, "host": "GHCR.io", "username": "robot", "password": PASSWORD}
    assert client.post(add, data).status_code == 302
    row = RegistryCredentials.objects.get()
    assert (row.registry_id, unseal(row.sealed_password), row.changed_by) == ("ghcr.io", PASSWORD, "olga")
    page = reverse("admin:tenants_registrycredentials_change", args=[row.pk])
    shown = client.get(page).content.decode()
    assert "ghcr.io" in shown
    assert PASSWORD not in shown
    assert row.sealed_password not in shown
    refused = client.post(page, {"username": "a:b", "password": PASSWORD})
    assert refused.status_code == 200
    assert PASSWORD not in refused.content.decode()
    assert client.post(page, {"username": "robot-2", "password": "new"}).status_code == 302
    row.refresh_from_db()
    assert (row.username, unseal(row.sealed_password)) == ("robot-2", "new")
    assert (
        client.post(reverse("admin:tenants_registrycredentials_delete", args=[row.pk]), {"post": "yes"}).status_code
        == 302
    )
    assert not RegistryCredentials.objects.exists()
    assert PrivateRegistry.objects.filter(pk="ghcr.io").exists()
    actions = AuditEntry.objects.filter(object_id="vision").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["add_registry", "replace_registry", "remove_registry"]
