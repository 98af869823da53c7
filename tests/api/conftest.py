"""A small cluster with two tenants, and clients that speak for its users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.fleet.models import Node, Pool
from muster.jobs.models import Job
from muster.tenants.models import Tenant, VirtualCluster
from muster.tenants.roles import Role
from tests.factories import make_attempt, make_job, make_node, make_pool, make_tenant, make_token, make_user, make_vc


@dataclass(frozen=True, slots=True)
class World:
    """Tenant `vision` with three people and two jobs, tenant `speech` with one of each, and an operator."""

    pool: Pool
    node: Node
    vision: Tenant
    speech: Tenant
    vc: VirtualCluster
    other_vc: VirtualCluster
    owner: User
    peer: User
    manager: User
    stranger: User
    operator: User
    waiting: Job
    running: Job
    others: Job

    def user(self, role: str) -> User:
        """The user with this part in the tables of the tests."""
        found = getattr(self, role)
        assert isinstance(found, User)
        return found


@pytest.fixture
def world(db: None) -> World:
    pool = make_pool("main")
    node = make_node(pool, "gpu01", gpus=4)
    # What is told of jobs that wait is shown by jobs that the one node could never run, too.
    vision, speech = (make_tenant(name, wait_for_hardware=True) for name in ("vision", "speech"))
    vc, other_vc = make_vc(vision, pool, "vision-vc"), make_vc(speech, pool, "speech-vc")
    owner = make_user("olivia", tenant=vision)
    stranger = make_user("stan", tenant=speech)
    waiting = make_job(vc, owner, name="waiting", tags={"project": "seg"})
    running = make_job(vc, owner, name="running", gpus=2)
    make_attempt(running, [node])
    return World(
        pool=pool,
        node=node,
        vision=vision,
        speech=speech,
        vc=vc,
        other_vc=other_vc,
        owner=owner,
        peer=make_user("pete", tenant=vision),
        manager=make_user("mary", tenant=vision, role=Role.MANAGER),
        stranger=stranger,
        operator=make_user("oscar", operator=True),
        waiting=waiting,
        running=running,
        others=make_job(other_vc, stranger, name="others"),
    )


@pytest.fixture
def api() -> Callable[[User | None], Client]:
    """Clients that send the user's token with every request, or none without a user."""

    def client_of(user: User | None, **options: Any) -> Client:
        headers = {"Authorization": f"Bearer {make_token(user)}"} if user else {}
        return Client(headers=headers, **options)

    return client_of
