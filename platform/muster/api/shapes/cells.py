"""Cells of pools and virtual clusters."""

from __future__ import annotations

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Shape, Text, values
from scheduler.admission.hived import CellState

CELL_STATES = values(CellState)


class CellLevel(Shape):
    """The cells of one level of a chain, other than pinned ones."""

    type = Text(help_text="The type of the cells.")
    path = Text(help_text="The type with those above it, as a virtual cluster names it.")
    gpus = Integer(help_text="GPUs of one cell.")
    node = Flag(help_text="Whether such a cell is all GPUs of this type on one node.")
    total = Integer(help_text="Cells of this level.")
    owned = Integer(help_text="Cells that virtual clusters have.")
    promised = Integer(help_text="Those of them that nothing uses.")
    free = Integer(help_text="Cells that no virtual cell is bound to.")
    splittable = Integer(help_text="Cells that can be used or split without breaking a promise; negative: too few.")


class CellChain(Shape):
    """The cell types under one top-level type."""

    name = Text(help_text="The top-level type.")
    leaf = Text(help_text="The GPU type.")
    levels = CellLevel(many=True, help_text="From the top down.")


class PhysicalCell(Shape):
    """One physical cell."""

    address = Text(help_text="Its address in the pool, such as rack1/node3/0.")
    type = Text(help_text="Its type.")
    gpus = Integer(help_text="Its GPUs.")
    healthy = Flag(help_text="Whether all nodes of it take jobs.")
    state = Choice(
        CELL_STATES, help_text="`reserving`: a job has it reserved, and another one is still stopping there."
    )
    vc = Text(allow_null=True, help_text="Whose virtual cell it is bound to; `other` for one that you do not see.")
    virtual = Text(allow_null=True, help_text="That virtual cell.")
    used = Integer(help_text="GPUs in use by guaranteed jobs.")
    opportunistic = Integer(help_text="GPUs in use by opportunistic jobs.")
    children = serializers.ListField(
        child=serializers.DictField(), help_text="The cells in it, as objects of this kind; empty if all are alike."
    )


class PoolCells(Shape):
    """The cells of a pool."""

    source = Choice(  # type: ignore[assignment]
        [("measured", "MEASURED"), ("configuration", "CONFIGURATION")], help_text="Where they come from."
    )
    chains = CellChain(many=True, help_text="The trees of cell types.")
    physical = PhysicalCell(many=True, help_text="The top-level cells.")
    problems = serializers.ListField(child=Text(), help_text="What virtual clusters cannot have now, in sentences.")


class OwnedCells(Shape):
    """How many virtual cells of one type a virtual cluster has."""

    type = Text(help_text="The type, with those above it.")
    number = Integer(help_text="How many.")
    gpus = Integer(help_text="GPUs of one.")
    gpu_type = Text(help_text="Their type.")


class OwnedPin(Shape):
    """A physical cell that belongs to the virtual cluster."""

    address = Text(help_text="Its address.")
    gpus = Integer(help_text="Its GPUs.")
    gpu_type = Text(help_text="Their type.")


class VirtualCell(Shape):
    """One virtual cell."""

    id = Text(help_text="Its type and number.")
    type = Text(help_text="Its type.")
    gpus = Integer(help_text="Its GPUs.")
    state = Choice(CELL_STATES, help_text="As of a physical cell.")
    physical = Text(allow_null=True, help_text="The physical cell that it is bound to.")
    doomed = Flag(help_text="Whether no healthy physical cell is left for it.")
    used = Integer(help_text="Its GPUs in use.")
    jobs = serializers.ListField(child=Integer(), help_text="The jobs that hold its GPUs.")
    children = serializers.ListField(
        child=serializers.DictField(), help_text="The cells in it, as objects of this kind; empty if all are alike."
    )


class VcCells(Shape):
    """The cells of a virtual cluster."""

    vc = Text(help_text="Its name.")
    pool = Text(help_text="Its pool.")
    version = Integer(help_text="Send it back with a change.")
    cells = OwnedCells(many=True, help_text="Its virtual cells.")
    pinned = OwnedPin(many=True, help_text="Its pinned cells.")
    virtual = VirtualCell(many=True, help_text="Each virtual cell, and what it is bound to now.")
    opportunistic_gpus = Integer(help_text="GPUs that opportunistic jobs of the virtual cluster hold.")
    demoted = serializers.ListField(
        child=Integer(), help_text="Guaranteed jobs that run without cells, as opportunistic ones."
    )


class CellsWanted(Shape):
    """The cells that a virtual cluster is to have."""

    cells = serializers.DictField(child=Integer(), required=False, help_text="The number of cells by type.")
    pinned = serializers.ListField(
        child=Text(max_length=255), required=False, help_text="Addresses of physical cells for it alone."
    )


class CellsChange(CellsWanted):
    """The cells that a virtual cluster gets instead of its own."""

    version = Integer(help_text="The version that the change was made for.")


class DemotedJob(Shape):
    """A job that would run on as an opportunistic one."""

    job = Integer(help_text="Its id.")
    vc = Text(help_text="Its virtual cluster.")
    why = Text(help_text="Why.")


class CellsPreview(Shape):
    """What would become of a change."""

    fits = Flag(help_text="Whether the pool can hold the cells of all virtual clusters.")
    problem = Text(allow_blank=True, help_text="What does not fit.")
    field = Text(allow_blank=True, help_text="The field at fault.")
    opportunistic = DemotedJob(many=True, help_text="Guaranteed jobs that would become opportunistic ones.")
