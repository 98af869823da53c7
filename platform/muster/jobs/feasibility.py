"""The check that its pool could ever run a job. The app that plans registers it when Django starts."""

from __future__ import annotations

from collections.abc import Callable

from muster.common.errors import Invalid
from muster.jobs.models import Job

Check = Callable[[Job], Invalid | None]
"""Why the pool of a job could never run it, naming the field; None if it could."""

_checks: list[Check] = []


def check_feasibility_by(check: Check) -> None:
    """Have each job checked before it is submitted."""
    _checks.append(check)


def why_infeasible(job: Job) -> Invalid | None:
    """Why the pool of the job, even if it was empty, could not run it; None if it could."""
    return next((found for check in _checks if (found := check(job)) is not None), None)


def require_feasible(job: Job) -> None:
    """Return if the pool of the job could run it, or its tenant waits for hardware.

    Raises:
        Invalid: the pool could never run it; names the field, and who may let the tenant wait.
    """
    if job.tenant.wait_for_hardware:
        return
    found = why_infeasible(job)
    if found is not None:
        (error,) = found.errors
        allow = f"An operator can let tenant {job.tenant.name} submit it all the same (wait_for_hardware)"
        raise Invalid.field(error.field, f"{error.message}. {allow}")
