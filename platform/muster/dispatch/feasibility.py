"""Refusing jobs that their pool could never run, before they are stored.

What a pool has is kept in each process, so that a submission costs no query. An old verdict that lets a job pass does
no harm: the job waits, and its hold says why. Only a refusal is checked against what the database has now.
"""

from __future__ import annotations

import logging
import time
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Max, Sum

from muster.common.clock import utc_now
from muster.common.errors import Invalid
from muster.dispatch.settings import config_of
from muster.dispatch.snapshot import hardware_snapshot, job_view
from muster.fleet.models import Node, Pool
from muster.jobs.models import Job
from muster.jobs.requests import gpu_type_of
from muster.tenants.models import Quota
from scheduler import model
from scheduler.engine.cycle import config_to_dict
from scheduler.engine.feasible import Feasibility, Resize
from scheduler.model.plan import Denial

log = logging.getLogger(__name__)

MAX_AGE_S = 60.0
"""After this time a pool is read again, so that new nodes are noticed and old verdicts take no memory."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[Any, ...]
    read_at: float
    feasibility: Feasibility


_known: dict[int, _Known] = {}


def why_infeasible(job: Job) -> Invalid | None:
    """Why the pool of a draft could never run it, with the nearest request that it could run; None if it could."""
    try:
        return _judge(job)
    # A plug-in may fail in any way. The next cycle falls back and tells the operators; submitting goes on.
    except Exception:
        log.exception("feasibility_failed pool=%s", job.pool.name)
        return None


def _judge(job: Job) -> Invalid | None:
    pool, known = job.pool, _known.get(job.pool.pk)
    if known is None or time.monotonic() - known.read_at > MAX_AGE_S:
        known = _read(pool)
    view = _view(job)
    denial = known.feasibility.denial(view)
    if denial is not None and known.version != _version(pool):
        known = _read(pool)
        denial = known.feasibility.denial(view)
    if denial is None:
        return None
    return _refusal(job, view, denial, known.feasibility.nearest(view, _resize_by(job)))


def _read(pool: Pool) -> _Known:
    # The version first: a change between the two is then noticed by the next refusal.
    version, read_at = _version(pool), time.monotonic()
    found = _known[pool.pk] = _Known(version, read_at, Feasibility(hardware_snapshot(pool), config_of(pool)))
    return found


def _version(pool: Pool) -> tuple[Any, ...]:
    """Differs when the nodes, the quotas or the settings of the pool have changed."""
    nodes = Node.objects.filter(pool=pool).aggregate(count=Count("pk"), newest=Max("pk"), versions=Sum("version"))
    quotas = Quota.objects.filter(vc__pool=pool).order_by("pk").values_list("vc_id", "gpu_type", "gpus")
    return (*nodes.values(), *quotas, str(config_to_dict(config_of(pool))))


def _view(job: Job) -> model.Job:
    """The draft as a decision sees it, once it has waited for as long as its locality asks for."""
    draft, now = copy(job), utc_now()
    draft.submitted_at = draft.eligible_at = now
    view = job_view(draft, job_id=0, now=now.timestamp())
    if job.relax_after_s is None:
        return view
    return replace(view, request=replace(view.request, locality=model.Locality.ANY))


def _resize_by(job: Job) -> Resize:
    """CPUs and memory that the spec does not name follow the GPUs, as they do when the job is submitted."""
    pool, spec = job.pool, job.spec

    def resize(view: model.Job, gpus: int, nodes: int) -> model.Job:
        cpus = view.cpus if spec.get("cpus") else max(1, gpus * pool.cpus_per_gpu)
        memory_mib = view.memory_mib if spec.get("memory") else max(1, gpus) * pool.memory_mib_per_gpu
        choices = tuple(replace(choice, gpus=gpus, cpus=cpus, memory_mib=memory_mib) for choice in view.request.choices)
        return replace(view, request=replace(view.request, choices=choices, nodes=nodes))

    return resize


def _refusal(job: Job, view: model.Job, denial: Denial, nearest: model.Job | None) -> Invalid:
    field, ask = "gpus", "; ".join(denial.helps)
    if nearest is not None:
        gpu_type = gpu_type_of(job.request)
        kind = f"{gpu_type}:" if gpu_type else ""
        field = "nodes" if nearest.gpus == view.gpus else "gpus"
        ask = f"ask for gpus: {kind}{nearest.gpus}, nodes: {nearest.nodes}"
    elif "fitting_nodes" in denial.evidence and "nodes_with_gpus" in denial.evidence:
        field = "cpus"
    return Invalid.field(field, f"pool {job.pool.name} could never run this job: {denial.detail}; {ask}")
