"""Queues with guaranteed capacities, which borrow idle GPUs of other queues until these need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.authoring import Job, Key, Running, View, param
from scheduler.policies.queues import EPSILON, QueueTree, TreeLedger, queue_denial, ratio
from scheduler.policies.shared import Shared, requested
from scheduler.workshop import CPUS, MEMORY_MIB, Capacity, Demand, Denial, NodeId, ResourceUsage, Vector


@dataclass(frozen=True, slots=True)
class CapacityQueues(Shared):
    """Serves the queue next that uses the least of its guaranteed capacity; any queue may use idle capacity of others.

    Source: the Capacity Scheduler of Apache Hadoop YARN (Vavilapalli et al., SoCC 2013, §3.2, and its documentation).
    """

    minimum_user_limit_percent: float = param(
        100, "Each user may have an equal share of a virtual cluster, or this if larger.", minimum=1, maximum=100
    )
    user_limit_factor: float | None = param(
        None, "One user's maximum, as a multiple of the virtual cluster's guarantee. null: none.", minimum=0
    )
    preemption_grace_s: float = param(
        300, "The time that a queue below its guarantee waits before it preempts others.", minimum=0
    )
    preemption_share: float = param(
        0.1, "The largest share of all GPUs that this preemption takes at a time. 0: none.", minimum=0, maximum=1
    )

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> _Guarantees:
        return _Guarantees(view, capacity, usage, self)

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The end of the grace period of a waiting job."""
        if run is not None or not self.preemption_share:
            return None
        end = job.waiting_since + self.preemption_grace_s
        return end if end > now else None


class _Guaranteed(dict[NodeId, Mapping[str, float]]):
    """The guarantee of each queue, by resource.

    It is the part that the nominal shares of the queue and all below it are of all nominal shares, for each GPU type;
    for CPUs and memory the largest of these parts. The queue of a tenant's screening runs is guaranteed their cap.
    """

    @classmethod
    def of(cls, tree: QueueTree, total: Vector) -> _Guaranteed:
        """The guarantees of a tree in a pool with `total`."""
        kinds = [kind for kind in total if kind not in {CPUS, MEMORY_MIB}]
        roots = [root for root in tree.children(None) if not tree.screens(root)]
        quotas = {kind: sum(tree.share(root, kind) for root in roots) for kind in kinds}
        found = cls()
        for node in tree.all():
            if tree.screens(node):
                found[node] = {kind: float(tree.share(node, kind)) for kind in kinds}
                continue
            shares = {kind: tree.share(node, kind) / quota for kind, quota in quotas.items() if quota}
            largest = max(shares.values(), default=0.0)
            shares |= {CPUS: largest, MEMORY_MIB: largest}
            found[node] = {kind: amount * shares.get(kind, 0.0) for kind, amount in total.items()}
        return found


class _Guarantees(TreeLedger):
    """Shares of guaranteed and maximum capacities."""

    def __init__(self, view: View, capacity: Capacity, usage: ResourceUsage, policy: CapacityQueues) -> None:
        super().__init__(view, capacity, usage)
        self._policy = policy
        self._users: dict[int, set[int]] | None = None
        self._guaranteed = capacity.derived(_Guaranteed, lambda: _Guaranteed.of(self.tree, self.total))

    def rank(self, node: NodeId) -> Key:
        """The share of its guarantee that the queue uses."""
        return (ratio(self.used_at[node], self._guaranteed.get(node, {})),)

    def limit(self, job: Job, demand: Demand) -> Denial | None:
        """The maximum capacities above the job, and its user's limit."""
        return super().limit(job, demand) or self._user_limit(job, requested(demand))

    def _user_limit(self, job: Job, asked: Mapping[str, int]) -> Denial | None:
        leaf = self.tree.leaf(job.vc_id)
        percent, factor, name = (
            self._policy.minimum_user_limit_percent,
            self._policy.user_limit_factor,
            self.tree.name(leaf),
        )
        if percent == 100 and factor is None:
            return None
        used, guaranteed = self.used_at[leaf], self._guaranteed.get(leaf, {})
        own = self.used_by_user[job.vc_id, job.owner_id]
        for kind, amount in asked.items():
            if not amount:
                continue
            then, sure = own[kind] + amount, guaranteed.get(kind, 0.0)
            if factor is not None and then > factor * sure + EPSILON:
                what = f"a user of queue {name} may hold {factor * sure:g} {kind} at most; this one holds {own[kind]}"
                return queue_denial(what, kind, amount, possible=amount <= factor * sure + EPSILON)
            # The amount to divide: the guarantee, or what the queue will hold with the job if that is more.
            all_of_it = max(sure, float(used[kind] + amount))
            part = max(all_of_it / self._active_users(job.vc_id), all_of_it * percent / 100)
            if own[kind] and then > part + EPSILON:  # every user may start a first job
                what = f"each user of queue {name} may hold {part:g} {kind}; this one holds {own[kind]}"
                return queue_denial(what, kind, amount, possible=True)
        return None

    def _active_users(self, vc_id: int) -> int:
        """The number of users with waiting or running jobs in the virtual cluster."""
        if self._users is None:
            self._users = {}
            for job in (*self.view.waiting, *(run.job for run in self.view.running)):
                self._users.setdefault(job.vc_id, set()).add(job.owner_id)
        return max(1, len(self._users.get(vc_id, ())))

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """True if the queue with the job stays within its guarantee, and has waited for the grace period."""
        return waited_s >= self._policy.preemption_grace_s and self._within(
            self.tree.leaf(job.vc_id), _guaranteed_part(demand)
        )

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """The smallest excess over a guarantee among the run's queue and those above it, below the common parent."""
        ours, theirs = self.branches(job.vc_id, group)
        asked = _guaranteed_part(demand)
        if not theirs or not all(self._within(node, asked) for node in ours):
            return 0.0
        return min(max((self._beyond(node, kind) for kind in asked), default=0.0) for node in theirs)

    def _within(self, node: NodeId, asked: Mapping[str, int]) -> bool:
        used, guaranteed = self.used_at[node], self._guaranteed.get(node, {})
        return all(used[kind] + amount <= guaranteed.get(kind, 0.0) + EPSILON for kind, amount in asked.items())

    def _beyond(self, node: NodeId, kind: str) -> float:
        """The share of its guarantee by which the queue exceeds it; without a guarantee, the share of the pool it
        holds."""
        used, sure = self.used_at[node][kind], self._guaranteed.get(node, {}).get(kind, 0.0)
        if used <= sure + EPSILON:
            return 0.0
        return used / sure - 1.0 if sure > 0.0 else 1e6 * used


def _guaranteed_part(demand: Demand) -> Mapping[str, int]:
    """The resources that guarantees cover: the GPUs of a job that has any."""
    asked = requested(demand)
    if demand.gpu_type is not None:
        return {demand.gpu_type: asked[demand.gpu_type]}
    return {kind: amount for kind, amount in asked.items() if amount}


PLUGIN = CapacityQueues
