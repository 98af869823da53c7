"""Signing in and out, the caller, and their password, tokens and sessions."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import login, logout, update_session_auth_hash
from django.middleware.csrf import get_token
from rest_framework import status
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from muster.accounts.models import ApiToken
from muster.accounts.selectors import sessions_of
from muster.accounts.services import (
    change_email,
    change_password,
    create_token,
    end_other_sessions,
    end_session,
    revoke_token,
    set_token_survival,
)
from muster.accounts.signin import describe_session, sign_in
from muster.api import limits
from muster.api.accounts import bodies, render
from muster.api.base import ApiView, body_of, caller, describe
from muster.api.scopes import api_token_of
from muster.common.errors import Invalid
from muster.common.secrets import digest
from muster.jobs.spec.units import parse_duration_s
from muster_client.answers import accounts as answers


class Login(ApiView):
    authentication_classes = []
    permission_classes = [AllowAny]

    @describe("prepare_login", "account", {204: None}, anonymous=True)
    def get(self, request: Request) -> Response:
        """Set the `csrftoken` cookie, which every write of a session sends back as X-CSRFToken."""
        get_token(request._request)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @describe(
        "login", "account", {200: answers.Me}, problems=(401, 403, 422, 429), request=bodies.Credentials, anonymous=True
    )
    def post(self, request: Request) -> Response:
        """Start a session."""
        # Without this another site could sign a visitor in under an account of its own.
        SessionAuthentication().enforce_csrf(request)
        body = body_of(request, bodies.Credentials)
        user = sign_in(request=request._request, username=body["username"], password=body["password"])
        login(request._request, user)
        describe_session(request._request)
        return Response(render.me(user))


class Logout(ApiView):
    @describe("logout", "account", {204: None}, request=None)
    def post(self, request: Request) -> Response:
        """End the session; a token stays as it is."""
        logout(request._request)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Me(ApiView):
    @describe("get_me", "account", {200: answers.Me})
    def get(self, request: Request) -> Response:
        """The caller, their tenants and what they may submit to."""
        return Response(render.me(caller(request)))

    @describe("change_me", "account", {200: answers.Me}, problems=(429,), request=bodies.NewEmail)
    def patch(self, request: Request) -> Response:
        """Change the mail address of the caller."""
        user, body = caller(request), body_of(request, bodies.NewEmail)
        limits.take(limits.PASSWORD, user.pk)
        change_email(user=user, current=body["current"], email=body["email"])
        return Response(render.me(user))


class Password(ApiView):
    @describe("change_password", "account", {204: None}, problems=(429,), request=bodies.NewPassword)
    def post(self, request: Request) -> Response:
        """Change the password. All other sessions end, and tokens but for those with `survives_password_change`."""
        user, body = caller(request), body_of(request, bodies.NewPassword)
        limits.take(limits.PASSWORD, user.pk)
        change_password(user=user, current=body["current"], new=body["new"])
        if api_token_of(request) is None:
            update_session_auth_hash(request._request, user)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Tokens(ApiView):
    @describe("list_tokens", "account", {200: answers.TokenList})
    def get(self, request: Request) -> Response:
        """The tokens that are not revoked, newest first."""
        rows = ApiToken.objects.filter(user=caller(request), revoked_at__isnull=True).order_by("-pk")
        return Response(answers.TokenList(results=[render.token(row) for row in rows], next=None))

    @describe("create_token", "account", {201: answers.TokenWithSecret}, problems=(409,), request=bodies.NewToken)
    def post(self, request: Request) -> Response:
        """Make a token. Its secret is in this answer and never shown again."""
        body = body_of(request, bodies.NewToken)
        try:
            life = timedelta(seconds=parse_duration_s(body.pop("expires_in"))) if "expires_in" in body else None
        except (ValueError, OverflowError) as error:
            raise Invalid.field("expires_in", str(error)) from error
        row, secret = create_token(user=caller(request), expires_in=life, maker=api_token_of(request), **body)
        answer: answers.TokenWithSecret = {**render.token(row), "token": secret}
        return Response(answer, status=status.HTTP_201_CREATED)


class OneToken(ApiView):
    @describe("change_token", "account", {200: answers.Token}, problems=(404,), request=bodies.TokenChanges)
    def patch(self, request: Request, token_id: int) -> Response:
        """Change whether the token stays when the password changes."""
        survives = body_of(request, bodies.TokenChanges)["survives_password_change"]
        # A stolen token could otherwise keep itself, or stronger tokens, from the change of the password.
        if survives and api_token_of(request) is not None:
            raise Invalid.field("survives_password_change", "a token cannot set this; sign in on the page")
        return Response(render.token(set_token_survival(user=caller(request), token_id=token_id, survives=survives)))

    @describe("revoke_token", "account", {204: None}, problems=(404,))
    def delete(self, request: Request, token_id: int) -> Response:
        """End the token."""
        revoke_token(user=caller(request), token_id=token_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Sessions(ApiView):
    @describe("list_sessions", "account", {200: answers.SessionList})
    def get(self, request: Request) -> Response:
        """The sessions in which the caller is signed in, the last used first."""
        key_digest = digest(_session_key(request) or "")
        rows = sessions_of(caller(request))
        results = [render.session(row, current=row.key_digest == key_digest) for row in rows]
        return Response(answers.SessionList(results=results, next=None))

    @describe("end_other_sessions", "account", {204: None})
    def delete(self, request: Request) -> Response:
        """End all sessions but the one in which the request is sent; a request with a token ends all of them."""
        end_other_sessions(user=caller(request), session_key=_session_key(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class OneSession(ApiView):
    @describe("end_session", "account", {204: None}, problems=(404,))
    def delete(self, request: Request, session_id: int) -> Response:
        """End the session and its open streams at once."""
        end_session(user=caller(request), session_id=session_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _session_key(request: Request) -> str | None:
    """The key of the session by which the request was authenticated, None for a token."""
    if api_token_of(request) is not None:
        return None
    return request._request.session.session_key
