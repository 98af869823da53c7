"""The lock on a pool's cells while a plan is applied, by GPU type, and whether other plans have used them meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import F

from muster.cells.models import Binding, Chain
from muster.fleet.models import Gpu, Pool
from scheduler.model import AllocationView, Job, View
from scheduler.model.invariants import PlanValidator, Violation
from scheduler.model.plan import Place, Plan


class AsPlanned:
    """The validator of a plan whose cells no other plan has used since it was made: its cells are right."""

    def __init__(self, admission: PlanValidator) -> None:
        self._admission = admission

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        """See `PlanValidator`."""
        return ()

    def may_evict(self, view: View, running: Job, waiting: Job) -> bool:
        """See `PlanValidator`."""
        return self._admission.may_evict(view, running, waiting)


class Chains:
    """The versions of a pool's cells that a plan was made for, by GPU type, raised by what the plan itself binds."""

    def __init__(self, pool: Pool, seen: Mapping[str, int] | None) -> None:
        self._pool, self._seen = pool, None if seen is None else dict(seen)
        self._raised: set[str] = set()

    def lock(self, places: Iterable[Place]) -> bool:
        """Lock the cells of the GPU types of these places. Returns whether they are as when the plan was made."""
        self._raised.clear()
        gpu_ids = [gpu_id for place in places for share in place.allocations for gpu_id in share.gpu_ids]
        types = sorted(set(Gpu.objects.filter(pk__in=gpu_ids).values_list("type", flat=True)))
        Chain.objects.bulk_create([Chain(pool=self._pool, gpu_type=one) for one in types], ignore_conflicts=True)
        rows = Chain.objects.select_for_update(no_key=True).filter(pool=self._pool, gpu_type__in=types).order_by("pk")
        locked = {row.gpu_type: row.bindings for row in rows}
        seen = self._seen
        return seen is not None and all(seen.get(one, 0) == bindings for one, bindings in locked.items())

    def bind(self, places: Iterable[Place], gpu_type: Mapping[int, str]) -> None:
        """Count that these places bind jobs to cells; they are locked. `gpu_type` is by GPU id."""
        types = {
            gpu_type[gpu_id]
            for place in places
            for share in place.allocations
            if share.cells
            for gpu_id in share.gpu_ids
        }
        if types:
            Chain.objects.filter(pool=self._pool, gpu_type__in=types).update(bindings=F("bindings") + 1)
            self._raised = types

    def committed(self) -> None:
        """What was bound since the lock is committed."""
        if self._seen is not None:
            for one in self._raised:
                self._seen[one] = self._seen.get(one, 0) + 1
        self._raised.clear()


def write_bindings(allocation_ids: Sequence[int], shares: Sequence[AllocationView]) -> None:
    """Write which GPUs of new allocations count for which virtual cells; both in one order."""
    rows: list[Binding] = []
    for allocation_id, share in zip(allocation_ids, shares, strict=True):
        if not share.cells:
            continue
        by_cell: dict[str, list[int]] = {}
        for gpu_id, cell in zip(share.gpu_ids, share.cells, strict=True):
            by_cell.setdefault(cell, []).append(gpu_id)
        rows += [Binding(allocation_id=allocation_id, cell=cell, gpu_ids=gpu_ids) for cell, gpu_ids in by_cell.items()]
    if rows:
        Binding.objects.bulk_create(rows)
