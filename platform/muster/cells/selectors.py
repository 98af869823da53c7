"""The cells of virtual clusters, and the bindings of what runs, as decisions read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster.cells.models import Binding, CellShare, Chain, PinnedCell
from scheduler.model import AllocationView, Running, VirtualCluster
from scheduler.model.lifecycle import ATTEMPT_LIVE, AllocationState


def with_cells(vcs: Iterable[VirtualCluster]) -> tuple[VirtualCluster, ...]:
    """The virtual clusters with their virtual cells and pinned cells."""
    rows = tuple(vcs)
    ids = [vc.id for vc in rows]
    cells: defaultdict[int, dict[str, int]] = defaultdict(dict)
    pinned: defaultdict[int, list[str]] = defaultdict(list)
    shares = CellShare.objects.filter(vc__in=ids).order_by("vc_id", "cell")
    for vc_id, cell, number in shares.values_list("vc_id", "cell", "number"):
        cells[vc_id][cell] = number
    for vc_id, address in PinnedCell.objects.filter(vc__in=ids).order_by("address").values_list("vc_id", "address"):
        pinned[vc_id].append(address)
    if not cells and not pinned:
        return rows
    return tuple(replace(vc, cells=cells[vc.id], pinned=tuple(pinned[vc.id])) for vc in rows)


def chain_versions(pool_id: int) -> Mapping[str, int]:
    """The number of times that jobs were bound to cells of the pool, by GPU type."""
    return dict(Chain.objects.filter(pool=pool_id).values_list("gpu_type", "bindings"))


def with_bindings(running: Iterable[Running]) -> tuple[Running, ...]:
    """The live attempts with the virtual cells that their GPUs count for."""
    runs = tuple(running)
    bound: defaultdict[tuple[int, int], dict[int, str]] = defaultdict(dict)  # by attempt and rank: cell by GPU
    rows = Binding.objects.filter(
        allocation__attempt__in=[run.attempt_id for run in runs], allocation__attempt__state__in=ATTEMPT_LIVE
    )
    for attempt_id, rank, cell, gpu_ids in rows.exclude(allocation__state=AllocationState.RELEASED).values_list(
        "allocation__attempt_id", "allocation__rank", "cell", "gpu_ids"
    ):
        bound[attempt_id, rank] |= dict.fromkeys(gpu_ids, cell)
    if not bound:
        return runs
    return tuple(
        replace(run, allocations=tuple(_bound(share, bound[run.attempt_id, share.rank]) for share in run.allocations))
        for run in runs
    )


def _bound(share: AllocationView, cells: Mapping[int, str]) -> AllocationView:
    return replace(share, cells=tuple(cells[gpu_id] for gpu_id in share.gpu_ids)) if cells else share
