"""The planners of a pool: which virtual clusters each has, and the settings by which it decides.

A pool without planners decides by its own settings. They are those of its default planner, which has all virtual
clusters that are given to no other one. In code `None` stands for the default planner.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import IntegrityError, transaction

from muster.common.errors import FieldError, Invalid
from muster.dispatch.config.plugins import objections
from muster.dispatch.config.settings import decide_again
from muster.dispatch.models import PlannedCluster, Planner
from muster.events.services import audit
from muster.fleet.models import Pool
from muster.tenants.models import VirtualCluster
from scheduler.model.planners import Scope

KINDS = ("policy", "placement")
SETTINGS = tuple(name for kind in KINDS for name in (kind, f"{kind}_params"))


def planner_ids(pool_id: int) -> list[int]:
    """The ids of the pool's planners, without the default one."""
    return list(Planner.objects.filter(pool_id=pool_id).order_by("pk").values_list("pk", flat=True))


def planner_of(pool_id: int, vc_id: int) -> Planner | None:
    """The planner of the pool that decides on the jobs of the virtual cluster."""
    return Planner.objects.filter(pool_id=pool_id, clusters__vc_id=vc_id).first()


def name_of(planner: Planner | None) -> str:
    """The name of the planner in records; empty: the default planner."""
    return "" if planner is None else planner.name


def scope_of(pool: Pool, planner: Planner | None) -> Scope | None:
    """The virtual clusters of the planner; None: all of the pool, because it has no other planner."""
    if planner is not None:
        return Scope(frozenset(planner.clusters.values_list("vc_id", flat=True)))
    given = frozenset(PlannedCluster.objects.filter(planner__pool=pool).values_list("vc_id", flat=True))
    return Scope(given, rest=True) if given else None


def planner_errors(planner: Planner, virtual_clusters: Collection[VirtualCluster]) -> list[FieldError]:
    """Errors in the settings of a planner and its virtual clusters."""
    wrong = [
        FieldError(field, message)
        for kind in KINDS
        for field, message in objections(kind, getattr(planner, kind), getattr(planner, f"{kind}_params"))
    ]
    if not planner.name:
        wrong.append(FieldError("name", "write a name"))
    pool = planner.pool
    wrong += [
        FieldError("virtual_clusters", f"{vc.name} is in pool {vc.pool.name}; planner {planner.name} is of {pool.name}")
        for vc in virtual_clusters
        if vc.pool_id != pool.pk
    ]
    return wrong


def save_planner(*, planner: Planner, virtual_clusters: Collection[VirtualCluster], actor: str) -> Planner:
    """Store a new or edited planner and give it these virtual clusters; the others that it had go to the default one.

    Wrong settings, a name that is taken and a virtual cluster of another pool are `Invalid`.
    """
    pool = planner.pool
    wrong = planner_errors(planner, virtual_clusters)
    if wrong:
        raise Invalid.fields(wrong)
    with transaction.atomic():
        old = Planner.objects.select_for_update(no_key=True).filter(pk=planner.pk).first() if planner.pk else None
        before = None if old is None else _told(old)
        planner.fallback = None
        try:
            with transaction.atomic():
                planner.save()
        except IntegrityError as error:
            raise Invalid.field("name", f"pool {pool.name} has a planner {planner.name} already") from error
        planner.clusters.exclude(vc__in=virtual_clusters).delete()
        for vc in sorted(virtual_clusters, key=lambda vc: vc.pk):
            PlannedCluster.objects.update_or_create(vc=vc, defaults={"planner": planner})
        act, after = "create" if before is None else "change", _told(planner)
        audit(act, actor=actor, object_type="planner", object_id=str(planner), before=before, after=after)
        decide_again(pool, planner)
    return planner


def delete_planner(*, planner: Planner, actor: str) -> None:
    """Delete the planner and what it remembers; the pool's default planner has its virtual clusters from then on."""
    with transaction.atomic():
        audit("delete", actor=actor, object_type="planner", object_id=str(planner), before=_told(planner))
        pool = planner.pool
        planner.delete()
        decide_again(pool)


def _told(planner: Planner) -> dict[str, Any]:
    names = planner.clusters.order_by("vc__name").values_list("vc__name", flat=True)
    settings = {name: getattr(planner, name) for name in ("name", *SETTINGS, "all_or_nothing")}
    return settings | {"virtual_clusters": list(names)}
