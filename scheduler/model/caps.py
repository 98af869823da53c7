"""Caps: limits on one user of a tenant, on top of the limits of virtual clusters.

A cap counts the jobs of its user in all pools of the tenant. A snapshot has the caps of users with jobs in its pool,
each with what the user holds that the snapshot does not show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.model.jobs import Job

Owner = tuple[int, int]
"""A user in a tenant: the ids of the tenant and of the user."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The limits on a user in a tenant; None: no limit. A shared GPU counts once for each job on it.

    `gpu_s_used` is what the jobs of the user have used since the month began, and `renews_at` is when the next one
    begins.
    """

    tenant_id: int
    owner_id: int
    owner: str
    gpus: int | None = None
    jobs: int | None = None
    gpu_hours_month: float | None = None
    gpus_elsewhere: int = 0
    jobs_elsewhere: int = 0
    gpu_s_used: float = 0.0
    renews_at: float = 0.0

    @property
    def used_up(self) -> bool:
        """True if the GPU-hours of the month are used."""
        return self.gpu_hours_month is not None and self.gpu_s_used >= self.gpu_hours_month * 3600


def owner_of(job: Job) -> Owner:
    """The owner whose caps count for the job."""
    return job.tenant_id, job.owner_id


def caps_by_owner(caps: Iterable[Cap]) -> dict[Owner, Cap]:
    """The caps by whose they are."""
    return {(cap.tenant_id, cap.owner_id): cap for cap in caps}
