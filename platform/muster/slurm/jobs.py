"""The jobs that scancel and scontrol act on, by their numbers, and the right to do so."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch, QuerySet

from muster.common.errors import Forbidden
from muster.fleet.models import Node
from muster.jobs.models import Allocation, Job, JobGroup
from muster.jobs.rights import require_may_act
from muster.slurm.call import Call
from muster.slurm.hostlist import expand
from muster.slurm.jobids import JobId, with_ids
from muster.slurm.records import known_jobs


@dataclass(frozen=True, slots=True)
class Named:
    """The jobs that one number means; none if the caller may see no such job."""

    id: JobId
    jobs: tuple[Job, ...]

    @property
    def waiting(self) -> tuple[Job, ...]:
        """Those of the jobs that have not ended."""
        return tuple(job for job in self.jobs if job.ended_at is None)


def named(call: Call, ids: Collection[JobId]) -> list[Named]:
    """The jobs of each number: those that wait, run, or ended a short time ago."""
    groups = Prefetch("group", JobGroup.objects.defer("spec"))
    rows = known_jobs(call.user).prefetch_related("owner", "tenant", groups).defer("spec")
    return [Named(one, tuple(with_ids(rows, [one]).order_by("pk"))) for one in ids]


def may_change(call: Call, jobs: Collection[Job]) -> bool:
    """True if the caller may change all of the jobs."""
    if not call.manages and any(job.owner_id != call.user.pk for job in jobs):
        return False
    try:
        for job in {(job.owner_id, job.tenant_id): job for job in jobs}.values():
            require_may_act(call.user, job)
    except Forbidden:
        return False
    return True


def on_nodes(text: str) -> QuerySet[Any]:
    """The ids of the jobs that run on a node of the list.

    Raises:
        ValueError: it is no list, or there is no such node; has its name.
    """
    try:
        names = expand(text)
    except ValueError as error:
        raise ValueError(text) from error
    known = set(Node.objects.filter(name__in=names).values_list("name", flat=True))
    for name in names:
        if name not in known:
            raise ValueError(name)
    live = Allocation.objects.filter(node__name__in=names, released_at__isnull=True)
    return live.values("attempt__job")
