"""Tokens of running jobs, with which a batch script calls the platform. They are computed, and stored in no table."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from django.core.signing import BadSignature, Signer

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.common.rows import Whole
from muster.common.statements import Statement
from muster.jobs.models import Attempt
from scheduler.model.lifecycle import ATTEMPT_LIVE

PREFIX = "mj-"
_SIGNED = re.compile(r"mj-([0-9]{1,18})-([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class JobToken:
    """The right of an attempt's processes to act as the job's owner in the job's tenant, until the command is over."""

    attempt_id: int
    job_id: int
    tenant_id: int
    scopes: ClassVar[tuple[Scope, ...]] = (Scope.READ, Scope.SUBMIT)


def job_token(attempt_id: int) -> str:
    """The token of an attempt: its id, and that id signed with the platform's secret key."""
    return f"{PREFIX}{attempt_id}-{_signer().signature(str(attempt_id))}"


_OWNER = Whole(User, alias="owner")
_LIVE = Statement(
    f"SELECT attempt.job_id, job.tenant_id, {_OWNER.columns}"  # noqa: S608 (the models' own columns)
    " FROM jobs_attempt attempt JOIN jobs_job job ON job.id = attempt.job_id"
    " JOIN accounts_user owner ON owner.id = job.owner_id"
    " WHERE attempt.id = %s AND attempt.state = ANY(%s) AND attempt.kept_until IS NULL AND owner.is_active"
    " AND (owner.is_staff OR EXISTS (SELECT FROM tenants_membership mine"
    " WHERE mine.tenant_id = job.tenant_id AND mine.user_id = owner.id))"
)


def owner_of_job_token(secret: str) -> tuple[User, JobToken] | None:
    """The job's owner, confined to the job's tenant, and the token; None if it is forged, the attempt's command is
    over, or the owner is inactive or no longer in the tenant."""
    signed = _SIGNED.fullmatch(secret)
    if signed is None:
        return None
    attempt_id, signature = signed.groups()
    try:
        _signer().unsign(f"{attempt_id}:{signature}")
    except BadSignature:
        return None
    rows = _LIVE.rows(int(attempt_id), sorted(ATTEMPT_LIVE))
    if not rows:
        return None
    job_id, tenant_id, *columns = rows[0]
    owner = _OWNER.take(iter(columns))
    owner.confined_to = tenant_id
    return owner, JobToken(int(attempt_id), job_id, tenant_id)


def attempts_with_tokens(attempt_ids: Collection[int]) -> set[int]:
    """Those of the attempts whose tokens are still good."""
    if not attempt_ids:
        return set()
    live = Attempt.objects.filter(pk__in=attempt_ids, state__in=ATTEMPT_LIVE, kept_until__isnull=True)
    return set(live.values_list("pk", flat=True))


def _signer() -> Signer:
    return Signer(salt="muster.job-token")
