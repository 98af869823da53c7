"""Refuses jobs that their pool could never run, before they are stored.

Each process caches the capacity of pools, so a submission costs no query. An outdated verdict that lets a job pass does
no harm: the job waits, and its pending reason says why. A refusal is checked against the database first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Max, Sum

from muster.cells.models import CellShare, PinnedCell
from muster.common.clock import utc_now
from muster.common.errors import FieldError, Invalid
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import hardware_snapshot, job_view
from muster.fleet.models import Node, Pool
from muster.jobs.models import Job
from muster.tenants.models import CommonQuota, Organisation, Quota, VirtualCluster
from scheduler import model
from scheduler.engine.feasible import Feasibility, Resize
from scheduler.model.codec import to_json
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Denial
from scheduler.model.request import NODE_FIELDS

log = logging.getLogger(__name__)

MAX_AGE_S = 60.0
"""Seconds after which a pool is read again, so that new nodes count and old verdicts are dropped."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[Any, ...]
    read_at: float
    feasibility: Feasibility  # of the default planner
    of_vc: Mapping[int, Feasibility]  # of the virtual clusters with another planner


_known: dict[int, _Known] = {}


def why_infeasible(job: Job, *, each_choice: bool = False) -> Invalid | None:
    """The reason why the pool of a draft could never run it, with the nearest possible request; None if it could.

    With `each_choice`, a job that accepts several GPU types is refused for each of them that no node could hold.
    """
    try:
        return _judge(job, each_choice=each_choice)
    # A plug-in may fail in any way. The next cycle falls back and notifies the operators; submission continues.
    except Exception:
        log.exception("feasibility_failed pool=%s", job.pool.name)
        return None


def _judge(job: Job, *, each_choice: bool) -> Invalid | None:
    pool, known = job.pool, _known.get(job.pool.pk)
    if known is None or time.monotonic() - known.read_at > MAX_AGE_S:
        known = _read(pool)
    view = _view(job)
    refusals = _refusals(job, view, _feasibility(known, job), each_choice=each_choice)
    if refusals and known.version != _version(pool):
        known = _read(pool)
        refusals = _refusals(job, view, _feasibility(known, job), each_choice=each_choice)
    if not refusals:
        return None
    return Invalid.fields(refusals)


def _feasibility(known: _Known, job: Job) -> Feasibility:
    return known.of_vc.get(job.vc_id, known.feasibility)


def _refusals(job: Job, view: model.Job, feasibility: Feasibility, *, each_choice: bool) -> tuple[FieldError, ...]:
    """Errors of the request, for each of several choices apart."""
    denial = feasibility.denial(view)
    choices = view.request.choices
    if len(choices) > 1 and (each_choice or denial is not None):
        by_choice = [feasibility.denial(replace(view, request=view.request.given(choice))) for choice in choices]
        refusals = [
            FieldError(f"gpus.any_of.{index}", _message(job, found, "; ".join(found.helps)))
            for index, found in enumerate(by_choice)
            if found is not None and found.reason is HoldReason.INFEASIBLE
        ]
        if refusals:
            return tuple(refusals)
    if denial is not None:
        return (_refusal(job, view, denial, feasibility),)
    refusal = _size_refusal(job, view, feasibility) if each_choice and view.request.elastic is not None else None
    return () if refusal is None else (refusal,)


def _size_refusal(job: Job, view: model.Job, feasibility: Feasibility) -> FieldError | None:
    """The reason why the pool could never give the job its largest size, and the largest possible one; or None."""
    request = view.request
    each = 1 if request.over_gang else request.nodes

    def denial(gpus: int) -> Denial | None:
        found = feasibility.denial(view, gpus * each)
        return found if found is not None and found.reason is HoldReason.INFEASIBLE else None

    most = request.max_gpus // each
    found = denial(most)
    if found is None:
        return None
    largest = next(gpus for gpus in range(most - 1, 0, -1) if gpus == 1 or denial(gpus) is None)
    why = ", equally many on each of its nodes" if request.over_gang else f" on each node: {found.detail}"
    told = f"pool {job.pool.name} could never give this job {most} GPUs{why}"
    return FieldError("elastic.max", f"{told}; write max: {largest}")


def _read(pool: Pool) -> _Known:
    # Read the version first, so that the next refusal notices a change between the two reads.
    version, read_at = _version(pool), time.monotonic()
    hardware, of_vc = hardware_snapshot(pool), dict[int, Feasibility]()
    for planner in pool.planners.order_by("pk"):
        feasibility = Feasibility(hardware, config_of(pool, planner))
        of_vc |= dict.fromkeys(planner.clusters.values_list("vc_id", flat=True), feasibility)
    found = _known[pool.pk] = _Known(version, read_at, Feasibility(hardware, config_of(pool)), of_vc)
    return found


def _version(pool: Pool) -> tuple[Any, ...]:
    """A value that changes with the nodes, the tree of tenants, the planners and the settings of the pool."""
    nodes = Node.objects.filter(pool=pool).aggregate(count=Count("pk"), newest=Max("pk"), versions=Sum("version"))
    limits = ("gpu_type", "gpus", "borrowing", "lending")
    quotas = Quota.objects.filter(vc__pool=pool).order_by("pk").values_list("vc_id", *limits)
    common = CommonQuota.objects.filter(pool=pool).order_by("pk").values_list("tenant_id", "organisation_id", *limits)
    places = VirtualCluster.objects.filter(pool=pool).order_by("pk").values_list("pk", "tenant__organisation_id")
    cells = CellShare.objects.filter(vc__pool=pool).order_by("pk").values_list("vc_id", "cell", "number")
    pinned = PinnedCell.objects.filter(pool=pool).order_by("pk").values_list("vc_id", "address")
    above = Organisation.objects.order_by("pk").values_list("pk", "parent_id")
    planners = [
        (*planner.clusters.order_by("pk").values_list("pk", flat=True), str(to_json(config_of(pool, planner))))
        for planner in pool.planners.order_by("pk")
    ]
    return (
        *nodes.values(),
        *quotas,
        *common,
        *cells,
        *pinned,
        *places,
        *above,
        *planners,
        str(to_json(config_of(pool))),
    )


def _view(job: Job) -> model.Job:
    """The draft as a decision sees it after its wait for its locality."""
    draft, now = copy(job), utc_now()
    draft.submitted_at = draft.eligible_at = now
    view = job_view(draft, job_id=0, now=now.timestamp())
    if job.relax_after_s is None:
        return view
    return replace(view, request=replace(view.request, locality=model.Locality.ANY))


def _resize_by(job: Job) -> Resize:
    """CPUs and memory that the spec does not name follow the GPUs, as they do when the job is submitted."""
    named = {"cpus": "cpus", "memory": "memory_mib"}
    kept = [field for key, field in named.items() if job.spec.get(key)]

    def resize(view: model.Job, gpus: int, nodes: int) -> model.Job:
        request = view.request
        choices = tuple(
            replace(request.resized(choice, gpus), **{field: getattr(choice, field) for field in kept})
            for choice in request.choices
        )
        return replace(view, request=replace(request, choices=choices, nodes=nodes))

    return resize


def _refusal(job: Job, view: model.Job, denial: Denial, feasibility: Feasibility) -> FieldError:
    ask = "; ".join(denial.helps)
    if "allowed_nodes_that_fit" in denial.evidence:
        field = next(name for name in NODE_FIELDS if getattr(view.request, name))
        return FieldError(field, _message(job, denial, ask))
    field = "gpus"
    nearest = feasibility.nearest(view, _resize_by(job)) if len(view.request.choices) == 1 else None
    if nearest is not None:
        choice = nearest.request.first
        field = "nodes" if choice.gpus == view.request.first.gpus else "gpus"
        ask = f"ask for gpus: {choice}, nodes: {nearest.request.nodes}"
    elif "fitting_nodes" in denial.evidence and "nodes_with_gpus" in denial.evidence:
        field = "cpus"
    return FieldError(field, _message(job, denial, ask))


def _message(job: Job, denial: Denial, ask: str) -> str:
    return f"pool {job.pool.name} could never run this job: {denial.detail}; {ask}"
