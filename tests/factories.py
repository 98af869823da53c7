"""Rows for database tests: the defaults make a valid object, so that a test states only what it is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.utils import timezone

from muster.accounts.models import ApiToken, User
from muster.accounts.scopes import Scope
from muster.accounts.services import create_token
from muster.accounts.uids import free_uid
from muster.common.secrets import digest
from muster.fleet.models import Gpu, Node, NodeLease, Pool
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job, JobGroup
from muster.tenants.models import Membership, Quota, Tenant, VirtualCluster
from muster.tenants.roles import Role
from scheduler.model import SLOTS
from scheduler.model.lifecycle import AllocationState, AttemptState, GroupKind, JobState, NodeHealth
from scheduler.model.reasons import Reason
from scheduler.model.request import Choice, Request

PASSWORD = "correct horse battery staple"

_numbers = count(1)


def make_pool(name: str | None = None, **fields: Any) -> Pool:
    """A pool with the default policy and timers."""
    return Pool.objects.create(name=name or f"pool-{next(_numbers)}", **fields)


def make_node(
    pool: Pool | None = None,
    name: str | None = None,
    *,
    gpus: int = 4,
    gpu_type: str = "A100",
    credential: str | None = None,
    **fields: Any,
) -> Node:
    """A node that is ready and has GPUs; with a `credential`, an agent has registered it."""
    name = name or f"node-{next(_numbers)}"
    fields = {"health": NodeHealth.READY, "cpus": 64, "memory_mib": 262_144, "address": f"{name}.test", **fields}
    if credential is not None:
        fields["credential_digest"] = digest(credential)
    node = Node.objects.create(pool=pool or make_pool(), name=name, **fields)
    NodeLease.objects.create(node=node, epoch=1 if credential is not None else 0)
    for index in range(gpus):
        make_gpu(node, index=index, type=gpu_type)
    return node


def make_gpu(node: Node, **fields: Any) -> Gpu:
    """A GPU of the node."""
    index = fields.setdefault("index", node.gpus.count())
    fields = {"type": "A100", "model": "NVIDIA A100", "memory_mib": 40_960, **fields}
    return Gpu.objects.create(node=node, uuid=fields.pop("uuid", f"GPU-{node.name}-{index}"), **fields)


def make_tenant(name: str | None = None, **fields: Any) -> Tenant:
    """A tenant without members."""
    return Tenant.objects.create(name=name or f"tenant-{next(_numbers)}", **fields)


def make_user(
    username: str | None = None,
    *,
    tenant: Tenant | None = None,
    role: Role = Role.MEMBER,
    operator: bool = False,
    password: str | None = None,
    **fields: Any,
) -> User:
    """A user, in a tenant if one is given. Hashing is slow on purpose, so a password is only set if it is given."""
    with transaction.atomic():
        user = User.objects.create(
            username=username or f"user-{next(_numbers)}",
            is_staff=operator,
            is_superuser=operator,
            password=make_password(password),
            **{"uid": free_uid(), **fields},
        )
    if tenant is not None:
        Membership.objects.create(tenant=tenant, user=user, role=role)
    return user


def make_token(
    user: User, name: str | None = None, *, expired: bool = False, scopes: Collection[Scope] = tuple(Scope)
) -> str:
    """The secret of a new token of the user's, with all scopes unless others are given."""
    token, secret = create_token(
        user=user, name=name or f"token-{next(_numbers)}", expires_in=timedelta(days=1), scopes=scopes
    )
    if expired:
        ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    return secret


def make_vc(
    tenant: Tenant | None = None,
    pool: Pool | None = None,
    name: str | None = None,
    *,
    quotas: dict[str, int] | None = None,
) -> VirtualCluster:
    """A virtual cluster with room for eight A100."""
    vc = VirtualCluster.objects.create(
        tenant=tenant or make_tenant(), pool=pool or make_pool(), name=name or f"vc-{next(_numbers)}"
    )
    for gpu_type, gpus in ({"A100": 8} if quotas is None else quotas).items():
        Quota.objects.create(vc=vc, gpu_type=gpu_type, gpus=gpus)
    return vc


def make_request(
    *, gpus: int = 1, gpu_type: str = "", cpus: int | None = None, memory_mib: int = 1024, **fields: Any
) -> Request:
    """The request of a job that would do with one size: one GPU on one node."""
    choice = Choice(gpu_type or None, gpus, max(1, gpus) if cpus is None else cpus, memory_mib)
    return Request(choices=(choice,), **fields)


def given(job: Job) -> Request:
    """The request granted to an attempt of the job in the size that the job prefers."""
    request: Request = job.request
    return request.given(request.first)


def job_fields(vc: VirtualCluster, owner: User, **fields: Any) -> dict[str, Any]:
    """The columns of a job for one GPU that waits."""
    name = fields.pop("name", f"job-{next(_numbers)}")
    request = fields.pop("request", None) or make_request(
        **{key: fields.pop(key) for key in ("gpus", "gpu_type", "cpus", "memory_mib", "nodes") if key in fields}
    )
    spec = {"name": name, "vc": vc.name, "gpus": str(request.first.gpus), "nodes": request.nodes}
    spec |= {"command": "true", "priority": "normal"}
    state = fields.get("state", JobState.QUEUED)
    if state in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}:
        fields.setdefault("ended_at", timezone.now())
    return {
        "tenant_id": vc.tenant_id,
        "vc": vc,
        "pool_id": vc.pool_id,
        "owner": owner,
        "name": name,
        "spec": spec | {"retry": {"max": 3, "on": ["infrastructure", "node_lost"]}},
        "request": request,
        **fields,
    }


def make_job(vc: VirtualCluster | None = None, owner: User | None = None, **fields: Any) -> Job:
    """A job for one GPU that waits in the queue."""
    vc = vc or make_vc()
    return Job.objects.create(**job_fields(vc, owner or make_user(tenant=vc.tenant), **fields))


def make_group(vc: VirtualCluster, owner: User, *states: str, name: str = "search", **fields: Any) -> JobGroup:
    """A sweep with a member in each of the states."""
    group = JobGroup.objects.create(
        kind=GroupKind.SWEEP,
        tenant_id=vc.tenant_id,
        vc=vc,
        pool_id=vc.pool_id,
        owner=owner,
        name=name,
        **{"spec": {}, "size": len(states), "parallel": 4} | fields,
    )
    for member, state in enumerate(states, start=1):
        make_job(vc, owner, name=name, state=state, group=group, member=member)
    return group


def make_attempt(
    job: Job,
    nodes: Sequence[Node],
    *,
    state: AttemptState = AttemptState.RUNNING,
    reason: Reason | str = "",
) -> Attempt:
    """A try at running the job with one rank on each node, each on that node's first GPUs; the job becomes active.

    A live attempt holds its GPUs; one that has ended has released them.
    """
    now, live = timezone.now(), state in {AttemptState.PLACED, AttemptState.STARTING, AttemptState.RUNNING}
    with transaction.atomic():
        number = job.attempt_count + 1
        attempt = Attempt.objects.create(
            job=job,
            number=number,
            state=state,
            reason=reason,
            request=given(job),
            master_addr=nodes[0].address,
            master_port=20_000 + job.pk % 10_000,
            running_at=now,
            ended_at=None if live else now,
        )
        for rank, node in enumerate(nodes):
            allocation = Allocation.objects.create(
                attempt=attempt,
                node=node,
                rank=rank,
                state=AllocationState.ACTIVE if live else AllocationState.RELEASED,
                cpus=job.request.first.cpus,
                memory_mib=job.request.first.memory_mib,
                claimed_at=now,
                released_at=None if live else now,
            )
            for gpu in node.gpus.order_by("index")[: job.request.first.gpus]:
                span = NumericRange(gpu.pk * SLOTS, (gpu.pk + 1) * SLOTS, "[)")
                GpuClaim.objects.create(allocation=allocation, gpu=gpu, span=span, released_at=None if live else now)
        if live:
            Job.objects.filter(pk=job.pk).update(
                state=JobState.ACTIVE, attempt_count=number, started_at=now, hold_reason="", hold=None
            )
            job.refresh_from_db()
    return attempt
