"""Rights to change a job or a group of jobs."""

from __future__ import annotations

from muster.accounts.models import User
from muster.common.errors import Forbidden
from muster.jobs.models import Job, JobGroup
from muster.tenants.selectors import is_manager


def require_may_act(user: User, what: Job | JobGroup) -> None:
    """Return if the user may change it, and raise `Forbidden` with who may if not."""
    if what.owner_id != user.pk and not is_manager(user, what.tenant_id):
        noun = what.kind if isinstance(what, JobGroup) else "job"
        owner = what.owner.username
        raise Forbidden(f"{noun} {what.pk} is {owner}'s: its owner and the tenant's managers may change it")
