"""Authentication: the owner of a bearer token, or of a session."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from muster.accounts.models import ApiToken, User
from muster.accounts.services import token_of_secret
from muster.jobs.attempt.tokens import PREFIX, JobToken, owner_of_job_token

MAX_TOKEN_CHARS = 200
_TOKENS = "A token from POST /api/v1/tokens, or that of a running batch script, which opens the job's own tenant."


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`, a user's or a job's. A wrong token is refused, even where a session would do."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken | JobToken] | None:
        """The owner of the token and the token, or None if the request carries none."""
        secret = bearer_secret(request.META.get("HTTP_AUTHORIZATION"))
        if secret is None:
            return None
        found = _owner_of(secret)
        if found is None:
            if secret.startswith(PREFIX):
                raise AuthenticationFailed("the token's job has ended, or its owner may not use the tenant any more")
            raise AuthenticationFailed("the token is unknown, expired or revoked")
        return found

    def authenticate_header(self, request: Request) -> str:
        """The header of a 401, which names the scheme to use."""
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The description of tokens in the OpenAPI document."""

    target_class = "muster.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """The scheme's entry among the components."""
        return {"type": "http", "scheme": "bearer", "description": _TOKENS}


@dataclass(frozen=True, slots=True)
class Caller:
    """An active user, and the token or the session by which the request was authenticated."""

    user: User
    token: ApiToken | JobToken | None = None
    session_key: str | None = None


def authenticate_request(*, authorization: str | None, session_key: str | None) -> Caller | None:
    """The caller behind a request that does not go through Django's views, or None."""
    secret = bearer_secret(authorization)
    if secret is not None:
        found = _owner_of(secret)
        return Caller(found[0], token=found[1]) if found else None
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    return Caller(user, session_key=session_key) if isinstance(user, User) and user.is_active else None


def _owner_of(secret: str) -> tuple[User, ApiToken | JobToken] | None:
    """The user who acts with this token, and the token; None if it is not good."""
    if secret.startswith(PREFIX):
        return owner_of_job_token(secret)
    token = token_of_secret(secret)
    return (token.user, token) if token else None


def bearer_secret(authorization: str | None) -> str | None:
    """The secret of a bearer header, an empty one if it is unusable, or None if there is no such header."""
    scheme, _, secret = (authorization or "").strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    secret = secret.strip()
    return secret if secret.isascii() and len(secret) <= MAX_TOKEN_CHARS else ""
