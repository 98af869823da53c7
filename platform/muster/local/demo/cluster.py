"""The demonstration's pools, nodes, tenants and quotas; existing ones are left unchanged."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.fleet.models import Node, Pool
from muster.fleet.selectors import gpus_by_type
from muster.fleet.services import create_node, create_pool, renew_join_token
from muster.local.children import AgentOptions
from muster.local.places import LocalError
from muster.screening.models import PoolScreening
from muster.tenants.models import Quota, Tenant, VirtualCluster
from muster.tenants.services import create_tenant, create_virtual_cluster, set_quota
from scheduler.model.lifecycle import NodeHealth

ACTOR = "demo"
POOL, SCREENING = "main", "screening"
GPU_TYPE = "A100"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node belongs, and how many GPUs it has."""

    pool: str
    rack: str
    gpus: int


NODES = {
    "gpu01": _Place(POOL, "rack-a", 4),
    "gpu02": _Place(POOL, "rack-a", 4),
    "screen01": _Place(SCREENING, "rack-a", 2),
}
TENANTS = ("vision", "nlp")
QUOTA = 4
_POLL_S = 0.2


def prepare_nodes(agents: Path) -> list[AgentOptions]:
    """The pools with their nodes, and how to start the agent of each; a join token goes to those that need one."""
    pools = _prepare_pools()
    options = []
    for name, place in NODES.items():
        node = Node.objects.filter(name=name).first()
        token = ""
        if node is None:
            node, token = create_node(
                pool=pools[place.pool], name=name, rack=place.rack, actor=ACTOR, single_user_shared=True
            )
        elif not (node.credential_digest and (agents / name).is_dir()):
            # The agent never enrolled, or its state folder was removed since.
            token = renew_join_token(node=node, actor=ACTOR)
        options.append(
            AgentOptions(
                name=name,
                gpus=f"emulated:{GPU_TYPE}:{place.gpus}",
                # A GPU server's size, whatever this machine has: the jobs are small, the numbers are for looking at.
                cpus=4 * place.gpus,
                memory_mib=32_768 * place.gpus,
                join_token=token,
            )
        )
    return options


def _prepare_pools() -> dict[str, Pool]:
    main = Pool.objects.filter(name=POOL).first() or create_pool(
        name=POOL, actor=ACTOR, shells=True, keep_failed_max_s=1800
    )
    screening = Pool.objects.filter(name=SCREENING).first()
    if screening is None:
        screening = create_pool(name=SCREENING, actor=ACTOR)
        # No quota is above min_gpus: only jobs with `screening: always` are screened, and the examples start at once.
        PoolScreening.objects.create(pool=main, screening_pool=screening, min_gpus=QUOTA, minutes=1)
    return {POOL: main, SCREENING: screening}


def epochs() -> dict[str, int]:
    """How often the agent of each node has registered; a node's health says only what was known of it last."""
    return dict(Node.objects.filter(name__in=NODES).values_list("name", "lease__epoch"))


def wait_for_nodes(*, registered_before: Mapping[str, int], timeout_s: float) -> None:
    """Returns when every agent has registered once more and every node is ready with its GPUs."""
    clock = threading.Event()  # never set: waiting on it is a pause that a signal can interrupt
    for _ in range(int(timeout_s / _POLL_S)):
        ready = set(Node.objects.filter(name__in=NODES, health=NodeHealth.READY).values_list("name", flat=True))
        waiting = sorted(
            name for name, epoch in epochs().items() if name not in ready or epoch <= registered_before[name]
        )
        if not waiting and _have_their_gpus():
            return
        clock.wait(_POLL_S)
    raise LocalError(
        f"after {timeout_s:.0f} s these nodes are not ready: {', '.join(waiting) or 'none, but GPUs miss'}"
    )


def shared_single_user_nodes() -> list[str]:
    """The names of the nodes that run jobs of several tenants as one account."""
    nodes = Node.objects.filter(name__in=NODES, single_user=True, single_user_shared=True)
    return list(nodes.order_by("name").values_list("name", flat=True))


def _have_their_gpus() -> bool:
    expected: dict[str, int] = {}
    for place in NODES.values():
        expected[place.pool] = expected.get(place.pool, 0) + place.gpus
    pools = Pool.objects.filter(name__in=expected)
    return all(gpus_by_type(pool.pk).get(GPU_TYPE, 0) >= expected[pool.name] for pool in pools)


def prepare_tenants() -> dict[str, Tenant]:
    """The tenants with one virtual cluster each, and quotas, which only a pool that has the GPUs accepts."""
    pool = Pool.objects.get(name=POOL)
    tenants = {}
    for name in TENANTS:
        tenants[name] = Tenant.objects.filter(name=name).first() or create_tenant(name=name, actor=ACTOR)
        vc = VirtualCluster.objects.filter(name=name).first() or create_virtual_cluster(
            tenant=tenants[name], pool=pool, name=name, actor=ACTOR
        )
        if not Quota.objects.filter(vc=vc, gpu_type=GPU_TYPE).exists():
            set_quota(vc=vc, gpu_type=GPU_TYPE, gpus=QUOTA, actor=ACTOR)
    return tenants
