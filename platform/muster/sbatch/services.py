"""The site of a user: pools as partitions, tenants and virtual clusters as accounts, priorities as qualities."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from muster.accounts.models import User
from muster.arrays.spec import MAX_MEMBERS
from muster.common.clock import utc_now
from muster.common.errors import FieldError, Invalid
from muster.fleet.models import Gpu, Node
from muster.jobs.spec.spec import PRIORITIES
from muster.sbatch.directives import Refused
from muster.sbatch.site import NodeFacts, Partition, Qos, Site
from muster.sbatch.translate import Submission, Translation, translate
from muster.tenants.selectors import default_virtual_cluster, virtual_clusters_of
from scheduler.model.lifecycle import JobClass, NodeAdmin


def translate_for(user: User, submission: Submission) -> Translation:
    """The spec that a script asks for where this user may submit.

    Raises:
        Invalid: it is refused; names the script or the options, and the line.
    """
    try:
        return translate(submission, site_of(user), utc_now())
    except Refused as error:
        where = f"line {error.line}: " if error.line else ""
        field = "script" if error.line else "options"
        raise Invalid.fields([FieldError(field, f"{where}{error.message}")]) from error


def site_of(user: User) -> Site:
    """The words that mean something to the user, their default pool first."""
    default = default_virtual_cluster(user)
    vcs = list(virtual_clusters_of(user).select_related("pool", "tenant"))
    vcs.sort(key=lambda vc: (default is None or vc.pool_id != default.pool_id, vc != default, vc.name))
    by_pool: dict[int, list[str]] = defaultdict(list)
    accounts: dict[str, list[str]] = defaultdict(list)
    for vc in vcs:
        by_pool[vc.pool_id].append(vc.name)
        for name in dict.fromkeys((vc.name, vc.tenant.name)):
            accounts[name].append(vc.name)
    facts = _nodes_by_pool(list(by_pool))
    partitions: dict[str, Partition] = {}
    for vc in vcs:
        nodes, types = facts.get(vc.pool_id, ((), ()))
        partitions.setdefault(vc.pool.name, Partition(vc.pool.name, tuple(by_pool[vc.pool_id]), nodes, types))
    qos = {name: Qos(priority=name) for name in PRIORITIES}
    qos["opportunistic"] = Qos(klass=JobClass.OPPORTUNISTIC.value)
    by_account = {name: tuple(listed) for name, listed in accounts.items()}
    return Site(partitions, by_account, qos, max_array=MAX_MEMBERS - 1)


def _nodes_by_pool(pool_ids: list[int]) -> Mapping[int, tuple[tuple[NodeFacts, ...], tuple[str, ...]]]:
    """The nodes of each pool, and the types of their GPUs by name."""
    types: dict[int, Counter[str]] = defaultdict(Counter)
    gpus = Gpu.objects.filter(node__pool__in=pool_ids).values_list("node_id", "type")
    for node_id, kind in gpus:
        types[node_id][kind] += 1
    nodes: dict[int, list[NodeFacts]] = defaultdict(list)
    kinds: dict[int, set[str]] = defaultdict(set)
    rows = Node.objects.filter(pool__in=pool_ids).exclude(admin=NodeAdmin.RETIRED).order_by("name")
    for pk, pool_id, name, cpus, memory_mib, labels in rows.values_list(
        "pk", "pool_id", "name", "cpus", "memory_mib", "labels"
    ):
        here = types[pk]
        kinds[pool_id].update(here)
        features = _features(labels) | {kind.lower() for kind in here} | set(here)
        nodes[pool_id].append(NodeFacts(name, here.total(), cpus, memory_mib, frozenset(features)))
    return {pool_id: (tuple(listed), tuple(sorted(kinds[pool_id]))) for pool_id, listed in nodes.items()}


def _features(labels: Mapping[str, object]) -> set[str]:
    """The names that a constraint can use for the labels: `name`, where it is not false, and `name=value`."""
    found = set()
    for name, value in labels.items():
        if str(value).lower() not in {"false", "no", "0"}:
            found |= {name, f"{name}={value}"}
    return found
