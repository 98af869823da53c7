"""Cells of pools and virtual clusters."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.terms import CellState, Values


class CellLevel(TypedDict):
    """The cells of one level of a chain, other than pinned ones."""

    type: Annotated[str, "The type of the cells."]
    path: Annotated[str, "The type with those above it, as a virtual cluster names it."]
    gpus: Annotated[int, "GPUs of one cell."]
    node: Annotated[bool, "Whether such a cell is all GPUs of this type on one node."]
    total: Annotated[int, "Cells of this level."]
    owned: Annotated[int, "Cells that virtual clusters have."]
    promised: Annotated[int, "Owned cells that no job uses."]
    free: Annotated[int, "Cells that no virtual cell is bound to."]
    splittable: Annotated[int, "Cells that can be used or split without breaking a promise; negative: too few."]


class CellChain(TypedDict):
    """The cell types under one top-level type."""

    name: Annotated[str, "The top-level type."]
    leaf: Annotated[str, "The GPU type."]
    levels: Annotated[list[CellLevel], "The levels, from the top down."]


class PhysicalCell(TypedDict):
    """One physical cell."""

    address: Annotated[str, "Its address in the pool, such as rack1/node3/0."]
    type: Annotated[str, "Its type."]
    gpus: Annotated[int, "Its GPUs."]
    healthy: Annotated[bool, "Whether all nodes of it take jobs."]
    state: Annotated[
        CellState, "The state of the cell; `reserving`: reserved for a job while another one is still stopping there."
    ]
    vc: Annotated[str | None, "The virtual cluster whose cell it is bound to; `other` if you may not see it."]
    virtual: Annotated[str | None, "The virtual cell that it is bound to."]
    used: Annotated[int, "GPUs in use by guaranteed jobs."]
    opportunistic: Annotated[int, "GPUs in use by opportunistic jobs."]
    children: Annotated[list[Values], "The cells in it, as objects of this kind; empty if they do not differ."]


class PoolCells(TypedDict):
    """The cells of a pool."""

    source: Annotated[Literal["measured", "configuration"], "The source of the cells."]
    chains: Annotated[list[CellChain], "The trees of cell types."]
    physical: Annotated[list[PhysicalCell], "The top-level cells."]
    problems: Annotated[list[str], "Cells that virtual clusters cannot have now, in sentences."]


class OwnedCells(TypedDict):
    """Virtual cells of one type that a virtual cluster has."""

    type: Annotated[str, "The type, with those above it."]
    number: Annotated[int, "The number of cells."]
    gpus: Annotated[int, "GPUs of one."]
    gpu_type: Annotated[str, "Their type."]


class OwnedPin(TypedDict):
    """A physical cell that belongs to the virtual cluster."""

    address: Annotated[str, "Its address."]
    gpus: Annotated[int, "Its GPUs."]
    gpu_type: Annotated[str, "Their type."]


class VirtualCell(TypedDict):
    """One virtual cell."""

    id: Annotated[str, "Its type and number."]
    type: Annotated[str, "Its type."]
    gpus: Annotated[int, "Its GPUs."]
    state: Annotated[CellState, "The state of the cell, as for a physical one."]
    physical: Annotated[str | None, "The physical cell that it is bound to."]
    doomed: Annotated[bool, "Whether no healthy physical cell is left for it."]
    used: Annotated[int, "Its GPUs in use."]
    jobs: Annotated[list[int], "The jobs that hold its GPUs."]
    children: Annotated[list[Values], "The cells in it, as objects of this kind; empty if they do not differ."]


class VcCells(TypedDict):
    """The cells of a virtual cluster."""

    vc: Annotated[str, "Its name."]
    pool: Annotated[str, "Its pool."]
    version: Annotated[int, "The version, which a change must name."]
    cells: Annotated[list[OwnedCells], "Its virtual cells."]
    pinned: Annotated[list[OwnedPin], "Its pinned cells."]
    virtual: Annotated[list[VirtualCell], "Each virtual cell, and what it is bound to now."]
    opportunistic_gpus: Annotated[int, "GPUs that opportunistic jobs of the virtual cluster hold."]
    demoted: Annotated[list[int], "Guaranteed jobs that run without cells, as opportunistic ones."]


class DemotedJob(TypedDict):
    """A job that would run on as an opportunistic one."""

    job: Annotated[int, "Its id."]
    vc: Annotated[str, "Its virtual cluster."]
    why: Annotated[str, "Why."]


class CellsPreview(TypedDict):
    """The effect of a change of cells, if it was made now."""

    fits: Annotated[bool, "Whether the pool can hold the cells of all virtual clusters."]
    problem: Annotated[str, "The reason why they do not fit."]
    field: Annotated[str, "The field at fault."]
    opportunistic: Annotated[list[DemotedJob], "Guaranteed jobs that would become opportunistic ones."]
