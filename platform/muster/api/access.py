"""The facts behind the rights of callers, read for many of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from muster.accounts.models import ApiToken, User
from muster.accounts.selectors import live_sessions, live_tokens
from muster.api.authentication import Caller
from muster.jobs.attempt.tokens import JobToken, attempts_with_tokens
from muster.tenants.models import Membership


@dataclass(frozen=True, slots=True)
class Access:
    """The facts behind the rights of an active user: the mark of operators, and the roles as (tenant id, role)."""

    is_operator: bool
    roles: frozenset[tuple[int, str]]


def access_of(user: User) -> Access:
    """The access of an active user."""
    roles = Membership.objects.filter(user=user).values_list("tenant_id", "role")
    return Access(is_operator=user.is_staff, roles=frozenset(roles))


def accesses_of(callers: Collection[Caller]) -> dict[Caller, Access]:
    """The access of each caller whose user is active and whose token or session is alive; the others are left out."""
    user_ids = {caller.user.pk for caller in callers}
    users = dict(User.objects.filter(pk__in=user_ids, is_active=True).values_list("pk", "is_staff"))
    roles: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    memberships = Membership.objects.filter(user__in=users).values_list("user_id", "tenant_id", "role")
    for user_id, tenant_id, role in memberships:
        roles[user_id].add((tenant_id, role))
    of_users = {caller.token.pk for caller in callers if isinstance(caller.token, ApiToken)}
    of_jobs = {caller.token.attempt_id for caller in callers if isinstance(caller.token, JobToken)}
    tokens, attempts = live_tokens(of_users), attempts_with_tokens(of_jobs)
    sessions = live_sessions({caller.session_key for caller in callers if caller.session_key is not None})
    return {
        caller: Access(is_operator=users[caller.user.pk], roles=frozenset(roles[caller.user.pk]))
        for caller in callers
        if caller.user.pk in users
        and (
            caller.session_key in sessions
            if caller.token is None
            else caller.token.attempt_id in attempts
            if isinstance(caller.token, JobToken)
            else caller.token.pk in tokens
        )
    }
