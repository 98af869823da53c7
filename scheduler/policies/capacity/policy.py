"""Guaranteed capacities; docs/policies/capacity.md describes the goal and the cost of the parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import ConfigError, Job, Key, Running, View
from scheduler.policies.queues import (
    EPSILON,
    Row,
    Tree,
    TreeLedger,
    check_rows,
    column,
    queue_denial,
    ratio,
    rows_schema,
)
from scheduler.policies.shared import Shared, requested
from scheduler.workshop import CPUS, MEMORY_MIB, Capacity, Demand, Denial, ResourceUsage, Vector

_FRACTION = {"type": "number", "minimum": 0, "maximum": 1}


@dataclass(frozen=True, slots=True)
class CapacityQueues(Shared):
    """Serves the queue next that uses the least of its guaranteed capacity; any queue may use idle capacity of others.

    Source: the Capacity Scheduler of Apache Hadoop YARN (Vavilapalli et al., SoCC 2013, §3.2, and its documentation).
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "queues": rows_schema(
                {
                    "capacity": {
                        **_FRACTION,
                        "default": 0,
                        "description": "The guarantee, as a fraction of that of the queue above.",
                    },
                    "maximum_capacity": {
                        **_FRACTION,
                        "default": 1,
                        "description": "The maximum, as a fraction of that of the queue above.",
                    },
                    "minimum_user_limit_percent": {
                        "type": "number",
                        "minimum": 1,
                        "maximum": 100,
                        "default": 100,
                        "description": "Of a leaf: each user may have an equal share of it, or this if larger.",
                    },
                    "user_limit_factor": {
                        "type": ["number", "null"],
                        "minimum": 0,
                        "default": None,
                        "description": "Of a leaf: one user's maximum, as a multiple of its guarantee. null: none.",
                    },
                }
            ),
            "preemption_grace_s": {
                "type": "number",
                "minimum": 0,
                "default": 300,
                "description": "How long a queue below its guarantee waits before it preempts others.",
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
    preemption_grace_s: float = 300
    preemption_share: float = 0.1

    def __post_init__(self) -> None:
        """Raise a `ConfigError` if the queues form no tree, or guarantee more than there is."""
        check_rows(self.queues)
        for parent in ("", *(row["name"] for row in self.queues)):
            if column(self.queues, parent, "capacity", 0.0) > 1.0 + EPSILON:
                raise ConfigError(
                    f"queues: guarantees add up to more than 1 under {repr(parent) if parent else 'the root'}"
                )
        object.__setattr__(self, "queues", tuple(self.queues))

    @property
    def max_stopping_share(self) -> float:
        """See `Shared`."""
        return self.preemption_share

    def group_of(self, job: Job) -> int:
        """See `Shared`: its virtual cluster."""
        return job.vc_id

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> _Guarantees:
        """See `Shared`."""
        return _Guarantees(view, capacity, usage, self.queues, self.preemption_grace_s)

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The end of the grace period of a waiting job."""
        if run is not None or not self.preemption_share:
            return None
        end = job.waiting_since + self.preemption_grace_s
        return end if end > now else None


@dataclass(frozen=True, slots=True)
class _Amounts:
    """Guarantee and maximum of each queue, by resource."""

    guaranteed: Mapping[str, Mapping[str, float]]
    maximum: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, tree: Tree, view: View, total: Vector) -> _Amounts:
        """The amounts of a tree in a pool with `total`."""
        guaranteed: dict[str, Mapping[str, float]] = {}
        maximum: dict[str, Mapping[str, float]] = {}
        root: Mapping[str, float] = dict(total)
        for name in tree.downwards():
            row, parent = tree.rows.get(name), tree.parent(name)
            if row is not None:
                above, limits = guaranteed.get(parent, root), maximum.get(parent, root)
                guaranteed[name] = {kind: amount * row.get("capacity", 0.0) for kind, amount in above.items()}
                maximum[name] = {kind: amount * row.get("maximum_capacity", 1.0) for kind, amount in limits.items()}
            else:
                guaranteed[name] = {} if tree.rows else _by_quota(view, tree.vcs_of[name], total)
                maximum[name] = root
        return cls(guaranteed, maximum)


def _by_quota(view: View, vc_ids: Sequence[int], total: Vector) -> Mapping[str, float]:
    """The share of the quotas in all quotas, for each GPU type; for CPUs and memory the largest of these shares."""
    quotas: Counter[str] = Counter()
    for vc in view.vcs:
        quotas.update(vc.quotas)
    shares = {
        kind: sum(view.vc_by_id[vc_id].quotas.get(kind, 0) for vc_id in vc_ids) / quota
        for kind, quota in quotas.items()
        if quota
    }
    largest = max(shares.values(), default=0.0)
    shares |= {CPUS: largest, MEMORY_MIB: largest}
    return {kind: amount * shares.get(kind, 0.0) for kind, amount in total.items()}


class _Guarantees(TreeLedger):
    """Shares of guaranteed and maximum capacities."""

    def __init__(
        self, view: View, capacity: Capacity, usage: ResourceUsage, rows: Sequence[Row], grace_s: float
    ) -> None:
        super().__init__(view, capacity, usage, rows)
        self._grace_s = grace_s
        self._users: dict[str, set[int]] | None = None
        amounts = capacity.derived(_Amounts, lambda: _Amounts.of(self.tree, view, self.total))
        self._guaranteed, self._maximum = amounts.guaranteed, amounts.maximum

    def rank(self, name: str) -> Key:
        """The share of its guarantee that the queue uses."""
        return (ratio(self.used_at[name], self._guaranteed.get(name, {})),)

    def maximum(self, name: str) -> Mapping[str, float]:
        """The queue's maximum capacity."""
        return self._maximum.get(name, self.total)

    def limit(self, job: Job, demand: Demand) -> Denial | None:
        """The maximum capacities above the job, and its user's limit."""
        return super().limit(job, demand) or self._user_limit(job, requested(demand))

    def _user_limit(self, job: Job, asked: Mapping[str, int]) -> Denial | None:
        leaf = self.tree.leaf(job.vc_id)
        row = self.tree.rows.get(leaf, {})
        percent, factor = row.get("minimum_user_limit_percent", 100), row.get("user_limit_factor")
        if percent == 100 and factor is None:
            return None
        used, guaranteed = self.used_at[leaf], self._guaranteed.get(leaf, {})
        own = self.used_by_user[job.vc_id, job.owner_id]
        for kind, amount in asked.items():
            if not amount:
                continue
            then, sure = own[kind] + amount, guaranteed.get(kind, 0.0)
            if factor is not None and then > factor * sure + EPSILON:
                what = f"a user of queue {leaf} may hold {factor * sure:g} {kind} at most; this one holds {own[kind]}"
                return queue_denial(what, kind, amount, possible=amount <= factor * sure + EPSILON)
            # The amount to divide: the guarantee, or what the queue will hold with the job if that is more.
            all_of_it = max(sure, float(used[kind] + amount))
            part = max(all_of_it / self._active_users(leaf), all_of_it * percent / 100)
            if own[kind] and then > part + EPSILON:  # every user may start a first job
                what = f"each user of queue {leaf} may hold {part:g} {kind}; this one holds {own[kind]}"
                return queue_denial(what, kind, amount, possible=True)
        return None

    def _active_users(self, leaf: str) -> int:
        """The number of users with waiting or running jobs in the leaf."""
        if self._users is None:
            self._users = {}
            for job in (*self.view.waiting, *(run.job for run in self.view.running)):
                self._users.setdefault(self.tree.leaf(job.vc_id), set()).add(job.owner_id)
        return max(1, len(self._users.get(leaf, ())))

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """Whether the queue with the job stays within its guarantee, and has waited for the grace period."""
        return waited_s >= self._grace_s and self._within(self.tree.leaf(job.vc_id), _guaranteed_part(demand))

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """How far the run's queue, and all above it below the common parent, exceed their guarantees."""
        ours, theirs = self.branches(job.vc_id, group)
        asked = _guaranteed_part(demand)
        if not theirs or not all(self._within(name, asked) for name in ours):
            return 0.0
        return min(max((self._beyond(name, kind) for kind in asked), default=0.0) for name in theirs)

    def _within(self, name: str, asked: Mapping[str, int]) -> bool:
        used, guaranteed = self.used_at[name], self._guaranteed.get(name, {})
        return all(used[kind] + amount <= guaranteed.get(kind, 0.0) + EPSILON for kind, amount in asked.items())

    def _beyond(self, name: str, kind: str) -> float:
        """The share of its guarantee by which the queue exceeds it; without a guarantee, the share of the pool it
        holds."""
        used, sure = self.used_at[name][kind], self._guaranteed.get(name, {}).get(kind, 0.0)
        if used <= sure + EPSILON:
            return 0.0
        return used / sure - 1.0 if sure > 0.0 else 1e6 * used


def _guaranteed_part(demand: Demand) -> Mapping[str, int]:
    """The resources that guarantees cover: the GPUs of a job that has any."""
    asked = requested(demand)
    if demand.gpu_type is not None:
        return {demand.gpu_type: asked[demand.gpu_type]}
    return {kind: amount for kind, amount in asked.items() if amount}
