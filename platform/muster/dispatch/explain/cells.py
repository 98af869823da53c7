"""Cells of pools with the admission `hived`: what virtual clusters have, what is in use, what does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from django.db import transaction
from django.db.models import F

from muster.cells.models import Binding, CellShare, Chain, PinnedCell
from muster.common.errors import Conflict, FieldError, Invalid
from muster.dispatch.config.plugins import has_cells
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.services import audit, record, wake_pool
from muster.fleet.models import Pool
from muster.tenants.edits import locked, touch
from muster.tenants.models import Quota, VirtualCluster
from scheduler.admission import ADMISSIONS
from scheduler.admission.hived import CellConfig, CellConfigError, CellLedger, Hived
from scheduler.model import Snapshot
from scheduler.model import VirtualCluster as VcView
from scheduler.model.plan import Place


@dataclass(frozen=True, slots=True)
class Demoted:
    """A guaranteed job that runs and has no cells: it counts as an opportunistic one."""

    job_id: int
    vc: str
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a change of cells; `problem` and its `field` are empty if it fits."""

    problem: str
    field: str
    demoted: Sequence[Demoted]


@dataclass(frozen=True, slots=True)
class CellsNow:
    """The cells of a pool at one moment, with the snapshot that they were read from."""

    snapshot: Snapshot
    ledger: CellLedger
    config: CellConfig


def admission_of(pool: Pool) -> Hived:
    """The pool's admission by cells; a pool with another admission is a `Conflict`."""
    if not has_cells(pool.admission):
        raise Conflict(f"pool {pool.name} has no cells: its admission is {pool.admission}, not hived")
    return cast(Hived, ADMISSIONS.make(pool.admission, pool.admission_params))


def cells_now(pool: Pool) -> CellsNow:
    """The cells of the pool and what is in them."""
    admission, snapshot = admission_of(pool), pool_snapshot(pool, seed=pool.pk)
    ledger = admission.ledger(snapshot)
    for kept in snapshot.reservations:
        job = snapshot.waiting_by_id.get(kept.job_id)
        if job is not None:
            ledger.take(job, kept.allocations)
    return CellsNow(snapshot, ledger, ledger.config)


def with_cells(pool: Pool, places: Sequence[Place]) -> list[Place]:
    """The places of guaranteed jobs on given GPUs with the cells around these, if the pool has cells."""
    if not has_cells(pool.admission):
        return list(places)
    now, bound = cells_now(pool), []
    for place in places:
        job = now.snapshot.waiting_by_id[place.job_id]
        bound.append(Place(place.job_id, now.ledger.adopted(job, place.allocations)))
        now.ledger.take(job, bound[-1].allocations)
    return bound


def set_cells(
    *, vc: VirtualCluster, version: int, cells: Mapping[str, int], pinned: Collection[str], actor: str
) -> VirtualCluster:
    """Give the virtual cluster these cells instead of its own; its quotas follow from them.

    What runs keeps its GPUs; a guaranteed job whose cells are gone becomes an opportunistic one. Cells that do not
    exist or do not fit the pool together are `Invalid`; a pool without cells and an old `version` are a `Conflict`.
    """
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).get(pk=vc.pool_id)
        admission = admission_of(pool)
        changed = _vcs_with(pool_snapshot(pool, seed=0), vc, cells, pinned)
        config = _config_with(admission, changed, vc)
        _count_change(pool, {chain.leaf_type for chain in config.chains.values()})
        vc = locked(VirtualCluster, vc.pk, version=version)
        before = _stored(vc)
        CellShare.objects.filter(vc=vc).delete()
        PinnedCell.objects.filter(vc=vc).delete()
        sizes = {name: config.size_of(name) for name in cells}
        CellShare.objects.bulk_create(
            [
                CellShare(vc=vc, cell=name, number=number, gpu_type=sizes[name][0], gpus=sizes[name][1])
                for name, number in sorted(cells.items())
                if number
            ]
        )
        pins = {address: config.size_of_pin(address) for address in sorted(set(pinned))}
        PinnedCell.objects.bulk_create(
            [PinnedCell(vc=vc, pool=pool, address=one, gpu_type=kind, gpus=gpus) for one, (kind, gpus) in pins.items()]
        )
        quotas = Counter[str]()
        for name, number in cells.items():
            quotas[sizes[name][0]] += number * sizes[name][1]
        for kind, gpus in pins.values():
            quotas[kind] += gpus
        _set_quotas(vc, quotas)
        lost = admission.ledger(changed).demoted
        _demote(changed, lost)
        touch(vc, actor=actor)
        after = _stored(vc)
        audit("set_cells", actor=actor, object_type="virtual_cluster", object_id=vc.name, before=before, after=after)
        wake_pool(pool.pk)
    return vc


def preview(*, vc: VirtualCluster, cells: Mapping[str, int], pinned: Collection[str]) -> Preview:
    """The effect that `set_cells` would have."""
    pool = vc.pool
    admission, snapshot = admission_of(pool), pool_snapshot(pool, seed=pool.pk)
    try:
        changed = _vcs_with(snapshot, vc, cells, pinned)
        _config_with(admission, changed, vc)
    except Invalid as error:
        first = error.errors[0]
        return Preview(first.message, first.field, ())
    before, after = admission.ledger(snapshot).demoted, admission.ledger(changed).demoted
    names = dict(VirtualCluster.objects.filter(pool=pool).values_list("pk", "name"))
    running = {run.job.id: run.job for run in snapshot.running}
    return Preview(
        "",
        "",
        [
            Demoted(one, names.get(running[one].vc_id, ""), "its GPUs are in no cell of its virtual cluster any more")
            for one in sorted(after - before)
        ],
    )


def _vcs_with(snapshot: Snapshot, vc: VirtualCluster, cells: Mapping[str, int], pinned: Collection[str]) -> Snapshot:
    wrong = [FieldError(f"cells.{name}", "write 0 or more") for name, number in cells.items() if number < 0]
    if wrong:
        raise Invalid.fields(wrong)
    numbers = {name: number for name, number in cells.items() if number}

    def changed(one: VcView) -> VcView:
        return replace(one, cells=numbers, pinned=tuple(sorted(set(pinned)))) if one.id == vc.pk else one

    return replace(snapshot, vcs=tuple(map(changed, snapshot.vcs)))


def _config_with(admission: Hived, snapshot: Snapshot, vc: VirtualCluster) -> CellConfig:
    try:
        return admission.checked_config(snapshot, vc.name)
    except CellConfigError as error:
        field = error.field.removeprefix(f"virtualClusters.{vc.name}.")
        field = field.replace("virtualCells", "cells").replace("pinnedCells", "pinned")
        raise Invalid.field("cells" if field == "virtualClusters" else field, error.message) from error


def _count_change(pool: Pool, gpu_types: Iterable[str]) -> None:
    """Let plans that were made before be checked anew; what is applied at this moment goes first, or waits."""
    kinds = sorted(gpu_types)
    Chain.objects.bulk_create([Chain(pool=pool, gpu_type=one) for one in kinds], ignore_conflicts=True)
    Chain.objects.filter(pool=pool, gpu_type__in=kinds).update(bindings=F("bindings") + 1)


def _demote(snapshot: Snapshot, job_ids: Collection[int]) -> None:
    """Let these running jobs hold no cells any more, and tell their owners."""
    held = Binding.objects.filter(allocation__attempt__job__in=job_ids, allocation__released_at=None)
    had = set(held.values_list("allocation__attempt__job_id", flat=True))
    held.delete()
    for job_id in sorted(had):
        tenant_id = snapshot.running_by_job[job_id].job.tenant_id
        data = {"detail": "its virtual cluster has no cell for it any more: it runs on as an opportunistic job"}
        record("job.cells_lost", actor="scheduler", tenant_id=tenant_id, job_id=job_id, data=data)


def _set_quotas(vc: VirtualCluster, quotas: Mapping[str, int]) -> None:
    """The quotas that the cells amount to. The admission that the pool falls back to, and all figures, go by them."""
    Quota.objects.filter(vc=vc).exclude(gpu_type__in=list(quotas)).update(gpus=0)
    for gpu_type, gpus in quotas.items():
        Quota.objects.update_or_create(vc=vc, gpu_type=gpu_type, defaults={"gpus": gpus})


def _stored(vc: VirtualCluster) -> dict[str, object]:
    return {
        "cells": dict(CellShare.objects.filter(vc=vc).order_by("cell").values_list("cell", "number")),
        "pinned": list(PinnedCell.objects.filter(vc=vc).order_by("address").values_list("address", flat=True)),
    }
