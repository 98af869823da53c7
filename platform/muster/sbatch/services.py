"""The site of a user: the operators' words where they have written some, else pools, tenants and priorities."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from muster.accounts.models import User
from muster.arrays.spec import MAX_MEMBERS
from muster.common.clock import utc_now
from muster.common.errors import FieldError, Invalid
from muster.fleet.models import Gpu, Node
from muster.jobs.spec.spec import PRIORITIES
from muster.sbatch.directives import Refused
from muster.sbatch.selectors import table_in_force
from muster.sbatch.site import NodeFacts, Partition, Qos, Site
from muster.sbatch.table import PartitionEntry, Table, default_of
from muster.sbatch.translate import Submission, Translation, translate
from muster.tenants.models import VirtualCluster
from muster.tenants.selectors import default_virtual_cluster, virtual_clusters_of
from scheduler.model.lifecycle import JobClass, NodeAdmin

_PRIORITIES = {name: Qos(priority=name) for name in PRIORITIES} | {
    "opportunistic": Qos(klass=JobClass.OPPORTUNISTIC.value)
}


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
    """The words that mean something to the user, the default partition first.

    Without entries in the operators' table, pools, tenants with their virtual clusters, and priorities are the words.
    """
    table = table_in_force()
    default = default_virtual_cluster(user)
    vcs = list(virtual_clusters_of(user).select_related("pool", "tenant"))
    vcs.sort(key=lambda vc: (default is None or vc.pool_id != default.pool_id, vc != default, vc.name))
    qos = {word: Qos(one.priority, one.klass.value, one.max_time) for word, one in table.qos.items()} or _PRIORITIES
    accounts = _accounts(table, vcs)
    default_account = default_of(table.accounts)
    return Site(
        _partitions(table, vcs),
        accounts,
        qos,
        default_account=default_account if default_account in accounts else next(iter(accounts), None),
        default_qos=default_of(table.qos) if table.qos else "normal",
        shared_folders=tuple(table.shared_folders),
        cluster_name=table.cluster_name,
        max_array=MAX_MEMBERS - 1,
    )


def _partitions(table: Table, vcs: Sequence[VirtualCluster]) -> dict[str, Partition]:
    """The partitions in whose pool one of the virtual clusters is."""
    by_pool: dict[str, list[VirtualCluster]] = defaultdict(list)
    for vc in vcs:
        by_pool[vc.pool.name].append(vc)
    entries = table.partitions or {pool: PartitionEntry(pool=pool) for pool in by_pool}
    facts = _nodes_by_pool({vc.pool_id for vc in vcs})
    partitions = {}
    for word, entry in sorted(entries.items(), key=lambda item: not item[1].default):
        if own := by_pool.get(entry.pool):
            nodes, types = facts.get(own[0].pool_id, ((), ()))
            partitions[word] = Partition(
                word,
                tuple(vc.name for vc in own),
                nodes,
                types,
                entry.time,
                entry.max_time,
                entry.max_nodes,
                entry.memory_per_cpu,
            )
    return partitions


def _accounts(table: Table, vcs: Sequence[VirtualCluster]) -> dict[str, tuple[str, ...]]:
    """The virtual clusters of each account that has some of these."""
    accounts: dict[str, list[str]] = defaultdict(list)
    if table.accounts:
        for word, entry in table.accounts.items():
            names = [vc.name for vc in vcs if vc.tenant.name == entry.tenant and entry.vc in {None, vc.name}]
            accounts |= {word: names} if names else {}
    else:
        for vc in vcs:
            for word in dict.fromkeys((vc.tenant.name, vc.name)):
                accounts[word].append(vc.name)
    return {word: tuple(names) for word, names in accounts.items()}


def _nodes_by_pool(pool_ids: Collection[int]) -> Mapping[int, tuple[tuple[NodeFacts, ...], tuple[str, ...]]]:
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
