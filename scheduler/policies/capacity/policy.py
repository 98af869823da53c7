"""Guaranteed capacities; docs/policies/capacity.md says what it optimises and what its parameters cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.engine.queue import Key
from scheduler.engine.usage import CPUS, MEMORY_MIB, ResourceUsage, Vector
from scheduler.model import Job, Running, View
from scheduler.model.plan import Denial
from scheduler.placement.capacity import Capacity
from scheduler.placement.free import Demand
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
from scheduler.policies.shared import Shared, wanted
from scheduler.registry import ConfigError

_FRACTION = {"type": "number", "minimum": 0, "maximum": 1}


@dataclass(frozen=True, slots=True)
class CapacityQueues(Shared):
    """Serves next the queue that uses the least of its guaranteed capacity; what others leave idle is anybody's.

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
                        "description": "Guaranteed, as a fraction of what is guaranteed to the queue above.",
                    },
                    "maximum_capacity": {
                        **_FRACTION,
                        "default": 1,
                        "description": "The most it may hold, as a fraction of the most of the queue above.",
                    },
                    "minimum_user_limit_percent": {
                        "type": "number",
                        "minimum": 1,
                        "maximum": 100,
                        "default": 100,
                        "description": "Of a leaf: each user may have an equal part of it, or this if it is more.",
                    },
                    "user_limit_factor": {
                        "type": ["number", "null"],
                        "minimum": 0,
                        "default": None,
                        "description": "Of a leaf: the most for one user, as a multiple of its guarantee. null: all.",
                    },
                }
            ),
            "preemption_grace_s": {
                "type": "number",
                "minimum": 0,
                "default": 300,
                "description": "How long a queue below its guarantee waits before it takes from others.",
            },
            "preemption_share": {
                **_FRACTION,
                "default": 0.1,
                "description": "Of all GPUs, how many may be on their way out at a time for that. 0: none.",
            },
        },
        "additionalProperties": False,
    }

    queues: Sequence[Row] = ()
    preemption_grace_s: float = 300
    preemption_share: float = 0.1

    def __post_init__(self) -> None:
        """Raise a `ConfigError` for queues that make no tree, or guarantee more than there is."""
        check_rows(self.queues)
        for parent in ("", *(row["name"] for row in self.queues)):
            if column(self.queues, parent, "capacity", 0.0) > 1.0 + EPSILON:
                raise ConfigError(f"queues: more than all is guaranteed under {repr(parent) if parent else 'the root'}")
        object.__setattr__(self, "queues", tuple(self.queues))

    @property
    def bound(self) -> float:
        """See `Shared`."""
        return self.preemption_share

    def group_of(self, job: Job) -> int:
        """See `Shared`: its virtual cluster."""
        return job.vc_id

    def ledger(self, view: View, capacity: Capacity, holdings: ResourceUsage) -> _Guarantees:
        """See `Shared`."""
        return _Guarantees(view, capacity, holdings, self.queues, self.preemption_grace_s)

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The end of the grace of a job that waits."""
        if run is not None or not self.preemption_share:
            return None
        end = job.waiting_since + self.preemption_grace_s
        return end if end > now else None


@dataclass(frozen=True, slots=True)
class _Amounts:
    """What each queue is guaranteed and may hold at most, by resource."""

    guaranteed: Mapping[str, Mapping[str, float]]
    maximum: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, tree: Tree, view: View, total: Vector) -> _Amounts:
        """The amounts of a tree in a pool that has `total`."""
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
    """Of each GPU type the share that the quotas have in all quotas; of CPUs and memory the largest of those."""
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
        self, view: View, capacity: Capacity, holdings: ResourceUsage, rows: Sequence[Row], grace_s: float
    ) -> None:
        super().__init__(view, capacity, holdings, rows)
        self._grace_s = grace_s
        self._users: dict[str, set[int]] | None = None
        amounts = capacity.derived(_Amounts, lambda: _Amounts.of(self.tree, view, self.total))
        self._guaranteed, self._maximum = amounts.guaranteed, amounts.maximum

    def rank(self, name: str) -> Key:
        """The part of its guarantee that it uses."""
        return (ratio(self.used_at[name], self._guaranteed.get(name, {})),)

    def maximum(self, name: str) -> Mapping[str, float]:
        """Its maximum capacity."""
        return self._maximum.get(name, self.total)

    def limit(self, job: Job, demand: Demand) -> Denial | None:
        """The maximum capacities above the job, and its user's limit."""
        return super().limit(job, demand) or self._user_limit(job, wanted(demand))

    def _user_limit(self, job: Job, want: Mapping[str, int]) -> Denial | None:
        leaf = self.tree.leaf(job.vc_id)
        row = self.tree.rows.get(leaf, {})
        percent, factor = row.get("minimum_user_limit_percent", 100), row.get("user_limit_factor")
        if percent == 100 and factor is None:
            return None
        used, guaranteed = self.used_at[leaf], self._guaranteed.get(leaf, {})
        own = self.used_by_user[job.vc_id, job.owner_id]
        for kind, amount in want.items():
            if not amount:
                continue
            then, sure = own[kind] + amount, guaranteed.get(kind, 0.0)
            if factor is not None and then > factor * sure + EPSILON:
                what = f"a user of queue {leaf} may hold {factor * sure:g} {kind} at most; this one holds {own[kind]}"
                return queue_denial(what, kind, amount, possible=amount <= factor * sure + EPSILON)
            # What there is to divide: the guarantee, or what the queue will hold with the job if that is more.
            all_of_it = max(sure, float(used[kind] + amount))
            part = max(all_of_it / self._active_users(leaf), all_of_it * percent / 100)
            if own[kind] and then > part + EPSILON:  # nobody is kept from a first job
                what = f"the part of one user of queue {leaf} is {part:g} {kind}; this one holds {own[kind]}"
                return queue_denial(what, kind, amount, possible=True)
        return None

    def _active_users(self, leaf: str) -> int:
        """How many users have jobs that wait or run in the leaf."""
        if self._users is None:
            self._users = {}
            for job in (*self.view.waiting, *(run.job for run in self.view.running)):
                self._users.setdefault(self.tree.leaf(job.vc_id), set()).add(job.owner_id)
        return max(1, len(self._users.get(leaf, ())))

    def may_take(self, job: Job, demand: Demand, waited_s: float) -> bool:
        """Whether with the job its queue stays within its guarantee, and has waited for as long as the grace."""
        return waited_s >= self._grace_s and self._within(self.tree.leaf(job.vc_id), _guaranteed_part(demand))

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """How far its queue is beyond its guarantee, and all above it up to where the two belong together."""
        ours, theirs = self.branches(job.vc_id, group)
        want = _guaranteed_part(demand)
        if not theirs or not all(self._within(name, want) for name in ours):
            return 0.0
        return min(max((self._beyond(name, kind) for kind in want), default=0.0) for name in theirs)

    def _within(self, name: str, want: Mapping[str, int]) -> bool:
        used, guaranteed = self.used_at[name], self._guaranteed.get(name, {})
        return all(used[kind] + amount <= guaranteed.get(kind, 0.0) + EPSILON for kind, amount in want.items())

    def _beyond(self, name: str, kind: str) -> float:
        """By what part of its guarantee the queue is beyond it; one without any by what it holds of all."""
        used, sure = self.used_at[name][kind], self._guaranteed.get(name, {}).get(kind, 0.0)
        if used <= sure + EPSILON:
            return 0.0
        return used / sure - 1.0 if sure > 0.0 else 1e6 * used


def _guaranteed_part(demand: Demand) -> Mapping[str, int]:
    """What a guarantee is about: the GPUs of a job that has any."""
    want = wanted(demand)
    if demand.gpu_type is not None:
        return {demand.gpu_type: want[demand.gpu_type]}
    return {kind: amount for kind, amount in want.items() if amount}
