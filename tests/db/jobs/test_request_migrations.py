"""Jobs of before have what they ask for in columns: the migrations make requests of these, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from muster.jobs.models import Job
from scheduler.model.lifecycle import Locality, RuntimeNeed
from scheduler.model.request import Choice, Request
from tests.factories import make_user, make_vc

pytestmark = pytest.mark.django_db

BEFORE = [("jobs", "0027_retried_because")]


def migrate(target: list[tuple[str, str]]) -> Any:
    """The models as they were at the target, to which the database has been moved."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    executor = MigrationExecutor(connection)
    state = executor.migrate(target)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    return state.apps


@pytest.fixture
def before() -> Iterator[Any]:
    """The models of before; the test's transaction takes all of it back."""
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes("jobs")
    yield migrate(BEFORE)
    migrate(newest)


def now() -> None:
    migrate(MigrationExecutor(connection).loader.graph.leaf_nodes("jobs"))


def stored_before(models: Any, **fields: Any) -> int:
    vc = make_vc()
    owner = make_user(tenant=vc.tenant)
    spec = {"name": "train", "vc": vc.name, "gpus": 1, "command": "true", "retry": {"max": 3, "on": []}}
    asked = {"gpus": 1, "cpus": 4, "memory_mib": 1024, "name": "train", "spec": spec}
    ids = {"tenant_id": vc.tenant_id, "vc_id": vc.pk, "pool_id": vc.pool_id, "owner_id": owner.pk}
    row = models.get_model("jobs", "Job").objects.create(**ids, **asked | fields)
    return int(row.pk)


@pytest.mark.parametrize(
    ("fields", "request_"),
    [
        ({}, Request((Choice(None, 1, 4, 1024),))),
        ({"gpu_type": "A100", "gpus": 8, "nodes": 2}, Request((Choice("A100", 8, 4, 1024),), nodes=2)),
        ({"gpu_type": "A100", "gpus": 0}, Request((Choice(None, 0, 4, 1024),))),
        (
            {"packs": True, "gpu_memory_mib": 500, "locality": "rack", "form": "image"},
            Request(
                (Choice(None, 1, 4, 1024),),
                locality=Locality.RACK,
                shares_gpu=True,
                gpu_memory_mib=500,
                runtime=RuntimeNeed.IMAGE,
            ),
        ),
    ],
)
def test_a_job_of_before_asks_for_what_its_columns_said(before: Any, fields: dict[str, Any], request_: Request) -> None:
    job_id = stored_before(before, **fields)
    now()
    job = Job.objects.get(pk=job_id)
    assert job.request == request_
    assert (job.gpus, job.nodes) == (request_.first.gpus, request_.nodes)
    assert job.gpu_type == (request_.first.gpu_type or "")
    old = migrate(BEFORE).get_model("jobs", "Job").objects.get(pk=job_id)
    assert {name: getattr(old, name) for name in fields} == fields | (
        {"gpu_type": ""} if fields.get("gpus") == 0 else {}
    )
    assert (old.cpus, old.memory_mib) == (4, 1024)
