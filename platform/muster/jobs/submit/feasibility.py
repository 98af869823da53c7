"""The check that its pool could ever run a job. The app that plans registers it when Django starts."""

from __future__ import annotations

from typing import Protocol

from muster.common.errors import FieldError, Invalid
from muster.jobs.models import Job


class Check(Protocol):
    """Why the pool of a job could never run it, naming the field; None if it could.

    With `each_choice`, every one of the GPU types that the job accepts must be one that the pool could give it.
    """

    def __call__(self, job: Job, *, each_choice: bool) -> Invalid | None:
        """The refusal of the job."""
        ...


_checks: list[Check] = []


def check_feasibility_by(check: Check) -> None:
    """Have each job checked before it is submitted."""
    _checks.append(check)


def why_infeasible(job: Job, *, each_choice: bool = False) -> Invalid | None:
    """Why the pool of the job, even if it was empty, could not run it; None if it could."""
    return next((found for check in _checks if (found := check(job, each_choice=each_choice)) is not None), None)


def require_feasible(job: Job) -> None:
    """Return if the pool of the job could run it in each of its choices, or its tenant waits for hardware.

    Raises:
        Invalid: the pool could never run it; names the field, and who may let the tenant wait.
    """
    if job.tenant.wait_for_hardware:
        return
    found = why_infeasible(job, each_choice=True)
    if found is not None:
        allow = f"An operator can let tenant {job.tenant.name} submit it all the same (wait_for_hardware)"
        errors = tuple(FieldError(one.field, f"{one.message}. {allow}") for one in found.errors)
        raise Invalid.fields(errors)
