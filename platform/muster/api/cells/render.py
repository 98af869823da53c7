"""Cells as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from muster.cells.models import CellShare, PinnedCell
from muster.dispatch.explain.cells import CellsNow, Preview
from muster.tenants.models import VirtualCluster
from muster_client.answers.cells import CellLevel, CellsPreview, PhysicalCell, PoolCells, VcCells, VirtualCell
from scheduler.admission.hived import Look, PhysicalBox, VirtualBox
from scheduler.admission.hived.pool import LevelCounts
from scheduler.model.lifecycle import JobClass

OTHER = "other"


def pool_cells(now: CellsNow, *, measured: bool, visible: Collection[str]) -> PoolCells:
    """The cells of a pool; those of virtual clusters that are not `visible` are told as `other`."""
    cells = now.ledger.cells
    config = cells.topology.config
    chains, owned = config.chains, Counter[str]()
    for assignment in config.clusters.values():
        owned.update(assignment.cells)
    return {
        "source": "measured" if measured else "configuration",
        "chains": [
            {
                "name": name,
                "leaf": chains[name].leaf_type,
                "levels": [_level(one, owned[one.path]) for one in cells.levels(name)],
            }
            for name in sorted(chains)
        ],
        "physical": [_physical(box, visible) for box in _look(now).physical()],
        "problems": [] if len(visible) < len(now.snapshot.vcs) else cells.problems(),
    }


def _level(counts: LevelCounts, owned: int) -> CellLevel:
    return {
        "type": counts.type,
        "path": counts.path,
        "gpus": counts.gpus,
        "node": counts.node,
        "total": counts.total,
        "owned": owned,
        "promised": counts.promised,
        "free": counts.free,
        "splittable": counts.splittable,
    }


def vc_cells(vc: VirtualCluster, now: CellsNow) -> VcCells:
    """The cells of a virtual cluster."""
    shares = CellShare.objects.filter(vc=vc).order_by("cell")
    pins = PinnedCell.objects.filter(vc=vc).order_by("address")
    running = [run for run in now.snapshot.running if run.vc_id == vc.pk]
    demoted = [run.job.id for run in running if run.job.id in now.ledger.demoted]
    return {
        "vc": vc.name,
        "pool": vc.pool.name,
        "version": vc.version,
        "cells": [
            {"type": one.cell, "number": one.number, "gpus": one.gpus, "gpu_type": one.gpu_type} for one in shares
        ],
        "pinned": [{"address": one.address, "gpus": one.gpus, "gpu_type": one.gpu_type} for one in pins],
        "virtual": [_virtual(box) for box in _look(now).virtual(vc.name)],
        "opportunistic_gpus": sum(
            run.gpus for run in running if run.job.job_class is JobClass.OPPORTUNISTIC or run.job.id in demoted
        ),
        "demoted": sorted(demoted),
    }


def cells_preview(preview: Preview) -> CellsPreview:
    """The effect of a change of cells."""
    return {
        "fits": not preview.problem,
        "problem": preview.problem,
        "field": preview.field,
        "opportunistic": [{"job": one.job_id, "vc": one.vc, "why": one.why} for one in preview.demoted],
    }


def _look(now: CellsNow) -> Look:
    waiting = now.snapshot.waiting_by_id
    return Look(now.ledger.cells, [one.job_id for one in now.snapshot.reservations if one.job_id in waiting])


def _physical(box: PhysicalBox, visible: Collection[str]) -> PhysicalCell:
    seen = box.vc in visible
    return {
        "address": box.address,
        "type": box.type,
        "gpus": box.gpus,
        "healthy": box.healthy,
        "used": box.used,
        "opportunistic": box.opportunistic,
        "state": box.state.value,
        "vc": (box.vc if seen else OTHER) if box.vc else None,
        "virtual": box.virtual if box.virtual and seen else None,
        "children": [_physical(child, visible) for child in box.children],
    }


def _virtual(box: VirtualBox) -> VirtualCell:
    return {
        "id": box.id,
        "type": box.type,
        "gpus": box.gpus,
        "doomed": box.doomed,
        "used": box.used,
        "state": box.state.value,
        "physical": box.physical or None,
        "jobs": list(box.jobs),
        "children": [_virtual(child) for child in box.children],
    }
