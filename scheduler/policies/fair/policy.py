"""Fair shares; docs/policies/fair.md describes the goal and the cost of the parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import ConfigError, Job, Key, Running, View
from scheduler.policies.queues import EPSILON, Row, TreeLedger, check_rows, column, rows_schema
from scheduler.policies.shared import Shared, dominant
from scheduler.workshop import Capacity, Demand, ResourceUsage

_FRACTION = {"type": "number", "minimum": 0, "maximum": 1}
_TIMEOUT = {"type": ["number", "null"], "minimum": 0}


@dataclass(frozen=True, slots=True)
class Fair(Shared):
    """Serves queues below their minimum share first, then the queue that uses the least by weight.

    Source: the Fair Scheduler of Apache Hadoop YARN, its documentation.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "queues": rows_schema(
                {
                    "weight": {
                        "type": "number",
                        "minimum": 0,
                        "default": 1,
                        "description": "Its weight among its siblings; a queue without a row has its tenant's weight.",
                    },
                    "min_share": {
                        **_FRACTION,
                        "default": 0,
                        "description": "The fraction of the pool below which it is served before others.",
                    },
                    "max_share": {
                        **_FRACTION,
                        "default": 1,
                        "description": "The fraction of the pool beyond which it gets nothing.",
                    },
                }
            ),
            "min_share_timeout_s": {
                **_TIMEOUT,
                "default": 300,
                "description": "How long a queue below its minimum waits before it preempts. null: for ever.",
            },
            "fair_share_timeout_s": {
                **_TIMEOUT,
                "default": 900,
                "description": "How long a queue far below its fair share waits. null: for ever.",
            },
            "fair_share_threshold": {
                **_FRACTION,
                "default": 0.5,
                "description": "The share of its fair share that counts as far below.",
            },
            "preemption_share": {
                **_FRACTION,
                "default": 0.1,
                "description": "The share of all GPUs that may be stopping at a time for that. 0: none.",
            },
        },
        "additionalProperties": False,
    }

    queues: Sequence[Row] = ()
    min_share_timeout_s: float | None = 300
    fair_share_timeout_s: float | None = 900
    fair_share_threshold: float = 0.5
    preemption_share: float = 0.1

    def __post_init__(self) -> None:
        """Raise a `ConfigError` if the queues form no tree, or their minimum shares exceed the pool."""
        check_rows(self.queues)
        if column(self.queues, "", "min_share", 0.0) > 1.0 + EPSILON:
            raise ConfigError("queues: the minimum shares under the root add up to more than 1")
        object.__setattr__(self, "queues", tuple(self.queues))

    @property
    def max_stopping_share(self) -> float:
        """See `Shared`."""
        return self.preemption_share

    def group_of(self, job: Job) -> int:
        """See `Shared`: its virtual cluster."""
        return job.vc_id

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> _FairShares:
        """See `Shared`."""
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
        super().__init__(view, capacity, usage, policy.queues)
        self._policy = policy
        of_tenant = {tenant.id: tenant.weight for tenant in view.tenants}
        self._weights: dict[str, float] = {}
        for name in self.tree.downwards():
            row, vcs = self.tree.rows.get(name), self.tree.vcs_of.get(name, ())
            own = max((of_tenant.get(view.vc_by_id[vc_id].tenant_id, 1.0) for vc_id in vcs), default=1.0)
            self._weights[name] = own if row is None else row.get("weight", 1.0)
        self._fair: dict[str, Mapping[str, float]] = {}
        self._maximum: dict[str, Mapping[str, float]] = {}

    def rank(self, name: str) -> Key:
        """Queues below their minimum first, by the share of it that they hold; the others by use over weight."""
        share, least = dominant(self.used_at.get(name, {}), self.total), self._column(name, "min_share", 0.0)
        if share < least:
            return (0, share / least)
        weight = self._weights.get(name, 1.0)
        return (1, share / weight if weight > 0.0 else float("inf"))

    def maximum(self, name: str) -> Mapping[str, float]:
        """The queue's maximum share of every resource."""
        if name not in self._maximum:
            share = self._column(name, "max_share", 1.0)
            self._maximum[name] = {kind: share * amount for kind, amount in self.total.items()}
        return self._maximum[name]

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """Whether the queue has been below its minimum, or far below its fair share, for long enough."""
        kind, policy, leaf = demand.gpu_type, self._policy, self.tree.leaf(job.vc_id)
        if kind is None:
            return False
        used = self.used_at.get(leaf, Counter())[kind]
        then = used + demand.gpus * demand.nodes
        least = self._column(leaf, "min_share", 0.0) * self.total.get(kind, 0)
        if _over(waited_s, policy.min_share_timeout_s) and then <= least + EPSILON:
            return True
        fair = self._fair_share(leaf, kind)
        below = used < policy.fair_share_threshold * fair
        return below and _over(waited_s, policy.fair_share_timeout_s) and then <= fair + EPSILON

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """How many GPUs the queue holds beyond its fair share and its minimum, by weight."""
        leaf, kind = self.tree.leaf(group), demand.gpu_type
        if kind is None or leaf == self.tree.leaf(job.vc_id):
            return 0.0
        used = self.used_at.get(leaf, Counter())[kind]
        least = self._column(leaf, "min_share", 0.0) * self.total.get(kind, 0)
        beyond = used - max(self._fair_share(leaf, kind), least)
        return max(0.0, beyond) / max(self._weights.get(leaf, 1.0), EPSILON) if beyond > EPSILON else 0.0

    def _column(self, name: str, field: str, default: float) -> float:
        return float(self.tree.rows.get(name, {}).get(field, default))

    def _fair_share(self, name: str, kind: str) -> float:
        """GPUs of a type that a queue would hold if all queues with demand were served by weight from the root down."""
        if kind not in self._fair:
            asked: Counter[str] = Counter()
            for queue, used in self.used_at.items():
                asked[queue] += used[kind]
            for job in self.view.waiting:
                gpus = job.request.gpus_on(kind)
                if gpus:
                    for queue in self.tree.path(self.tree.leaf(job.vc_id)):
                        asked[queue] += gpus
            shares: dict[str, float] = {}
            self._water_fill("", float(self.total.get(kind, 0)), kind, asked, shares)
            self._fair[kind] = shares
        return self._fair[kind].get(name, 0.0)

    def _water_fill(
        self, parent: str, amount: float, kind: str, asked: Mapping[str, int], shares: dict[str, float]
    ) -> None:
        """Water-filling: equal amounts by weight, at least the minimum, at most the demand and the maximum."""
        names = [name for name in self.tree.children.get(parent, ()) if asked.get(name, 0) > 0]
        total = self.total.get(kind, 0)
        most = {name: min(float(asked[name]), self._column(name, "max_share", 1.0) * total) for name in names}
        least = {name: min(most[name], self._column(name, "min_share", 0.0) * total) for name in names}
        level, step = 0.0, (amount + 1.0) / max(min((self._weights[n] for n in names), default=1.0), EPSILON)
        for _ in range(100):  # bisection from above for the largest level that does not exceed the amount
            step /= 2
            given = sum(min(most[n], max(least[n], (level + step) * self._weights[n])) for n in names)
            if given <= amount:
                level += step
        for name in names:
            shares[name] = min(most[name], max(least[name], level * self._weights[name]))
            self._water_fill(name, shares[name], kind, asked, shares)


def _over(waited_s: float, timeout_s: float | None) -> bool:
    return timeout_s is not None and waited_s >= timeout_s
