"""The check that its pool could ever run a job."""

from __future__ import annotations

from muster.common.errors import FieldError, Invalid
from muster.jobs.models import Job
from muster.jobs.ports import ports


def require_feasible(job: Job) -> None:
    """Return if the pool of the job could run it in each of its choices, or its tenant waits for hardware.

    Raises:
        Invalid: the pool could never run it; names the field, and who may let the tenant wait.
    """
    if job.tenant.wait_for_hardware:
        return
    found = ports.why_infeasible(job, each_choice=True)
    if found is not None:
        allow = f"An operator can let tenant {job.tenant.name} submit it all the same (wait_for_hardware)"
        errors = tuple(FieldError(one.field, f"{one.message}. {allow}") for one in found.errors)
        raise Invalid.fields(errors)
