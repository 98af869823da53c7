"""The arithmetic of the tree of tenants, of one GPU type at a time, and who holds whose GPUs.

It is that of Kueue's cohorts (`pkg/cache/resource_node.go`). A node has a nominal share, a borrowing limit and a
lending limit:

- `subtree` is its nominal share and what its children lend;
- `local` is the part of it that it does not lend; only use beyond it counts in the node above;
- what is available to a node is what is left of its local part, and of what the node above has available, as far as
  the borrowing limit allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.admission.ledger import Ledger
from scheduler.admission.screening import screens
from scheduler.model import Organisation, Tenant, View, VirtualCluster


class Level(StrEnum):
    """The levels of the tree, from the leaves up."""

    VIRTUAL_CLUSTER = "vc"
    TENANT = "tenant"
    ORGANISATION = "organisation"


NodeId = tuple[Level, int]


@dataclass(frozen=True, slots=True)
class Loan:
    """GPUs of a lender's unused share that a virtual cluster holds."""

    borrower_vc: int
    lender_kind: Level
    lender_id: int
    gpu_type: str
    gpus: int


class Tree:
    """The shape and the shares of a tree of tenants; without the organisation or tenant above it, a node is a root.

    The virtual cluster of a tenant's screening runs is a root too: what they hold is no part of the tenant's use.
    """

    def __init__(self, view: View) -> None:
        self._rows: dict[NodeId, Organisation | Tenant | VirtualCluster] = {}
        above: dict[NodeId, NodeId | None] = {}
        for one in view.organisations:
            self._rows[Level.ORGANISATION, one.id] = one
            above[Level.ORGANISATION, one.id] = (Level.ORGANISATION, one.parent_id) if one.parent_id else None
        for tenant in view.tenants:
            self._rows[Level.TENANT, tenant.id] = tenant
            of = tenant.organisation_id
            above[Level.TENANT, tenant.id] = None if of is None else (Level.ORGANISATION, of)
        for vc in view.vcs:
            self._rows[Level.VIRTUAL_CLUSTER, vc.id] = vc
            above[Level.VIRTUAL_CLUSTER, vc.id] = (Level.TENANT, vc.tenant_id) if not screens(vc.id) else None
        self._above = above
        self._paths: dict[NodeId, tuple[NodeId, ...]] = {}
        self._roots: Sequence[NodeId] | None = None
        self.children: dict[NodeId, list[NodeId]] = {}
        for node in sorted(self._rows):
            if len(path := self.path(node)) > 1:
                self.children.setdefault(path[1], []).append(node)
        self._subtrees: dict[tuple[NodeId, str], int] = {}
        self._locals: dict[tuple[NodeId, str], int] = {}
        self._potential: dict[tuple[NodeId, str], int] = {}

    def path(self, node: NodeId) -> tuple[NodeId, ...]:
        """The nodes from this one up to its root."""
        if node not in self._paths:
            path, up = [node], self._above.get(node)
            while up in self._rows and up not in path:
                path.append(up)
                up = self._above[up]
            self._paths[node] = tuple(path)
        return self._paths[node]

    @property
    def roots(self) -> Sequence[NodeId]:
        """The nodes without a node above, sorted."""
        if self._roots is None:
            self._roots = [node for node in sorted(self._rows) if len(self.path(node)) == 1]
        return self._roots

    def name(self, node: NodeId) -> str:
        """The name of a node."""
        row = self._rows.get(node)
        return f"virtual cluster {node[1]}" if row is None else row.name

    def nominal(self, node: NodeId, gpu_type: str) -> int:
        """The nominal share of a node itself; 0 if it has left the pool."""
        row = self._rows.get(node)
        return 0 if row is None else row.quotas.get(gpu_type, 0)

    def weight(self, node: NodeId) -> float:
        """The weight of a node among its siblings; 1 if it has left the pool."""
        row = self._rows.get(node)
        return 1.0 if row is None else row.weight

    def borrowing(self, node: NodeId, gpu_type: str) -> int | None:
        """The borrowing limit of a node; None: no limit."""
        row = self._rows.get(node)
        return None if row is None else row.borrowing.get(gpu_type)

    def lending(self, node: NodeId, gpu_type: str) -> int | None:
        """The lending limit of a node; None: no limit."""
        row = self._rows.get(node)
        return None if row is None else row.lending.get(gpu_type)

    def screens(self, node: NodeId) -> bool:
        """True if a node is the virtual cluster of screening runs, whose quota is a cap and no share of the pool."""
        level, number = node
        return level is Level.VIRTUAL_CLUSTER and screens(number)

    def below(self, node: NodeId) -> Iterator[NodeId]:
        """The node and all nodes below it."""
        yield node
        for child in self.children.get(node, ()):
            yield from self.below(child)

    def subtree(self, node: NodeId, gpu_type: str) -> int:
        """The nominal share of a node and what its children lend."""
        key = (node, gpu_type)
        if key not in self._subtrees:
            lent = (self.subtree(one, gpu_type) - self.local(one, gpu_type) for one in self.children.get(node, ()))
            self._subtrees[key] = self.nominal(node, gpu_type) + sum(lent)
        return self._subtrees[key]

    def local(self, node: NodeId, gpu_type: str) -> int:
        """The part of a node's subtree that it does not lend."""
        key = (node, gpu_type)
        if key not in self._locals:
            limit = self.lending(node, gpu_type)
            self._locals[key] = 0 if limit is None else max(0, self.subtree(node, gpu_type) - limit)
        return self._locals[key]

    def potential(self, node: NodeId, gpu_type: str) -> int:
        """GPUs available to a node while nothing is used."""
        if (node, gpu_type) not in self._potential:
            self._potential[node, gpu_type] = Use(self).available(node, gpu_type)
        return self._potential[node, gpu_type]


class Use:
    """The GPUs that count in each node of a tree: those that its virtual clusters hold beyond what is local below."""

    def __init__(self, tree: Tree, counts: Mapping[tuple[NodeId, str], int] | None = None) -> None:
        self.tree = tree
        self._counts = Counter(counts or {})

    def of(self, node: NodeId, gpu_type: str) -> int:
        """The GPUs that count in the node."""
        return self._counts[node, gpu_type]

    def add(self, node: NodeId, gpu_type: str, gpus: int) -> None:
        """Count GPUs that a virtual cluster has got, or given up if negative."""
        for each in self.tree.path(node):
            before, local = self._counts[each, gpu_type], self.tree.local(each, gpu_type)
            self._counts[each, gpu_type] = before + gpus
            gpus = max(0, before + gpus - local) - max(0, before - local)
            if not gpus:
                return

    def available(self, node: NodeId, gpu_type: str) -> int:
        """The GPUs that the node may have on top of those that count in it."""
        tree, found = self.tree, 0
        for each in reversed(tree.path(node)):
            subtree, local, used = tree.subtree(each, gpu_type), tree.local(each, gpu_type), self.of(each, gpu_type)
            if each == tree.path(node)[-1]:
                found = subtree - used
                continue
            limit = tree.borrowing(each, gpu_type)
            if limit is not None:
                found = min(found, subtree - local - max(0, used - local) + limit)
            found += max(0, local - used)
        return found

    def exceeded(self, node: NodeId, gpu_type: str) -> NodeId | None:
        """The lowest node from this one up that holds more than its share and its borrowing limit; None: none."""
        for each in self.tree.path(node):
            used, subtree = self.of(each, gpu_type), self.tree.subtree(each, gpu_type)
            limit = self.tree.borrowing(each, gpu_type) if each != self.tree.path(node)[-1] else 0
            if limit is not None and used > subtree + limit:
                return each
        return None

    def beyond(self, node: NodeId, below: NodeId, gpu_type: str, gpus: int = 0) -> bool:
        """True if all nodes of a branch exceed their shares with `gpus` more.

        The branch is that of a leaf, up to the last node below a node above it. GPUs of a virtual cluster all of whose
        branch exceeds its shares are on loan from other branches.
        """
        path = self.tree.path(node)
        branch = path[: path.index(below)]
        for each in branch:
            used, local = self.of(each, gpu_type), self.tree.local(each, gpu_type)
            if used + gpus <= self.tree.subtree(each, gpu_type):
                return False
            gpus = max(0, used + gpus - local) - max(0, used - local)
        return bool(branch)

    def due(self, node: NodeId, below: NodeId, gpu_type: str) -> int:
        """The most GPUs that a leaf may have in addition within a share of its branch; see `beyond` for the branch.

        On the way to that share the borrowing limits of the nodes below it hold.
        """
        tree, path = self.tree, self.tree.path(node)
        found, most, spare = 0, None, 0  # within the limits so far, and what is local below and unused
        for each in path[: path.index(below)]:
            used, subtree = self.of(each, gpu_type), tree.subtree(each, gpu_type)
            unused = subtree - used + spare
            if used <= subtree:
                found = max(found, unused if most is None else min(unused, most))
            limit = tree.borrowing(each, gpu_type)
            if limit is not None:
                most = unused + limit if most is None else min(most, unused + limit)
            spare += max(0, tree.local(each, gpu_type) - used)
        return found

    def copy(self) -> Use:
        """A count that goes on from here by itself."""
        return Use(self.tree, self._counts)


def common(tree: Tree, one: NodeId, other: NodeId) -> NodeId | None:
    """The lowest node above both, or both; None: they are of different trees."""
    above = set(tree.path(other))
    return next((node for node in tree.path(one) if node in above), None)


def loans(view: View) -> tuple[Loan, ...]:
    """Loans of unused shares, sorted; the nearest lender first: the own tenant, then the own organisation.

    1. What guaranteed jobs hold beyond the share of their virtual cluster is matched, from the leaves up, with what is
       unused below the same node and may be lent that far.
    2. What is left, and what opportunistic jobs hold beyond it, is matched in the same way without limits, and at last
       between trees.

    GPUs that are in no share are on loan from no lender.
    """
    tree, usage, found = Tree(view), Ledger(view).usage, list[Loan]()
    for gpu_type in sorted({gpu_type for _, gpu_type in usage}):
        held = {vc.id: usage[vc.id, gpu_type] for vc in view.vcs}
        beyond = {vc.id: max(0, held[vc.id] - vc.quotas.get(gpu_type, 0)) for vc in view.vcs}
        matching = _Matching(tree, gpu_type, held)
        matching.match({vc.id: max(0, beyond[vc.id] - usage[-vc.id, gpu_type]) for vc in view.vcs}, limited=True)
        matching.match({vc_id: gpus - matching.borrowed[vc_id] for vc_id, gpus in beyond.items()}, limited=False)
        found += (Loan(vc_id, *lender, gpu_type, gpus) for (vc_id, lender), gpus in matching.found.items())
    return tuple(sorted(found, key=lambda loan: (loan.gpu_type, loan.borrower_vc, loan.lender_kind, loan.lender_id)))


class _Matching:
    """Matches what virtual clusters hold beyond their shares with what others hold less, the nearest first."""

    def __init__(self, tree: Tree, gpu_type: str, held: Mapping[int, int]) -> None:
        self._tree, self._type, self._limited = tree, gpu_type, True
        self.found: Counter[tuple[int, NodeId]] = Counter()
        self.borrowed: Counter[int] = Counter()
        self._spare: Counter[NodeId] = Counter()  # what is unused of each nominal share
        for root in tree.roots:
            for node in tree.below(root):
                used = held.get(node[1], 0) if node[0] is Level.VIRTUAL_CLUSTER else 0
                self._spare[node] = max(0, tree.nominal(node, gpu_type) - used)

    def match(self, wanted: Mapping[int, int], *, limited: bool) -> None:
        """Find lenders of what virtual clusters want, within the lending limits or without."""
        self._limited = limited
        missing, lenders = list[tuple[int, int]](), list[tuple[NodeId, int]]()
        for root in self._tree.roots:
            more, lent = self._match(root, wanted)
            missing += more
            lenders += lent
        if not limited:
            self._pair(missing, lenders)

    def _match(self, node: NodeId, wanted: Mapping[int, int]) -> tuple[list[tuple[int, int]], list[tuple[NodeId, int]]]:
        """GPUs that borrowers below the node still lack, and GPUs that lenders below it may lend beyond it."""
        missing, lenders = list[tuple[int, int]](), [(node, self._spare[node])]
        if node[0] is Level.VIRTUAL_CLUSTER:
            missing = [(node[1], wanted[node[1]])]
        for child in self._tree.children.get(node, ()):
            more, lent = self._match(child, wanted)
            missing += more
            lenders += lent
        missing, lenders = self._pair(missing, lenders)
        limit = self._tree.lending(node, self._type) if self._limited else None
        return missing, lenders if limit is None else list(_up_to(limit, lenders))

    def _pair(
        self, missing: list[tuple[int, int]], lenders: list[tuple[NodeId, int]]
    ) -> tuple[list[tuple[int, int]], list[tuple[NodeId, int]]]:
        """Let the first borrowers have what the first lenders have; returns what is left of both."""
        borrowers, left = [list(one) for one in missing if one[1] > 0], list[tuple[NodeId, int]]()
        for lender, has in lenders:
            spare = has
            while spare and borrowers:
                part = min(spare, borrowers[0][1])
                self.found[borrowers[0][0], lender] += part
                self.borrowed[borrowers[0][0]] += part
                self._spare[lender] -= part
                spare -= part
                borrowers[0][1] -= part
                if not borrowers[0][1]:
                    borrowers.pop(0)
            if spare:
                left.append((lender, spare))
        return [(vc_id, gpus) for vc_id, gpus in borrowers], left


def _up_to(limit: int, lenders: Sequence[tuple[NodeId, int]]) -> Iterator[tuple[NodeId, int]]:
    """The first lenders, as far as they have no more than the limit together."""
    for lender, gpus in lenders:
        part = min(gpus, limit)
        limit -= part
        if part:
            yield lender, part
