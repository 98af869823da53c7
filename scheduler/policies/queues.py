"""A hierarchy of queues over virtual clusters, as in YARN's schedulers, and its ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.authoring import ConfigError, Job, Key, View
from scheduler.policies.shared import ShareLedger, requested
from scheduler.workshop import Capacity, Demand, Denial, HoldReason, ResourceUsage, Vector

# Fractions of whole GPUs add up to whole GPUs only up to this error.
EPSILON = 1e-9

Row = Mapping[str, Any]


def rows_schema(fields: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The schema of a table of queues with these columns, the name and the parent."""
    return {
        "type": "array",
        "default": [],
        "description": "The queues, one row each; a row named like a virtual cluster is a leaf.",
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name of its own, or that of a virtual cluster."},
                "parent": {"type": "string", "default": "", "description": "The queue above; empty: the root."},
                **fields,
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    }


def check_rows(rows: Sequence[Row]) -> None:
    """Check that the rows form a tree.

    Raises:
        ConfigError: it names the first row at fault.
    """
    parents = {row["name"]: row.get("parent", "") for row in rows}
    if len(parents) < len(rows):
        twice = next(name for name, count in Counter(row["name"] for row in rows).items() if count > 1)
        raise ConfigError(f"queues: {twice!r} is given twice")
    for name, parent in parents.items():
        if not name:
            raise ConfigError("queues: a queue must have a name")
        if parent and parent not in parents:
            raise ConfigError(f"queues: {name!r} has the unknown parent {parent!r}")
    for name, parent in parents.items():
        above, seen = parent, {name}
        while above:
            if above in seen:
                raise ConfigError(f"queues: {name!r} is its own ancestor")
            seen.add(above)
            above = parents[above]


def column(rows: Sequence[Row], parent: str, field: str, default: float) -> float:
    """The sum of a column over the queues directly under a parent."""
    return sum(float(row.get(field, default)) for row in rows if row.get("parent", "") == parent)


class Tree:
    """The queues of a pool: the rows, and a leaf under the root for each virtual cluster without a row."""

    def __init__(self, rows: Sequence[Row], view: View) -> None:
        self.rows: dict[str, Row] = {row["name"]: row for row in rows}
        self.leaf_of: dict[int, str] = {vc.id: vc.name for vc in view.vcs}
        self.vcs_of: dict[str, list[int]] = {}
        for vc_id in sorted(self.leaf_of):
            self.vcs_of.setdefault(self.leaf_of[vc_id], []).append(vc_id)
        self._paths: dict[str, tuple[str, ...]] = {}
        self._vcs_under: dict[str, frozenset[int]] = {}
        self.children: dict[str, list[str]] = {}
        for name in sorted({*self.rows, *self.leaf_of.values()}):
            self.children.setdefault(self.parent(name), []).append(name)

    def parent(self, name: str) -> str:
        """The queue above; empty for the root."""
        return str(self.rows.get(name, {}).get("parent", ""))

    def path(self, name: str) -> tuple[str, ...]:
        """The queues from below the root down to this one."""
        if name not in self._paths:
            parent = self.parent(name)
            self._paths[name] = (*(self.path(parent) if parent else ()), name)
        return self._paths[name]

    def leaf(self, vc_id: int) -> str:
        """The leaf of a virtual cluster; one that has left the pool has a leaf of its own."""
        return self.leaf_of.get(vc_id, f"virtual cluster {vc_id}")

    def vcs_under(self, name: str) -> frozenset[int]:
        """The ids of the virtual clusters under a queue."""
        if name not in self._vcs_under:
            self._vcs_under[name] = frozenset(vc_id for vc_id, leaf in self.leaf_of.items() if name in self.path(leaf))
        return self._vcs_under[name]

    def downwards(self) -> Iterator[str]:
        """All queues, each after its parent."""
        pending = list(reversed(self.children.get("", [])))
        while pending:
            name = pending.pop()
            yield name
            pending += reversed(self.children.get(name, []))


class TreeLedger(ShareLedger):
    """Shares by virtual cluster that add up along the tree; a policy's `rank` orders siblings."""

    def __init__(self, view: View, capacity: Capacity, usage: ResourceUsage, rows: Sequence[Row]) -> None:
        self.tree = capacity.derived(Tree, lambda: Tree(rows, view))
        self.used_at: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._standings: dict[str, Key] = {}  # ranks that have not changed since they were last asked
        self._branches: dict[tuple[str, str], tuple[Sequence[str], Sequence[str]]] = {}
        super().__init__(view, capacity, usage, lambda job: job.vc_id)

    def rank(self, name: str) -> Key:
        """The position of a queue among its siblings, smaller first; its holdings can only raise it."""
        raise NotImplementedError

    def maximum(self, name: str) -> Mapping[str, float]:
        """The maximum of each resource that a queue may hold."""
        raise NotImplementedError

    def key(self, group: int) -> Key:
        """The ranks from the root down: siblings are compared where two paths part."""
        path = self.tree.path(self.tree.leaf(group))
        for name in path:
            if name not in self._standings:
                self._standings[name] = (*self.rank(name), name)
        return tuple([self._standings[name] for name in path])

    def family(self, group: int) -> Hashable:
        """The queue below the root that contains the group: jobs of one family count towards one share."""
        return self.tree.path(self.tree.leaf(group))[0]

    def charge(self, job: Job, vector: Vector, times: int) -> None:
        """See `ShareLedger`; along the whole path."""
        super().charge(job, vector, times)
        for name in self.tree.path(self.tree.leaf(job.vc_id)):
            self._standings.pop(name, None)
            used = self.used_at[name]
            for resource, amount in vector.items():
                used[resource] += times * amount

    def full_queue(self, job: Job, demand: Demand) -> str | None:
        """The lowest queue above the job whose maximum denies it the demand, or None."""
        asked = requested(demand)
        for name in reversed(self.tree.path(self.tree.leaf(job.vc_id))):
            used, maximum = self.used_at[name], self.maximum(name)
            if any(amount and used[kind] + amount > _limit(maximum, kind) for kind, amount in asked.items()):
                return name
        return None

    def limit(self, job: Job, demand: Demand) -> Denial | None:
        """The maximums of the queues above the job."""
        name = self.full_queue(job, demand)
        if name is None:
            return None
        used, maximum, asked = self.used_at[name], self.maximum(name), requested(demand)
        kind = next(kind for kind, amount in asked.items() if amount and used[kind] + amount > _limit(maximum, kind))
        what = f"queue {name} may hold {maximum.get(kind, 0.0):g} {kind} at most and holds {used[kind]}"
        return queue_denial(what, kind, asked[kind], possible=asked[kind] <= _limit(maximum, kind))

    def groups_at_limit(self, job: Job, demand: Demand) -> Collection[int] | None:
        """See `ShareLedger`: the virtual clusters under the full queue."""
        name = self.full_queue(job, demand)
        return None if name is None else self.tree.vcs_under(name)

    def branches(self, taker: int, other: int) -> tuple[Sequence[str], Sequence[str]]:
        """The two paths below the last common queue."""
        pair = (self.tree.leaf(taker), self.tree.leaf(other))
        if pair not in self._branches:
            ours, theirs = self.tree.path(pair[0]), self.tree.path(pair[1])
            depth = 0
            while depth < min(len(ours), len(theirs)) and ours[depth] == theirs[depth]:
                depth += 1
            self._branches[pair] = (ours[depth:], theirs[depth:])
        return self._branches[pair]


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
