"""Jobs of before have what they ask for in columns: the migrations make requests of these, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from muster.fleet.models import Node
from muster.jobs.attempt.runs import ScreeningRun, screening_run_of
from muster.jobs.models import Attempt, Job
from scheduler.model import SLOTS
from scheduler.model.lifecycle import Locality, RuntimeNeed
from scheduler.model.request import Choice, Request
from tests.factories import make_node, make_user, make_vc

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
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    yield migrate(BEFORE)
    migrate(newest)


def now() -> None:
    migrate(MigrationExecutor(connection).loader.graph.leaf_nodes())


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


def attempt_before(models: Any, job_id: int, node: Node | None = None, **fields: Any) -> int:
    """An attempt that has ended; on a node it had two of its GPUs."""
    now_ = timezone.now()
    number = models.get_model("jobs", "Attempt").objects.filter(job_id=job_id).count() + 1
    ended = {"state": "failed", "ended_at": now_, "master_addr": "x", "master_port": 1}
    attempt = models.get_model("jobs", "Attempt").objects.create(job_id=job_id, number=number, **ended | fields)
    if node is not None:
        allocation = models.get_model("jobs", "Allocation").objects.create(
            attempt=attempt, node_id=node.pk, rank=0, state="released", released_at=now_, cpus=4, memory_mib=1024
        )
        for gpu in node.gpus.order_by("index")[:2]:
            models.get_model("jobs", "GpuClaim").objects.create(
                allocation=allocation, gpu_id=gpu.pk, span=NumericRange(0, SLOTS), released_at=now_
            )
    return int(attempt.pk)


@pytest.fixture
def unchecked(before: Any) -> Iterator[None]:
    """Attempts whose gangs are not whole can be stored: of what they had, only some rows are made."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_attempt DISABLE TRIGGER USER")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_attempt ENABLE TRIGGER USER")


TRIAL = {"nodes": 2, "gpus": 1, "cpus": 2, "memory_mib": 512, "gpu_type": "", "time_limit_s": 300}
WAITS = {"world": 2, "since": 1000.0, "until": 1600.0}


def test_an_attempt_of_before_was_given_what_its_job_asked_for(before: Any, unchecked: None) -> None:
    ended = {"state": "failed", "ended_at": timezone.now()}
    job_id = stored_before(before, gpus=2, time_limit_s=3600, grace_s=60, **ended)
    held = attempt_before(before, job_id, make_node(gpu_type="V100"))
    unheld = attempt_before(before, job_id)
    trial = attempt_before(before, job_id, make_node(gpu_type="A100"), stage="screening", trial=TRIAL)
    now()
    rows = Attempt.objects.in_bulk([held, unheld, trial])
    assert rows[held].request == Request((Choice("V100", 2, 4, 1024),))
    assert (rows[held].time_limit_s, rows[held].grace_s) == (3600, 60)
    assert rows[unheld].request == Request((Choice(None, 2, 4, 1024),))
    assert rows[trial].request == Request((Choice("A100", 1, 2, 512),), nodes=2)
    assert (rows[trial].time_limit_s, rows[trial].grace_s) == (300, 30)
    back = migrate(BEFORE).get_model("jobs", "Attempt").objects.in_bulk([held, trial])
    assert (back[held].trial, back[trial].trial) == (None, TRIAL | {"gpu_type": "A100"})


def test_a_job_of_before_goes_on_waiting_for_its_screening_run(before: Any) -> None:
    job_id = stored_before(before, gpus=4, nodes=2, form="image", stage="screening", trial=TRIAL | WAITS)
    now()
    run = screening_run_of(Job.objects.get(pk=job_id))
    request = Request((Choice(None, 1, 2, 512),), nodes=2, runtime=RuntimeNeed.IMAGE)
    assert run == ScreeningRun(request, 300.0, world=2, since=1000.0, until=1600.0)
    old = migrate(BEFORE).get_model("jobs", "Job").objects.get(pk=job_id)
    assert old.trial == TRIAL | WAITS
