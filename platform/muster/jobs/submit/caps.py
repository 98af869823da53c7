"""The caps on one job, which its spec must keep to: its GPUs and its `time`."""

from __future__ import annotations

from muster.accounts.models import User
from muster.common.errors import FieldError, Invalid
from muster.jobs.spec.spec import JobSpec
from muster.tenants.caps import Caps
from muster.tenants.models import Tenant


def require_within_caps(spec: JobSpec, caps: Caps, *, tenant: Tenant, owner: User) -> None:
    """Return if the job keeps to the caps of its owner in the tenant; `Invalid` names the field and the limit."""
    errors = []
    whose = f"a job of {owner.username} in {tenant.name}"
    if caps.job_gpus is not None:
        most = max(choice.gpus for choice in spec.choices) * spec.nodes
        if most > caps.job_gpus:
            errors.append(FieldError("gpus", f"{whose} may have at most {caps.job_gpus} GPUs; this asks for {most}"))
        if spec.max_gpus > caps.job_gpus:
            errors.append(
                FieldError("elastic.max", f"{whose} may have at most {caps.job_gpus} GPUs; this allows {spec.max_gpus}")
            )
    if caps.time_s is not None and (spec.time_s is None or spec.time_s > caps.time_s):
        asked = "this has no limit" if spec.time_s is None else f"this asks for {spec.time}"
        errors.append(FieldError("time", f"{whose} may run for at most {_words(caps.time_s)}; {asked}"))
    if errors:
        detail = "; ".join(f"{error.field}: {error.message}" for error in errors)
        raise Invalid(f"{detail}. Managers of {tenant.name} set this limit", errors=tuple(errors))


def _words(seconds: float) -> str:
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds:g}s"
