"""The demonstration's pools, nodes, tenants and quotas; existing ones are left unchanged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.fleet.models import Node, Pool
from muster.fleet.runtimes import NO_CONTAINERS, PROCESS
from muster.fleet.selectors import gpus_by_type
from muster.fleet.services import create_node, create_pool, renew_join_token
from muster.local.children import AgentOptions
from muster.local.places import LocalError
from muster.screening.models import PoolScreening
from muster.tenants.models import Quota, Tenant, VirtualCluster
from muster.tenants.services import create_tenant, create_virtual_cluster, set_quota
from scheduler.model.lifecycle import NodeHealth

ACTOR = "demo"
POOL, SCREENING, MIXED = "main", "screening", "mixed"
GPU_TYPE = "A100"


@dataclass(frozen=True, slots=True)
class Place:
    pool: str
    rack: str
    gpus: int
    gpu_type: str = GPU_TYPE


NODES = {
    "gpu01": Place(POOL, "rack-a", 4),
    "gpu02": Place(POOL, "rack-a", 4),
    "screen01": Place(SCREENING, "rack-a", 2),
}
MIXED_NODES = {"fast01": Place(MIXED, "rack-b", 2, "A100"), "slow01": Place(MIXED, "rack-b", 2, "V100")}
"""With `--heterogeneous` also these, whose GPUs have a speed."""
PROFILES = Path(__file__).parent / "profiles"
TENANTS = ("vision", "nlp")
QUOTA = 4
_POLL_S = 0.2


def nodes_of(*, heterogeneous: bool) -> dict[str, Place]:
    return {**NODES, **(MIXED_NODES if heterogeneous else {})}


def prepare_nodes(agents: Path, nodes: Mapping[str, Place] = NODES, *, docker_socket: str = "") -> list[AgentOptions]:
    """The pools with their nodes, and how to start the agent of each; a join token goes to those that need one."""
    pools = _prepare_pools(mixed=any(place.pool == MIXED for place in nodes.values()))
    options = []
    for name, place in nodes.items():
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
                gpus=f"emulated:{place.gpu_type}:{place.gpus}",
                gpu_profiles=str(PROFILES) if place.pool == MIXED else "",
                # A GPU server's size, whatever this machine has: the jobs are small, the numbers are for looking at.
                cpus=4 * place.gpus,
                memory_mib=32_768 * place.gpus,
                join_token=token,
                runtime="auto",
                docker_socket=docker_socket,
            )
        )
    return options


def _prepare_pools(*, mixed: bool) -> dict[str, Pool]:
    main = Pool.objects.filter(name=POOL).first() or create_pool(
        name=POOL, actor=ACTOR, shells=True, keep_failed_max_s=1800
    )
    screening = Pool.objects.filter(name=SCREENING).first()
    if screening is None:
        screening = create_pool(name=SCREENING, actor=ACTOR)
        # No quota is above min_gpus: only jobs with `screening: always` are screened, and the examples start at once.
        PoolScreening.objects.create(pool=main, screening_pool=screening, min_gpus=QUOTA, minutes=1)
    pools = {POOL: main, SCREENING: screening}
    if mixed:
        pools[MIXED] = Pool.objects.filter(name=MIXED).first() or create_pool(name=MIXED, actor=ACTOR)
    return pools


def engine_of(nodes: Mapping[str, Place] = NODES) -> tuple[str, str]:
    """The container engine that the nodes offer, or empty and why they offer none."""
    rows = Node.objects.filter(name__in=nodes).values_list("inventory__runtimes", f"labels__{NO_CONTAINERS}")
    reasons = set[str]()
    for runtimes, why in rows:
        for name in runtimes or ():
            if name != PROCESS:
                return name, ""
        reasons.add(why or "their agents do not say why")
    return "", "; ".join(sorted(reasons))


def epochs(nodes: Mapping[str, Place] = NODES) -> dict[str, int]:
    """The number of registrations of each node's agent; a node's health says only what was known of it last."""
    return dict(Node.objects.filter(name__in=nodes).values_list("name", "lease__epoch"))


def wait_for_nodes(
    nodes: Mapping[str, Place] = NODES, *, registered_before: Mapping[str, int], timeout_s: float
) -> None:
    """Returns when every agent has registered once more and every node is ready with its GPUs."""
    for _ in range(int(timeout_s / _POLL_S)):
        ready = set(Node.objects.filter(name__in=nodes, health=NodeHealth.READY).values_list("name", flat=True))
        waiting = sorted(
            name for name, epoch in epochs(nodes).items() if name not in ready or epoch <= registered_before[name]
        )
        if not waiting and _have_their_gpus(nodes):
            return
        time.sleep(_POLL_S)
    raise LocalError(
        f"after {timeout_s:.0f} s these nodes are not ready: {', '.join(waiting) or 'none, but GPUs miss'}"
    )


def shared_single_user_nodes(nodes: Mapping[str, Place] = NODES) -> list[str]:
    """The names of the nodes that run jobs of several tenants as one account."""
    shared = Node.objects.filter(name__in=nodes, single_user=True, single_user_shared=True)
    return list(shared.order_by("name").values_list("name", flat=True))


def _have_their_gpus(nodes: Mapping[str, Place]) -> bool:
    expected = Counter[tuple[str, str]]()
    for place in nodes.values():
        expected[place.pool, place.gpu_type] += place.gpus
    ids = dict(Pool.objects.values_list("name", "pk"))
    return all(gpus_by_type(ids[pool]).get(gpu_type, 0) >= gpus for (pool, gpu_type), gpus in expected.items())


def prepare_tenants(*, heterogeneous: bool = False) -> dict[str, Tenant]:
    """The tenants with one virtual cluster each, and quotas, which only a pool that has the GPUs accepts.

    In the pool of two types the first of them has a second virtual cluster, named as the pool.
    """
    pool = Pool.objects.get(name=POOL)
    tenants = {}
    for name in TENANTS:
        tenants[name] = Tenant.objects.filter(name=name).first() or create_tenant(name=name, actor=ACTOR)
        _prepare_virtual_cluster(tenants[name], pool, name, {GPU_TYPE: QUOTA})
    if heterogeneous:  # after the others: a job that names none goes to the first virtual cluster of its owner
        quotas = {place.gpu_type: place.gpus for place in MIXED_NODES.values()}
        _prepare_virtual_cluster(tenants[TENANTS[0]], Pool.objects.get(name=MIXED), MIXED, quotas)
    return tenants


def _prepare_virtual_cluster(tenant: Tenant, pool: Pool, name: str, quotas: Mapping[str, int]) -> None:
    vc = VirtualCluster.objects.filter(name=name).first() or create_virtual_cluster(
        tenant=tenant, pool=pool, name=name, actor=ACTOR
    )
    for gpu_type, gpus in quotas.items():
        if not Quota.objects.filter(vc=vc, gpu_type=gpu_type).exists():
            set_quota(vc=vc, gpu_type=gpu_type, gpus=gpus, actor=ACTOR)
