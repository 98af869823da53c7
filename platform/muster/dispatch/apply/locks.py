"""The rows that a plan is applied under, as its admission needs them: `scheduler.admission.LockScope`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import F

from muster.cells.models import Chain
from muster.fleet.models import Gpu, Pool
from scheduler import model
from scheduler.admission import LockScope
from scheduler.engine.cycle import CycleConfig, compose
from scheduler.model import Job, View
from scheduler.model.invariants import PlanValidator, Violation
from scheduler.model.plan import Place, Plan


@dataclass(frozen=True, slots=True)
class Locked:
    """The admission that checks a plan under its locks, and the part of the pool that it checks beside the jobs."""

    validator: PlanValidator
    all_clusters: bool = False
    all_nodes: bool = False


class Locks:
    """No rows but those of the virtual clusters of the plan's jobs."""

    def __init__(self, pool: Pool, admission: PlanValidator, seen: Mapping[str, int] | None) -> None:
        self._pool, self._admission = pool, admission
        # Versions of the pool's cells that the plan was made for, by GPU type, raised by what the plan itself binds.
        self._seen = None if seen is None else dict(seen)

    def take(self, places: Iterable[Place]) -> Locked:
        """Lock what the places need."""
        return Locked(self._admission)

    def bind(self, places: Iterable[Place], gpus: Mapping[int, model.Gpu]) -> None:
        """Count that these places are taken; they are locked. `gpus` are by id."""

    def committed(self) -> None:
        """Note that what was counted since the lock is committed."""


class _OfPool(Locks):
    """The row of the pool, so that two plans that both see the last of a limit take turns."""

    def take(self, places: Iterable[Place]) -> Locked:
        list(Pool.objects.select_for_update(no_key=True).filter(pk=self._pool.pk).values_list("pk"))
        return Locked(self._admission, all_clusters=True)


class _AsPlanned:
    """The validator of a plan whose cells no other plan has used since it was made: its cells are right."""

    def __init__(self, admission: PlanValidator) -> None:
        self._admission = admission

    def violations(self, view: View, plan: Plan) -> Iterable[Violation]:
        """See `PlanValidator`."""
        return ()

    def may_evict(self, view: View, running: Job, waiting: Job) -> bool:
        """See `PlanValidator`."""
        return self._admission.may_evict(view, running, waiting)


class _OfChains(Locks):
    """The cells of the places' GPU types. The whole pool is checked only if other plans have used them meanwhile."""

    _raised: frozenset[str] = frozenset()

    def take(self, places: Iterable[Place]) -> Locked:
        self._raised = frozenset()
        gpu_ids = [gpu_id for place in places for share in place.allocations for gpu_id in share.gpu_ids]
        types = sorted(set(Gpu.objects.filter(pk__in=gpu_ids).values_list("type", flat=True)))
        Chain.objects.bulk_create([Chain(pool=self._pool, gpu_type=one) for one in types], ignore_conflicts=True)
        rows = Chain.objects.select_for_update(no_key=True).filter(pool=self._pool, gpu_type__in=types).order_by("pk")
        locked = {row.gpu_type: row.bindings for row in rows}
        if self._seen is not None and all(self._seen.get(one, 0) == bindings for one, bindings in locked.items()):
            return Locked(_AsPlanned(self._admission))
        return Locked(self._admission, all_clusters=True, all_nodes=True)

    def bind(self, places: Iterable[Place], gpus: Mapping[int, model.Gpu]) -> None:
        shares = [share for place in places for share in place.allocations if share.cells]
        types = frozenset(gpus[gpu_id].type for share in shares for gpu_id in share.gpu_ids)
        if types:
            Chain.objects.filter(pool=self._pool, gpu_type__in=types).update(bindings=F("bindings") + 1)
            self._raised = types

    def committed(self) -> None:
        if self._seen is not None:
            for one in self._raised:
                self._seen[one] = self._seen.get(one, 0) + 1
        self._raised = frozenset()


_KINDS = {LockScope.POOL: _OfPool, LockScope.VIRTUAL_CLUSTERS: Locks, LockScope.CHAINS: _OfChains}


def locks_of(pool: Pool, config: CycleConfig, seen: Mapping[str, int] | None = None) -> Locks:
    """The locks for a plan of the pool; `seen` are the versions of its cells by GPU type, None: check them anew."""
    admission = compose(config).admission
    return _KINDS[admission.lock_scope](pool, admission, seen)
