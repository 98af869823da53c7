"""Requests to the cells of a pool, and the answers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

OPPORTUNISTIC = -1


@dataclass(frozen=True, slots=True)
class Want:
    """GPUs for a gang: `pods` has the number of GPUs of each pod, and each pod gets them on one node.

    - `priority` OPPORTUNISTIC asks for idle GPUs anywhere; 0 and more asks for cells of the virtual cluster.
    - `leaf_type` is the GPU type; None: any type that the virtual cluster owns.
    - `pinned` is the id of the pinned cell that the gang must use.
    - `suggested` are the only nodes that it may use; None: all.
    - `level` names a cell type, such as a rack: all GPUs must lie in one cell of this type.
    - `together` asks for one cell of the highest type, such as a rack, where its chain has one above nodes.
    - `distinct_nodes` gives each pod a node cell of its own.
    - `preempt` lets it have GPUs that groups of a lower priority in its virtual cluster hold.
    """

    group: Hashable
    vc: str
    priority: int
    pods: tuple[int, ...]
    leaf_type: str | None = None
    pinned: str = ""
    suggested: frozenset[str] | None = None
    level: str = ""
    together: bool = False
    distinct_nodes: bool = False
    preempt: bool = True


@dataclass(frozen=True, slots=True)
class Leaf:
    """One GPU, and the virtual cell that has it, a node or a part of one; empty: opportunistic."""

    node: str
    index: int
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """The GPUs of each pod, in the order of the pods.

    - `evicts` are the other groups that hold some of these GPUs.
    - `demotes` are the groups that `Cells.demote` must make opportunistic first (lazy preemption).
    - `virtual` has the numbers of the virtual leaf cells, for `Cells.take_as`.
    """

    pods: tuple[tuple[Leaf, ...], ...]
    evicts: frozenset[Hashable] = frozenset()
    demotes: tuple[Hashable, ...] = ()
    virtual: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """There is no place now, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The virtual cluster, the pinned cell or the GPU type that is asked for does not exist there."""

    reason: str
