"""The job list on a database with a hundred thousand jobs of many tenants."""

from __future__ import annotations

import random
import time
from datetime import timedelta

import httpx
from django.db import connection
from django.test import Client as InProcessClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from bench.figures import Series
from bench.live.stack import ACTOR, Stack, StackError, new_token, new_user
from bench.plan import Plan
from muster.accounts.models import User
from muster.fleet.services import create_pool
from muster.jobs.models import Job
from muster.tenants.models import VirtualCluster
from muster.tenants.roles import Role
from muster.tenants.services import add_member, create_tenant, create_virtual_cluster
from scheduler.model.lifecycle import HoldReason, JobState
from scheduler.model.reasons import Reason
from scheduler.model.request import Choice, Request

_PATH = "/api/v1/jobs"
_PAGE, _SMALL_PAGE = 100, 10
_TENANTS, _USERS_PER_TENANT = 20, 5
_DAYS = 90
_QUEUED_SHARE = 0.02
_ROWS_AT_ONCE = 5_000
_ENDS = {
    (JobState.SUCCEEDED, Reason.COMPLETED): 72,
    (JobState.FAILED, Reason.EXIT_NONZERO): 15,
    (JobState.FAILED, Reason.NODE_LOST): 1,
    (JobState.CANCELLED, Reason.CANCELLED_BY_USER): 12,
}


def measure(stack: Stack, plan: Plan) -> Series:
    """Milliseconds of a page through HTTP, for an operator and for a member, and the queries that a page costs."""
    members = _fill(plan.listed_jobs)
    operator, member = new_token(new_user("operator", operator=True)), new_token(members[0])
    with httpx.Client(base_url=stack.url, trust_env=False) as client:
        return {
            "job_list_ms": _timed(client, operator, plan),
            "job_list_tenant_ms": _timed(client, member, plan),
            "job_list_queries": [_queries(operator, _PAGE), _queries(member, _PAGE)],
            "job_list_queries_small": [_queries(operator, _SMALL_PAGE), _queries(member, _SMALL_PAGE)],
        }


def _timed(client: httpx.Client, token: str, plan: Plan) -> list[float]:
    times = []
    for _ in range(plan.lists + plan.warm_ups):
        start = time.perf_counter()
        answer = client.get(_PATH, params={"limit": _PAGE}, headers=_headers(token))
        times.append((time.perf_counter() - start) * 1000)
        answer.raise_for_status()
        if len(answer.json()["results"]) != _PAGE:
            raise StackError(f"the list has {len(answer.json()['results'])} jobs, not {_PAGE}")
    return times[plan.warm_ups :]


def _queries(token: str, limit: int) -> float:
    with CaptureQueriesContext(connection) as queries:
        answer = InProcessClient().get(_PATH, {"limit": limit}, headers={**_headers(token), "Host": "127.0.0.1"})
    if answer.status_code != httpx.codes.OK:
        raise StackError(f"the list answers {answer.status_code}")
    return len(queries)


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _fill(count: int) -> list[User]:
    """Stores the jobs of three months, a few of them still waiting; returns a member of each tenant.

    Their pool has no nodes, so that those which wait go on waiting.
    """
    chance = random.Random(1)
    pool = create_pool(name="archive", actor=ACTOR)
    vcs, members = [], []
    for number in range(1, _TENANTS + 1):
        tenant = create_tenant(name=f"tenant{number}", actor=ACTOR)
        vc = create_virtual_cluster(tenant=tenant, pool=pool, name=f"vc{number}", actor=ACTOR)
        users = [new_user(f"user{number}-{place}") for place in range(1, _USERS_PER_TENANT + 1)]
        for user in users:
            add_member(tenant=tenant, user=user, role=Role.MEMBER, actor=ACTOR)
        vcs.append((vc, users))
        members.append(users[0])
    for start in range(0, count, _ROWS_AT_ONCE):
        rows = [_row(number, count, chance, vcs) for number in range(start, min(start + _ROWS_AT_ONCE, count))]
        Job.objects.bulk_create(rows)
    with connection.cursor() as cursor:  # what autovacuum does within a minute
        cursor.execute("ANALYZE")
    return members


def _row(number: int, count: int, chance: random.Random, vcs: list[tuple[VirtualCluster, list[User]]]) -> Job:
    vc, owners = chance.choice(vcs)
    gpus = chance.choices((1, 2, 4, 8), weights=(60, 15, 10, 15))[0]
    submitted_at = timezone.now() - timedelta(days=_DAYS) * (1 - number / count)
    job = Job(
        tenant_id=vc.tenant_id,
        vc=vc,
        pool_id=vc.pool_id,
        owner=chance.choice(owners),
        name=f"train-{chance.choice(('resnet', 'bert', 'llama', 'vit'))}-{number}",
        spec={
            "command": "python train.py --config configs/base.yaml --epochs 90 --seed 1",
            "gpus": f"A100:{gpus}",
            "env": {"OMP_NUM_THREADS": "8", "WANDB_MODE": "offline"},
        },
        tags={"team": chance.choice(("vision", "text", "speech"))},
        request=Request((Choice("A100", gpus, gpus * 8, gpus * 65_536),)),
        priority=chance.choices((0, 10, 20), weights=(2, 7, 1))[0],
        submitted_at=submitted_at,
        eligible_at=submitted_at,
    )
    # The jobs that wait are among the newest ones, where lists begin.
    if number > count * 0.9 and chance.random() < _QUEUED_SHARE * 10:
        job.hold_reason = HoldReason.NO_FREE_GPUS
        job.hold = {"detail": f"{gpus} A100 on one node are needed", "evidence": {}, "helps": ["a job ends"]}
        return job
    state, reason = chance.choices(tuple(_ENDS), weights=tuple(_ENDS.values()))[0]
    job.state, job.reason = state, reason
    job.attempt_count = 1
    job.started_at = submitted_at + timedelta(minutes=chance.uniform(0, 120))
    job.ended_at = job.started_at + timedelta(minutes=chance.lognormvariate(3, 1.5))
    job.exit_code = 0 if state == JobState.SUCCEEDED else 1
    return job
