"""The platform's own jobs as a trace for the simulator: docs/reference/simulator-formats.md defines the format."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT

from muster.fleet.models import Pool
from muster.jobs.attempt.history import user_s_of
from muster.jobs.models import Attempt, Job
from muster.jobs.spec.requests import gpu_type_of
from muster.samples.models import SpeedAlone
from muster.tenants.models import Quota
from scheduler.model.lifecycle import JOB_TERMINAL, Stage
from scheduler.model.request import Request
from scheduler.predict.scaling import speeds_of
from scheduler.sim.readers.muster import header

ROWS_AT_ONCE = 2000


def trace_lines(*, pool: Pool | None, since: datetime | None, anonymous: bool) -> Iterator[str]:
    """The lines of the trace: the header, then each finished job, by the time of its submission."""
    yield header(_quotas(pool))
    jobs: QuerySet[Job] = Job.objects.filter(state__in=sorted(JOB_TERMINAL)).order_by("submitted_at", "pk")
    if pool is not None:
        jobs = jobs.filter(vc__pool=pool)  # its own, also where a job's last is the one in which it was screened
    if since is not None:
        jobs = jobs.filter(submitted_at__gte=since)
    ran = Attempt.objects.filter(job=OuterRef("pk"), stage=Stage.FULL).order_by("-number").values("request")
    jobs = jobs.annotate(given=Subquery(ran[:1]), told=KT("spec__expected"))
    for job in jobs.select_related("tenant", "vc", "owner").defer("spec", "hold", "memo").iterator(ROWS_AT_ONCE):
        # What a job with several choices asks for is no one size: what it ran in last is.
        given: Request | None = job.given if len(job.request.choices) > 1 else None
        choice = None if given is None else job.request.choice_of(given.first.gpu_type)
        request = job.request if choice is None else replace(job.request, choices=(choice,))
        yield json.dumps(_record(job, request, job.told, anonymous))


def pseudonym(kind: str, name: str) -> str:
    """A pseudonym for a name: stable on this platform, and not reversible."""
    key = f"trace:{settings.SECRET_KEY}".encode()
    return f"{kind}-{hmac.new(key, f'{kind}:{name}'.encode(), hashlib.sha256).hexdigest()[:12]}"


def _record(job: Job, request: Request, told: str | None, anonymous: bool) -> dict[str, Any]:
    record = {
        "submitted_at": job.submitted_at.isoformat(),
        "name": pseudonym("job", job.name) if anonymous else job.name,
        "tenant": job.tenant.name,
        "vc": job.vc.name,
        "owner": pseudonym("user", job.owner.username) if anonymous else job.owner.username,
        "gpus": request.first.gpus * request.nodes,
        "nodes": request.nodes,
        "gpu_type": gpu_type_of(request) or None,
        "cpus": request.first.cpus * request.nodes,
        "memory_mib": request.first.memory_mib * request.nodes,
        "priority": job.priority,
        "class": job.klass,
        "preemptible": job.preemptible,
        "time_limit_s": job.time_limit_s,
        "expected_s": user_s_of(told),
        "run_s": round(job.ran_s, 3) if job.attempt_count else None,
        "status": job.state,
        "attempts": job.attempt_count,
    }
    if request.elastic is not None and job.attempt_count:
        record |= {"over": request.elastic.over, **_sizes(job, request)}
    if job.started_at is not None:
        record["waited_s"] = max(0.0, round((job.started_at - job.submitted_at).total_seconds(), 3))
    return record


def _sizes(job: Job, request: Request) -> dict[str, Any]:
    """The sizes and speeds of an elastic job, and its run time as if it had kept the size that it asked for."""
    asked = request.gpus_total
    by_type: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for kind, gpus, per_s in SpeedAlone.objects.filter(job=job).values_list("gpu_type", "gpus", "per_s"):
        by_type[kind][gpus] = per_s
    speeds = speeds_of(max(by_type.values(), key=len, default={}), request.max_gpus)
    ran = Attempt.objects.filter(job=job, stage=Stage.FULL, ended_at__isnull=False)
    done_s = sum(
        (one.ended_at - one.placed_at).total_seconds() * speeds[one.gpus_total - 1] / speeds[asked - 1]
        for one in ran
        if one.ended_at is not None
    )
    return {
        "min_gpus": request.min_gpus,
        "max_gpus": request.max_gpus,
        "speeds": [round(speed, 4) for speed in speeds],
        "run_s": round(done_s, 3),
    }


def _quotas(pool: Pool | None) -> dict[str, dict[str, int]]:
    rows = Quota.objects.all() if pool is None else Quota.objects.filter(vc__pool=pool)
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, gpu_type, gpus in rows.order_by("vc__name", "gpu_type").values_list("vc__name", "gpu_type", "gpus"):
        found[name][gpu_type] = gpus
    return dict(found)
