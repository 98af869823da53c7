"""Who may change a job."""

from __future__ import annotations

from muster.accounts.models import User
from muster.common.errors import Forbidden
from muster.jobs.models import Job
from muster.tenants.selectors import is_manager


def require_may_act(user: User, job: Job) -> None:
    """Return if the user may change the job, and raise `Forbidden` with who may if not."""
    if job.owner_id != user.pk and not is_manager(user, job.tenant_id):
        raise Forbidden(f"job {job.pk} is {job.owner.username}'s: its owner and the tenant's managers may change it")
