"""A sweep of 1,000 members: submitting it, reading what its page shows, and looking after it."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
from django.db import connection
from django.test import Client
from django.utils import timezone

from bench.figures import Series
from bench.live.stack import ACTOR, StackError, new_token, new_user
from muster.fleet.services import create_pool
from muster.jobs.models import Attempt, Job
from muster.monitoring.store import keep_points
from muster.sweeps.controller import look_at_sweep
from muster.tenants.roles import Role
from muster.tenants.services import add_member, create_tenant, create_virtual_cluster
from scheduler.model.lifecycle import AttemptState
from scheduler.model.request import Choice, Request

MEMBERS = 1000
_PATH = "/api/v1/sweeps"
_SPEC = {
    "name": "lr-search",
    "command": "python train.py --lr ${lr} --batch ${batch}",
    "sweep": {
        "method": "asha",
        "metric": "val_loss",
        "params": {"lr": {"log": [1e-5, 0.1]}, "batch": [32, 64, 128], "layers": {"int": [1, 4]}},
        "members": MEMBERS,
        "rungs": {"first": 3, "last": 243},
        "parallel": 100,
    },
}


def measure(*, samples: int) -> Series:
    """Milliseconds of submitting, of the page's two reads, and of the look at the reports of all members."""
    pool = create_pool(name="sweeps", actor=ACTOR)
    tenant = create_tenant(name="sweeps", actor=ACTOR)
    create_virtual_cluster(tenant=tenant, pool=pool, name="sweeps", actor=ACTOR)
    user = new_user("sweeps")
    add_member(tenant=tenant, user=user, role=Role.MEMBER, actor=ACTOR)
    client, token = Client(), new_token(user)
    series: Series = {"sweeps_submit_ms": [], "sweeps_page_ms": [], "sweeps_look_ms": []}
    for _ in range(samples + 1):
        took_ms, sweep = _timed(client, token, "POST", _PATH, _SPEC)
        series["sweeps_submit_ms"].append(took_ms)
        _report(sweep["id"])
        start = time.perf_counter()
        look_at_sweep(sweep["id"])
        series["sweeps_look_ms"].append((time.perf_counter() - start) * 1000)
        document_ms, _ = _timed(client, token, "GET", f"{_PATH}/{sweep['id']}")
        members_ms, members = _timed(client, token, "GET", f"{_PATH}/{sweep['id']}/members")
        if len(members["results"]) != MEMBERS:
            raise StackError(f"the sweep has {len(members['results'])} members, not {MEMBERS}")
        series["sweeps_page_ms"].append(document_ms + members_ms)
    return {name: values[1:] for name, values in series.items()}


def _timed(client: Client, token: str, method: str, path: str, body: object = None) -> tuple[float, Any]:
    headers = {"Authorization": f"Bearer {token}", "Host": "127.0.0.1"}
    start = time.perf_counter()
    answer = client.generic(method, path, json.dumps(body) if body else "", "application/json", headers=headers)
    took_ms = (time.perf_counter() - start) * 1000
    if answer.status_code not in {httpx.codes.OK, httpx.codes.CREATED}:
        raise StackError(f"{method} {path} answers {answer.status_code}: {answer.content[:300]!r}")
    return took_ms, json.loads(answer.content)


def _report(sweep_id: int) -> None:
    """Each member has had an attempt that reported values up to a rung. It had no node, which a trigger forbids."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_attempt DISABLE TRIGGER USER")
    attempts = Attempt.objects.bulk_create(
        Attempt(
            job_id=job_id, number=1, state=AttemptState.PREEMPTED, request=Request((Choice(None, 0, 1, 1024),)),
            master_addr="a", master_port=1, running_at=now, ended_at=now,
        )
        for job_id in Job.objects.filter(group=sweep_id).order_by("pk").values_list("pk", flat=True)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_attempt ENABLE TRIGGER USER")
    keep_points(
        {
            attempt.pk: [("val_loss", float(step), 1 + (place * 7919 % MEMBERS) / step) for step in range(1, 10)]
            for place, attempt in enumerate(attempts)
        }
    )
