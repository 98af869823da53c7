"""Queues share by weight, and none gets less than its minimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from scheduler.authoring import Job, Key, Running, View, param
from scheduler.policies.queues import EPSILON, TreeLedger
from scheduler.policies.shared import Shared, dominant
from scheduler.workshop import CPUS, MEMORY_MIB, Capacity, Demand, NodeId, ResourceUsage


@dataclass(frozen=True, slots=True)
class Fair(Shared):
    """Serves queues below their minimum share first, then the queue that uses the least by weight.

    Source: the Fair Scheduler of Apache Hadoop YARN, its documentation.
    """

    nominal_minimum: bool = param(False, "Nominal shares are minimum shares: queues below theirs are served first.")
    half_life_h: float | None = param(
        None, "The half-life of past use, h. null: only GPUs held now count.", minimum=0.01
    )
    min_share_timeout_s: float | None = param(
        300, "The time that a queue below its minimum waits before it preempts. null: for ever.", minimum=0
    )
    fair_share_timeout_s: float | None = param(
        900, "The time that a queue far below its fair share waits before it preempts. null: for ever.", minimum=0
    )
    fair_share_threshold: float = param(
        0.5, "A queue below this part of its fair share is far below it.", minimum=0, maximum=1
    )
    preemption_share: float = param(
        0.1, "The largest share of all GPUs that this preemption takes at a time. 0: none.", minimum=0, maximum=1
    )

    @property
    def half_life_s(self) -> float | None:
        """The half-life with which the past use of virtual clusters decays; None: it does not count."""
        return None if self.half_life_h is None else self.half_life_h * 3600.0

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> _FairShares:
        return _FairShares(view, capacity, usage, self)

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The next timeout of a waiting job."""
        if run is not None or not self.preemption_share:
            return None
        timeouts = (self.min_share_timeout_s, self.fair_share_timeout_s)
        ends = [job.waiting_since + timeout for timeout in timeouts if timeout is not None]
        return min((end for end in ends if end > now), default=None)


class _FairShares(TreeLedger):
    """Minimum and fair shares."""

    def __init__(self, view: View, capacity: Capacity, usage: ResourceUsage, policy: Fair) -> None:
        super().__init__(view, capacity, usage)
        self._policy = policy
        self._fair: dict[str, Mapping[NodeId, float]] = {}
        self._past: dict[NodeId, float] = {}

    def rank(self, node: NodeId) -> Key:
        """Queues below their minimum first, by the share of it that they hold; the others by use over weight."""
        share = dominant(self.used_at.get(node, {}), self.total)
        least = dominant({kind: self._minimum(node, kind) for kind in self.total}, self.total)
        if share < least:
            return (0, share / least)
        weight = self.tree.weight(node)
        return (1, (share + self._past_share(node)) / weight if weight > 0.0 else float("inf"))

    def _past_share(self, node: NodeId) -> float:
        """The share of the pool that, held all the time, would have decayed to the past use of the queue."""
        half_life_s = self._policy.half_life_s
        if half_life_s is None:
            return 0.0
        if node not in self._past:
            vcs = (self.view.vc_by_id.get(vc_id) for vc_id in self.tree.vcs_under(node))
            past_gpu_s = sum(vc.past_gpu_s for vc in vcs if vc is not None)
            gpus = sum(amount for kind, amount in self.total.items() if kind not in {CPUS, MEMORY_MIB})
            self._past[node] = past_gpu_s * log(2) / half_life_s / gpus if gpus else 0.0
        return self._past[node]

    def _minimum(self, node: NodeId, kind: str) -> int:
        """The minimum share of a queue."""
        return self.tree.share(node, kind) if self._policy.nominal_minimum else 0

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """True if the queue has been below its minimum, or far below its fair share, for long enough."""
        kind, policy, leaf = demand.gpu_type, self._policy, self.tree.leaf(job.vc_id)
        if kind is None:
            return False
        used = self.used_at.get(leaf, Counter())[kind]
        then = used + demand.gpus * demand.nodes
        least = self._minimum(leaf, kind)
        if _over(waited_s, policy.min_share_timeout_s) and then <= least + EPSILON:
            return True
        fair = self._fair_share(leaf, kind)
        below = used < policy.fair_share_threshold * fair
        return below and _over(waited_s, policy.fair_share_timeout_s) and then <= fair + EPSILON

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """GPUs that the queue holds beyond its fair share and its minimum, by weight."""
        leaf, kind = self.tree.leaf(group), demand.gpu_type
        if kind is None or leaf == self.tree.leaf(job.vc_id):
            return 0.0
        used = self.used_at.get(leaf, Counter())[kind]
        least = self._minimum(leaf, kind)
        beyond = used - max(self._fair_share(leaf, kind), least)
        return max(0.0, beyond) / max(self.tree.weight(leaf), EPSILON) if beyond > EPSILON else 0.0

    def _fair_share(self, node: NodeId, kind: str) -> float:
        """GPUs of a type that a queue would hold if all queues with demand were served by weight from the root down."""
        if kind not in self._fair:
            asked: Counter[NodeId] = Counter()
            for queue, used in self.used_at.items():
                asked[queue] += used[kind]
            for job in self.view.waiting:
                gpus = job.request.gpus_on(kind)
                if gpus:
                    for queue in self.tree.path(self.tree.leaf(job.vc_id)):
                        asked[queue] += gpus
            shares: dict[NodeId, float] = {}
            self._water_fill(None, float(self.total.get(kind, 0)), kind, asked, shares)
            self._fair[kind] = shares
        return self._fair[kind].get(node, 0.0)

    def _water_fill(
        self, above: NodeId | None, amount: float, kind: str, asked: Mapping[NodeId, int], shares: dict[NodeId, float]
    ) -> None:
        """Water-filling: equal amounts by weight, at least the minimum, at most the demand and the maximum."""
        nodes = [node for node in self.tree.children(above) if asked.get(node, 0) > 0]
        weights = {node: self.tree.weight(node) for node in nodes}
        all_gpus = float(self.total.get(kind, 0))
        most = {node: min(float(asked[node]), all_gpus, self.maximum(node).get(kind, 0.0)) for node in nodes}
        least = {node: min(most[node], float(self._minimum(node, kind))) for node in nodes}
        level, step = 0.0, (amount + 1.0) / max(min(weights.values(), default=1.0), EPSILON)
        for _ in range(100):  # bisection from above for the largest level that does not exceed the amount
            step /= 2
            given = sum(min(most[n], max(least[n], (level + step) * weights[n])) for n in nodes)
            if given <= amount:
                level += step
        for node in nodes:
            shares[node] = min(most[node], max(least[node], level * weights[node]))
            self._water_fill(node, shares[node], kind, asked, shares)


def _over(waited_s: float, timeout_s: float | None) -> bool:
    return timeout_s is not None and waited_s >= timeout_s


PLUGIN = Fair
