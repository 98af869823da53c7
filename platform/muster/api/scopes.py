"""The scope that a call with a token needs, required in one place for the REST views and the streams."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from muster.accounts.models import ApiToken
from muster.accounts.scopes import Scope
from muster.common.errors import MusterError
from muster.jobs.attempt.tokens import JobToken


class MissingScope(MusterError, status=403, code="missing-scope", title="The token lacks a scope"):
    """The token does not have the scope that the call needs."""


def require_scope(token: ApiToken | JobToken | None, needed: Scope | None) -> None:
    """Return if a call with the token may be made; None for `token` is a session, which may do what its user may.

    Raises:
        MissingScope: the token lacks the scope, or the endpoint declares none (None for `needed`).
    """
    if token is None:
        return
    if needed is None:
        raise MissingScope("no token may do this; sign in on the page")
    if needed not in token.scopes and isinstance(token, JobToken):
        raise MissingScope(f"the token of a job may not do this: it has the scopes {', '.join(token.scopes)}")
    if needed not in token.scopes:
        raise MissingScope(
            f"this needs a token with the scope {needed}, and yours has: {', '.join(token.scopes)}; "
            f"make one on the page Settings, or with: muster tokens create NAME --scope {needed}"
        )


def require_open_to(token: ApiToken | JobToken | None, *, jobs: bool) -> None:
    """Return unless the token is a job's, and `jobs` says that this call is closed to these."""
    if isinstance(token, JobToken) and not jobs:
        raise MissingScope("the token of a job may not do this: use one of your own")


def scope_of(view: Any, method: str) -> Scope | None:
    """The scope that the method of a view needs: `read` for safe methods, else what `urls.py` declares for the path."""
    if method in SAFE_METHODS:
        return Scope.READ
    declared: Scope | None = getattr(view, "write_scope", None)
    return declared


class HasScope(BasePermission):
    """Lets a token do what its scopes include; an endpoint that declares no scope is closed to tokens, and one that is
    not open to jobs to their tokens."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """True; `MissingScope` tells the caller which scope is needed."""
        method = str(request.method)
        if hasattr(view, method.lower()):  # another method is answered with 405
            token = token_of(request)
            require_open_to(token, jobs=getattr(view, "open_to_jobs", False))
            require_scope(token, scope_of(view, method))
        return True


def token_of(request: Request) -> ApiToken | JobToken | None:
    """The token that the request carries, None for a session."""
    return request.auth if isinstance(request.auth, ApiToken | JobToken) else None


def api_token_of(request: Request) -> ApiToken | None:
    """The user's own token that the request carries, None for a session."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def calling_job(request: Request) -> int | None:
    """The id of the running job that sends the request; None if it is none."""
    return request.auth.job_id if isinstance(request.auth, JobToken) else None
