"""The real processes of the platform, and agents with emulated GPUs."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from bench.figures import CLIENT
from bench.plan import GPUS_PER_NODE, NODES
from bench.processor import read_processor, read_seconds
from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.accounts.services import create_token, create_user
from muster.fleet.models import Node, Pool
from muster.fleet.selectors import gpus_by_type
from muster.fleet.services import create_node, create_pool
from muster.local import children, processes
from muster.local.children import Site
from muster.local.places import agents_folder
from muster.local.stack import Steps, running_stack
from muster.local.supervisor import Child, Supervisor
from muster.tenants.models import Tenant
from muster.tenants.roles import Role
from muster.tenants.services import add_member, create_tenant, create_virtual_cluster, set_quota
from scheduler.model.lifecycle import NodeHealth

ACTOR = NAME = "bench"
LINKS = "links"
GPU_TYPE = "A100"
_CPUS, _MEMORY_MIB = 64, 524_288
_NODES_TIMEOUT_S = 60.0
_POLL_S = 0.1
# The first of these words that a command line has names the group of a process.
_GROUPS = {
    "postgres": "Postgres",
    "valkey-server": "Valkey",
    "uvicorn": "web",
    "muster.local.nursery": "nursery",
    "schedule": "worker schedule",
    "default": "worker default",
    "links": LINKS,
}
_AGENTS = "agents, shims and jobs"
_FIRST_WORD = re.compile(r"[ :]")


class StackError(RuntimeError):
    """The bench's own platform does not work here; the message says why."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A platform with ready nodes, and the token of a user who may use all their GPUs."""

    url: str
    token: str
    site: Site
    supervisor: Supervisor


@contextmanager
def running_platform(home: Path, console: Console) -> Iterator[Stack]:
    """The whole platform, which is gone when the block ends."""
    with running_stack(home, port=_free_port(), steps=Steps(console)) as (site, supervisor):
        pool = create_pool(name=NAME, actor=ACTOR)
        _start_nodes(pool, site, supervisor)
        yield Stack(site.local_url, _prepare_user(pool), site, supervisor)


def start_node(stack: Stack, pool: Pool, *, name: str, gpus: int, change: Callable[[Child], Child]) -> None:
    """One more node, whose agent is started as `change` says; returns when it is ready."""
    stack.supervisor.start(change(_agent(pool, stack.site, name, gpus)))
    await_ready(pool, gpus)


def grant(pool: Pool, name: str, *, gpus: int) -> None:
    """A virtual cluster of the user's tenant in another pool."""
    vc = create_virtual_cluster(tenant=Tenant.objects.get(name=NAME), pool=pool, name=name, actor=ACTOR)
    set_quota(vc=vc, gpu_type=GPU_TYPE, gpus=gpus, actor=ACTOR)


def process_groups() -> dict[str, list[int]]:
    """Every process below this one by what it is."""
    found: dict[str, list[int]] = {name: [] for name in (*_GROUPS.values(), _AGENTS)}
    for pid in processes.descendants(os.getpid()):
        # Servers tell more in their first word: "postgres: muster muster [local] idle".
        words = [Path(_FIRST_WORD.split(word, maxsplit=1)[0]).name for word in processes.command_line(pid)]
        found[next((name for word, name in _GROUPS.items() if word in words), _AGENTS)].append(pid)
    return found


def processor_of_groups() -> dict[str, float]:
    """Seconds of processor time so far, by the groups of `process_groups` and of this process itself.

    What has ended is counted with the process that waited for it. Jobs come and go under agents and this process, so
    what is left of the whole is theirs.
    """
    found = {name: sum(map(read_seconds, pids)) for name, pids in process_groups().items() if name != _AGENTS}
    own = os.times()
    found[CLIENT] = own.user + own.system
    return found | {_AGENTS: read_processor().ours_s - sum(found.values())}


def new_user(name: str, *, operator: bool = False, password: str | None = None) -> User:
    """A user; without `password` it gets a random one."""
    password = password or secrets.token_urlsafe(24)
    return create_user(username=name, password=password, operator=operator, actor=ACTOR)


def new_token(user: User) -> str:
    """A token of the user's."""
    return create_token(user=user, name=NAME, expires_in=timedelta(days=1), scopes=tuple(Scope))[1]


def _start_nodes(pool: Pool, site: Site, supervisor: Supervisor) -> None:
    """Starts the agents, and returns when all nodes are ready and have reported their GPUs."""
    for number in range(1, NODES + 1):
        supervisor.start(_agent(pool, site, f"bench{number}", GPUS_PER_NODE))
    await_ready(pool, NODES * GPUS_PER_NODE)


def _agent(pool: Pool, site: Site, name: str, gpus: int) -> Child:
    node, join_token = create_node(pool=pool, name=name, actor=ACTOR)
    options = children.AgentOptions(
        name=node.name,
        gpus=f"emulated:{GPU_TYPE}:{gpus}",
        cpus=_CPUS,
        memory_mib=_MEMORY_MIB,
        join_token=join_token,
    )
    return children.agent(site, options, folder=agents_folder(site.home))


def await_ready(pool: Pool, gpus: int) -> None:
    """Wait until all nodes of the pool are ready and have reported `gpus` GPUs."""
    end = time.monotonic() + _NODES_TIMEOUT_S
    while (
        Node.objects.filter(pool=pool).exclude(health=NodeHealth.READY).exists()
        or gpus_by_type(pool.pk).get(GPU_TYPE, 0) < gpus
    ):
        if time.monotonic() >= end:
            raise StackError(f"the nodes are not ready after {_NODES_TIMEOUT_S:.0f} s")
        time.sleep(_POLL_S)


def _prepare_user(pool: Pool) -> str:
    tenant = create_tenant(name=NAME, actor=ACTOR)
    vc = create_virtual_cluster(tenant=tenant, pool=pool, name=NAME, actor=ACTOR)
    set_quota(vc=vc, gpu_type=GPU_TYPE, gpus=NODES * GPUS_PER_NODE, actor=ACTOR)
    user = new_user(NAME)
    add_member(tenant=tenant, user=user, role=Role.MEMBER, actor=ACTOR)
    return new_token(user)


def _free_port() -> int:
    with socket.socket() as door:
        door.bind((children.HOST, 0))
        port: int = door.getsockname()[1]
        return port
