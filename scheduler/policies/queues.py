"""The tree of tenants as the queues of policies that divide a pool by it, as YARN's schedulers do, and its ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from math import inf

from scheduler.authoring import Job, Key, View
from scheduler.policies.shared import ShareLedger, requested
from scheduler.workshop import Capacity, Demand, Denial, HoldReason, Level, NodeId, ResourceUsage, Tree, Vector

# Fractions of whole GPUs add up to whole GPUs only up to this error.
EPSILON = 1e-9


class QueueTree:
    """Organisations, tenants and virtual clusters as queues; the leaves are the virtual clusters."""

    def __init__(self, view: View) -> None:
        self._tree = Tree(view)
        self._paths: dict[NodeId, tuple[NodeId, ...]] = {}
        self._vcs_under: dict[NodeId, frozenset[int]] = {}
        self._shares: dict[tuple[NodeId, str], int] = {}
        self.name, self.weight, self.screens = self._tree.name, self._tree.weight, self._tree.screens

    def path(self, node: NodeId) -> tuple[NodeId, ...]:
        """The queues from below the root down to this one."""
        if node not in self._paths:
            self._paths[node] = tuple(reversed(self._tree.path(node)))
        return self._paths[node]

    def leaf(self, vc_id: int) -> NodeId:
        """The leaf of a virtual cluster; one that has left the pool has a leaf of its own."""
        return (Level.VIRTUAL_CLUSTER, vc_id)

    def children(self, node: NodeId | None) -> Sequence[NodeId]:
        """The queues directly below one; None: below the root."""
        return self._tree.roots if node is None else self._tree.children.get(node, ())

    def vcs_under(self, node: NodeId) -> frozenset[int]:
        """The ids of the virtual clusters under a queue."""
        if node not in self._vcs_under:
            below = self._tree.below(node)
            self._vcs_under[node] = frozenset(number for level, number in below if level is Level.VIRTUAL_CLUSTER)
        return self._vcs_under[node]

    def all(self) -> Iterator[NodeId]:
        """All queues, each after the one above."""
        for root in self._tree.roots:
            yield from self._tree.below(root)

    def share(self, node: NodeId, gpu_type: str) -> int:
        """The nominal shares of a queue and all below it."""
        if (node, gpu_type) not in self._shares:
            self._shares[node, gpu_type] = sum(self._tree.nominal(each, gpu_type) for each in self._tree.below(node))
        return self._shares[node, gpu_type]

    def maximum(self, node: NodeId, total: Vector) -> Mapping[str, float]:
        """The most that a queue may hold: its share and its borrowing limit; infinity without a limit."""
        limits = {kind: self._tree.borrowing(node, kind) for kind in total}
        return {
            kind: inf if limit is None else min(total[kind], self.share(node, kind) + limit)
            for kind, limit in limits.items()
        }


class TreeLedger(ShareLedger):
    """Shares by virtual cluster that add up along the tree; a policy's `rank` orders siblings."""

    def __init__(self, view: View, capacity: Capacity, usage: ResourceUsage) -> None:
        self.tree = capacity.derived(QueueTree, lambda: QueueTree(view))
        self.used_at: defaultdict[NodeId, Counter[str]] = defaultdict(Counter)
        self._standings: dict[NodeId, Key] = {}  # ranks that have not changed since they were last asked
        self._branches: dict[tuple[int, int], tuple[Sequence[NodeId], Sequence[NodeId]]] = {}
        self._maximum: dict[NodeId, Mapping[str, float]] = {}
        super().__init__(view, capacity, usage, lambda job: job.vc_id)

    def rank(self, node: NodeId) -> Key:
        """The position of a queue among its siblings, smaller first; its holdings can only raise it."""
        raise NotImplementedError

    def maximum(self, node: NodeId) -> Mapping[str, float]:
        """The maximum of each resource that a queue may hold."""
        if node not in self._maximum:
            self._maximum[node] = self.tree.maximum(node, self.total)
        return self._maximum[node]

    def key(self, group: int) -> Key:
        """The ranks from the root down: siblings are compared where two paths part."""
        path = self.tree.path(self.tree.leaf(group))
        for node in path:
            if node not in self._standings:
                self._standings[node] = (*self.rank(node), self.tree.name(node), node)
        return tuple([self._standings[node] for node in path])

    def family(self, group: int) -> Hashable:
        """The queue below the root that contains the group: jobs of one family count towards one share."""
        return self.tree.path(self.tree.leaf(group))[0]

    def charge(self, job: Job, vector: Vector, times: int) -> None:
        """See `ShareLedger`; along the whole path."""
        super().charge(job, vector, times)
        for node in self.tree.path(self.tree.leaf(job.vc_id)):
            self._standings.pop(node, None)
            used = self.used_at[node]
            for resource, amount in vector.items():
                used[resource] += times * amount

    def full_queue(self, job: Job, demand: Demand) -> NodeId | None:
        """The lowest queue above the job whose maximum denies it the demand, or None."""
        asked = requested(demand)
        for node in reversed(self.tree.path(self.tree.leaf(job.vc_id))):
            used, maximum = self.used_at[node], self.maximum(node)
            if any(amount and used[kind] + amount > _limit(maximum, kind) for kind, amount in asked.items()):
                return node
        return None

    def limit(self, job: Job, demand: Demand) -> Denial | None:
        """The maximums of the queues above the job."""
        node = self.full_queue(job, demand)
        if node is None:
            return None
        used, maximum, asked = self.used_at[node], self.maximum(node), requested(demand)
        kind = next(kind for kind, amount in asked.items() if amount and used[kind] + amount > _limit(maximum, kind))
        name = self.tree.name(node)
        what = f"queue {name} may hold {maximum.get(kind, 0.0):g} {kind} at most and holds {used[kind]}"
        return queue_denial(what, kind, asked[kind], possible=asked[kind] <= _limit(maximum, kind))

    def groups_at_limit(self, job: Job, demand: Demand) -> Collection[int] | None:
        """See `ShareLedger`: the virtual clusters under the full queue."""
        node = self.full_queue(job, demand)
        return None if node is None else self.tree.vcs_under(node)

    def branches(self, taker: int, other: int) -> tuple[Sequence[NodeId], Sequence[NodeId]]:
        """The two paths below the last common queue."""
        if (taker, other) not in self._branches:
            ours, theirs = self.tree.path(self.tree.leaf(taker)), self.tree.path(self.tree.leaf(other))
            depth = 0
            while depth < min(len(ours), len(theirs)) and ours[depth] == theirs[depth]:
                depth += 1
            self._branches[taker, other] = (ours[depth:], theirs[depth:])
        return self._branches[taker, other]


def queue_denial(what: str, kind: str, amount: int, *, possible: bool) -> Denial:
    """The pending reason for a queue's limit; `possible` says whether the limit allows this amount at all."""
    return Denial(
        HoldReason.QUOTA if possible else HoldReason.QUOTA_TOO_SMALL,
        f"{what}; this job needs {amount}",
        {"resource": kind, "needed": amount},
        ("jobs of the same queue end",) if possible else ("ask for less", "an operator raises the limit of the queue"),
    )


def _limit(maximum: Mapping[str, float], kind: str) -> float:
    return maximum.get(kind, 0.0) + EPSILON


def ratio(used: Mapping[str, int], of: Mapping[str, float]) -> float:
    """The largest used share of any resource; use of a resource with a limit of 0 counts as infinite."""
    parts = (
        amount / of[resource] if of.get(resource, 0.0) > 0.0 else float("inf")
        for resource, amount in used.items()
        if amount > 0
    )
    return max(parts, default=0.0)
