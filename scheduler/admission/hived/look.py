"""The cells of a pool as nested boxes, for pages: what each physical and virtual cell is and holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from scheduler.admission.hived.pool import Cells
from scheduler.admission.hived.topology import NONE


class CellState(StrEnum):
    """HiveD's states of a cell (Zhao et al., OSDI 2020, §4, and the authors' program)."""

    FREE = "free"
    USED = "used"
    RESERVING = "reserving"
    """A job has it reserved, and another one there is still stopping."""
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class PhysicalBox:
    """A physical cell. `virtual` is the virtual cell of `vc` that it is bound to, both empty for none.

    `used` and `opportunistic` are GPUs in use by guaranteed and by opportunistic jobs. `children` is empty where all
    cells below are alike.
    """

    address: str
    type: str
    gpus: int
    healthy: bool
    state: CellState
    vc: str
    virtual: str
    used: int
    opportunistic: int
    children: tuple[PhysicalBox, ...]


@dataclass(frozen=True, slots=True)
class VirtualBox:
    """A virtual cell and the `physical` cell that it is bound to, empty for none.

    A `doomed` one has no healthy physical cell left. `jobs` hold its GPUs.
    """

    id: str
    type: str
    gpus: int
    state: CellState
    physical: str
    doomed: bool
    used: int
    jobs: tuple[int, ...]
    children: tuple[VirtualBox, ...]


class Look:
    """Draws the cells; `reserved` are the ids of the jobs that wait for GPUs which are reserved for them."""

    def __init__(self, cells: Cells, reserved: Collection[int] = ()) -> None:
        self._cells, self._reserved = cells, frozenset(reserved)
        self._doomed = {(vc, cell) for vc, cell, _ in cells.doomed()}

    def physical(self) -> tuple[PhysicalBox, ...]:
        """The top physical cells, by chain."""
        tops = self._cells.topology.tops
        return tuple(self._physical(cell) for chain in sorted(tops) for cell in tops[chain])

    def virtual(self, vc: str) -> tuple[VirtualBox, ...]:
        """The preassigned cells of a virtual cluster, its pinned ones last."""
        topology = self._cells.topology
        territories = sorted((one for one in topology.territories if one.vc == vc), key=lambda one: bool(one.pin))
        return tuple(
            self._virtual(root)
            for one in territories
            for level in sorted(one.roots, reverse=True)
            for root in one.roots[level]
        )

    def _physical(self, cell: int) -> PhysicalBox:
        topology, ground = self._cells.topology, self._cells.ground
        forest = topology.physical
        bound = ground.bound[cell]
        children = tuple(self._physical(child) for child in forest.children[cell])
        within_one = bound != NONE or not any(child.virtual for child in children)
        if within_one and children and all(_alike(child, children[0]) for child in children):
            children = ()
        return PhysicalBox(
            address=topology.address[cell],
            type=forest.chain[cell].types[forest.level[cell]],
            gpus=forest.size[cell],
            healthy=ground.healthy[cell],
            state=self._state(forest.leaves(cell)),
            vc=topology.territory[bound].vc if bound != NONE else "",
            virtual=topology.name[bound] if bound != NONE else "",
            used=ground.guaranteed[cell],
            opportunistic=ground.opportunistic[cell],
            children=children,
        )

    def _virtual(self, cell: int) -> VirtualBox:
        topology, ground = self._cells.topology, self._cells.ground
        forest = topology.virtual
        bound = ground.bound_to[cell]
        leaves = [ground.bound_to[leaf] for leaf in forest.leaves(cell) if ground.bound_to[leaf] != NONE]
        jobs = {group for leaf in leaves for group in self._cells.holders.get(leaf, ()) if isinstance(group, int)}
        children = tuple(self._virtual(child) for child in forest.children[cell]) if ground.used[cell] else ()
        if children and all(not child.children and child.jobs == children[0].jobs for child in children):
            children = ()
        return VirtualBox(
            id=topology.name[cell],
            type=forest.chain[cell].types[forest.level[cell]],
            gpus=forest.size[cell],
            state=self._state(leaves),
            physical=topology.address[bound] if bound != NONE else "",
            doomed=(topology.territory[cell].vc, topology.name[topology.root[cell]]) in self._doomed,
            used=ground.used[cell],
            jobs=tuple(sorted(jobs)),
            children=children,
        )

    def _state(self, leaves: Iterable[int]) -> CellState:
        found = CellState.FREE
        for leaf in leaves:
            holders = self._cells.holders.get(leaf)
            if not holders:
                continue
            if any(group in self._reserved for group in holders):
                return CellState.RESERVING if len(holders) > 1 else CellState.RESERVED
            found = CellState.USED
        return found


def _alike(one: PhysicalBox, other: PhysicalBox) -> bool:
    return not one.children and (one.healthy, one.state, one.vc, one.used, one.opportunistic) == (
        other.healthy,
        other.state,
        other.vc,
        other.used,
        other.opportunistic,
    )
