"""The check that its pool could ever run a job. The app that plans registers it when Django starts."""

from __future__ import annotations

from collections.abc import Callable

from muster.jobs.models import Job

Check = Callable[[Job], None]
"""Raises `Invalid`, which names the field, for a job that its pool could never run."""

_checks: list[Check] = []


def check_feasibility_by(check: Check) -> None:
    """Have each job checked before it is submitted."""
    _checks.append(check)


def require_feasible(job: Job) -> None:
    """Return if the pool of the job could run it, or its tenant waits for hardware; raises `Invalid` otherwise."""
    if not job.tenant.wait_for_hardware:
        for check in _checks:
            check(job)
