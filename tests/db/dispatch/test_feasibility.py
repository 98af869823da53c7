"""Jobs that their pool could never run are refused when they are submitted."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from muster.common.errors import Invalid
from muster.dispatch.explain import feasibility
from muster.fleet.models import Node, Pool
from muster.jobs.models import Job
from muster.jobs.services import draft_job, submit_batch
from muster.tenants.models import Quota, Tenant
from scheduler.model.lifecycle import NodeAdmin, NodeHealth
from tests.db.stories import World, cycle, make_world, submit
from tests.factories import make_node, make_tenant, make_user

pytestmark = pytest.mark.django_db


def refusing(**fields: Any) -> World:
    """A world whose tenant does not wait for hardware."""
    world = make_world(**fields)
    Tenant.objects.filter(pk=world.tenant.pk).update(wait_for_hardware=False)
    return world


def refusal(world: World, **spec: Any) -> tuple[str, str]:
    """The field and the message that refuse the job."""
    with pytest.raises(Invalid) as caught:
        submit(world, **spec)
    (error,) = caught.value.errors
    return error.field, error.message


@pytest.mark.parametrize(
    ("spec", "field", "ask"),
    [
        ({"gpus": "A100:8"}, "gpus", "ask for gpus: A100:4, nodes: 2"),
        ({"gpus": 6}, "gpus", "ask for gpus: 3, nodes: 2"),
        ({"gpus": 4, "nodes": 3}, "nodes", "ask for gpus: 4, nodes: 2"),
        ({"gpus": 7}, "gpus", "ask for gpus: 4, nodes: 1"),
        ({"gpus": "H100:1"}, "gpus", "ask for A100"),
        ({"cpus": 100}, "cpus", "ask for fewer CPUs or less memory per node"),
    ],
)
def test_a_job_that_never_fits_is_refused_with_the_nearest_request(spec: dict[str, Any], field: str, ask: str) -> None:
    world = refusing(nodes=2)
    named, message = refusal(world, **spec)
    assert named == field
    assert f"; {ask}. " in message
    assert f"pool {world.pool.name} could never run this job: " in message
    assert not Job.objects.filter(tenant=world.tenant).exists()


def test_more_than_the_quota_is_refused_with_what_the_quota_allows() -> None:
    world = refusing(nodes=3, quota=6)
    field, message = refusal(world, gpus=4, nodes=2)
    assert field == "nodes"
    assert "the quota of" in message
    assert "ask for gpus: 4, nodes: 1" in message


def test_what_fits_an_empty_pool_waits_though_nothing_is_free() -> None:
    world = refusing()
    submit(world, gpus=4)
    cycle(world)
    assert submit(world, gpus=4).state == "queued"


@pytest.mark.parametrize(
    "fields",
    [{"health": NodeHealth.SUSPECT}, {"health": NodeHealth.DOWN}, {"admin": NodeAdmin.CORDONED}],
    ids=["silent", "down", "cordoned"],
)
def test_nodes_that_are_out_of_service_count(fields: dict[str, Any]) -> None:
    world = refusing()
    Node.objects.filter(pool=world.pool).update(**fields)
    assert submit(world, gpus=4).state == "queued"


def test_retired_nodes_do_not_count() -> None:
    world = refusing(nodes=2)
    Node.objects.filter(pk=world.nodes[0].pk).update(admin=NodeAdmin.RETIRED)
    assert refusal(world, gpus=4, nodes=2)[0] == "nodes"


def test_a_pool_refuses_nothing_before_its_first_node_has_told_what_it_has() -> None:
    world = refusing(nodes=0)
    make_node(world.pool, gpus=0, health=NodeHealth.PENDING)
    assert submit(world, gpus=64).state == "queued"


def test_a_tenant_may_wait_for_hardware() -> None:
    world = make_world()
    assert world.tenant.wait_for_hardware
    assert submit(world, gpus=64).state == "queued"


def test_a_refusal_knows_new_nodes_and_quotas_at_once() -> None:
    world = refusing(quota=4)
    refusal(world, gpus=4, nodes=2)
    make_node(world.pool, gpus=4)
    assert "the quota of" in refusal(world, gpus=4, nodes=2)[1]
    Quota.objects.filter(vc=world.vc).update(gpus=8)
    assert submit(world, gpus=4, nodes=2).state == "queued"


def test_a_job_that_fits_costs_no_query_once_the_pool_is_known() -> None:
    world = refusing()
    job = draft_job(user=world.user, data={"command": "true", "gpus": 1, "vc": world.vc.name})
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert feasibility.why_infeasible(job, each_choice=True) is None
    assert len(queries) == 0


def test_a_batch_stores_what_fits_and_names_the_rest() -> None:
    world = refusing()
    items: list[object] = [{"command": "true", "gpus": gpus, "vc": world.vc.name} for gpus in (1, 8)]
    result = submit_batch(user=world.user, items=items)
    assert (len(result.jobs), [index for index, _ in result.errors]) == (1, [1])


def test_a_plug_in_that_fails_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = refusing()
    Pool.objects.filter(pk=world.pool.pk).update(admission="gone")
    assert submit(world, gpus=64).state == "queued"


def test_operators_let_a_tenant_wait_for_hardware(client: Client) -> None:
    client.force_login(make_user(operator=True))
    tenant = make_tenant("vision", weight=1)
    rule = {"screening": "auto", "idle_action": "warn", "idle_below": "5", "idle_for_s": "3600"}
    rows = ("memberships", "quotas", "caps")
    none = {f"{name}-{what}_FORMS": "0" for name in rows for what in ("TOTAL", "INITIAL")}
    data = {"weight": "1", "loaded_version": "1", "wait_for_hardware": "on", **rule, **none}
    assert client.post(reverse("admin:tenants_tenant_change", args=[tenant.pk]), data).status_code == 302
    tenant.refresh_from_db()
    assert tenant.wait_for_hardware
