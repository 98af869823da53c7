"""A hierarchy of queues over virtual clusters, as the schedulers of YARN have it, and the books along it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.board import Key
from scheduler.holdings import Holdings, Vector
from scheduler.model import Job, View
from scheduler.placement.capacity import Capacity
from scheduler.policies.shared import Books
from scheduler.registry import ConfigError

# Fractions of whole GPUs add up to whole GPUs only up to this.
EPSILON = 1e-9

Row = Mapping[str, Any]


def rows_schema(fields: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The schema of a parameter that is a table of queues, with these columns beside the name and the parent."""
    return {
        "type": "array",
        "default": [],
        "description": "The queues, one row each; a row with the name of a virtual cluster is a leaf.",
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
    """Return if the rows make a tree, and raise a `ConfigError` that names the first that does not belong to one."""
    parents = {row["name"]: row.get("parent", "") for row in rows}
    if len(parents) < len(rows):
        twice = next(name for name, count in Counter(row["name"] for row in rows).items() if count > 1)
        raise ConfigError(f"queues: {twice!r} is there twice")
    for name, parent in parents.items():
        if not name:
            raise ConfigError("queues: a queue must have a name")
        if parent and parent not in parents:
            raise ConfigError(f"queues: {name!r} is under {parent!r}, which is not there")
    for name, parent in parents.items():
        above, seen = parent, {name}
        while above:
            if above in seen:
                raise ConfigError(f"queues: {name!r} is under itself")
            seen.add(above)
            above = parents[above]


def column(rows: Sequence[Row], parent: str, field: str, default: float) -> float:
    """The sum of a column over the queues directly under a parent."""
    return sum(float(row.get(field, default)) for row in rows if row.get("parent", "") == parent)


class Tree:
    """The queues of a pool: the rows, and a leaf under the root for each virtual cluster that no row names."""

    def __init__(self, rows: Sequence[Row], view: View) -> None:
        self.rows: dict[str, Row] = {row["name"]: row for row in rows}
        self.leaf_of: dict[int, str] = {vc.id: vc.name for vc in view.vcs}
        self.vcs_of: dict[str, list[int]] = {}
        for vc_id in sorted(self.leaf_of):
            self.vcs_of.setdefault(self.leaf_of[vc_id], []).append(vc_id)
        self._paths: dict[str, tuple[str, ...]] = {}
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
        """The leaf of a virtual cluster; one that has left the pool has one of its own."""
        return self.leaf_of.get(vc_id, f"virtual cluster {vc_id}")

    def downwards(self) -> Iterator[str]:
        """All queues, each after the one above it."""
        pending = list(reversed(self.children.get("", [])))
        while pending:
            name = pending.pop()
            yield name
            pending += reversed(self.children.get(name, []))


class TreeBooks(Books):
    """Books by virtual cluster that add up along the tree; a policy says by `rank` which of two siblings is next."""

    def __init__(self, view: View, capacity: Capacity, holdings: Holdings, rows: Sequence[Row]) -> None:
        self.tree = Tree(rows, view)
        self.used_at: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._standings: dict[str, Key] = {}  # of the queues whose rank has not changed since it was last asked
        self._branches: dict[tuple[str, str], tuple[Sequence[str], Sequence[str]]] = {}
        self._since: dict[int, float] | None = None
        super().__init__(view, capacity, holdings, lambda job: job.vc_id)

    def rank(self, name: str) -> Key:
        """Where a queue stands among its siblings, smaller first; what it holds makes it larger, never smaller."""
        raise NotImplementedError

    def key(self, group: int) -> Key:
        """The ranks from the root down: siblings are compared where two paths part."""
        path = self.tree.path(self.tree.leaf(group))
        for name in path:
            if name not in self._standings:
                self._standings[name] = (*self.rank(name), name)
        return tuple([self._standings[name] for name in path])

    def family(self, group: int) -> Hashable:
        """See `Books`: the queue below the root, in which all that has a part in common with the group is counted."""
        return self.tree.path(self.tree.leaf(group))[0]

    def charge(self, job: Job, vector: Vector, times: int) -> None:
        """See `Books`; along the whole path."""
        super().charge(job, vector, times)
        for name in self.tree.path(self.tree.leaf(job.vc_id)):
            self._standings.pop(name, None)
            used = self.used_at[name]
            for resource, amount in vector.items():
                used[resource] += times * amount

    def waited_s(self, job: Job, now: float) -> float:
        """How long the oldest waiting job of the same virtual cluster has waited."""
        if self._since is None:
            self._since = {}
            for other in self.view.waiting:
                if other.eligible_at <= now:
                    since = self._since.get(other.vc_id, other.waiting_since)
                    self._since[other.vc_id] = min(since, other.waiting_since)
        return now - self._since.get(job.vc_id, now)

    def branches(self, taker: int, other: int) -> tuple[Sequence[str], Sequence[str]]:
        """The two paths below the last queue that both have in common."""
        pair = (self.tree.leaf(taker), self.tree.leaf(other))
        if pair not in self._branches:
            ours, theirs = self.tree.path(pair[0]), self.tree.path(pair[1])
            depth = 0
            while depth < min(len(ours), len(theirs)) and ours[depth] == theirs[depth]:
                depth += 1
            self._branches[pair] = (ours[depth:], theirs[depth:])
        return self._branches[pair]


def ratio(used: Mapping[str, int], of: Mapping[str, float]) -> float:
    """The largest part of any resource that is used; what may not be used at all is used beyond all measure."""
    parts = (
        amount / of[resource] if of.get(resource, 0.0) > 0.0 else float("inf")
        for resource, amount in used.items()
        if amount > 0
    )
    return max(parts, default=0.0)
