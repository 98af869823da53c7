"""The caller, sessions and tokens."""

from __future__ import annotations

from typing import Annotated, TypedDict

from muster_client.answers.terms import Moment, Role, TokenScope


class MyTenant(TypedDict):
    """A tenant that the caller belongs to."""

    name: Annotated[str, "The name of the tenant."]
    role: Annotated[Role, "The role of the caller; a `manager` may also act on other members' jobs."]


class Me(TypedDict):
    """The caller, and what they may use."""

    username: Annotated[str, "The name of the user."]
    email: Annotated[str, "The mail address of the user; empty if there is none."]
    is_operator: Annotated[bool, "Whether the user is an operator of the cluster."]
    tenants: Annotated[list[MyTenant], "The tenants that the user is a member of, by name."]
    vcs: Annotated[list[str], "The names of the virtual clusters that the user may see."]
    default_vc: Annotated[
        str | None, "The virtual cluster of jobs whose spec names none; null if the user's tenants have none."
    ]


class Token(TypedDict):
    """A token, without its secret."""

    id: Annotated[int, "The id of the token."]
    name: Annotated[str, "The purpose of the token."]
    prefix: Annotated[str, "The first characters of the secret."]
    created_at: Annotated[Moment, "When the token was made."]
    expires_at: Annotated[Moment, "When the token expires."]
    last_used_at: Annotated[Moment | None, "When a request last used the token; null if none has."]
    scopes: Annotated[list[TokenScope], "The calls that the token may make."]
    survives_password_change: Annotated[bool, "Whether the token stays valid when the password changes."]


class TokenWithSecret(Token):
    """A new token with its secret, which is shown this once only."""

    token: Annotated[str, "The secret, for the Authorization header."]


class TokenList(TypedDict):
    """The caller's tokens that are not revoked, newest first."""

    results: Annotated[list[Token], "The tokens."]
    next: Annotated[str | None, "Always null: the list has one page."]


class Session(TypedDict):
    """A browser in which the caller is signed in."""

    id: Annotated[int, "The id of the session."]
    created_at: Annotated[Moment, "When the user signed in."]
    last_used_at: Annotated[Moment, "Accurate to a minute."]
    address: Annotated[str | None, "The IP address that the user signed in from."]
    user_agent: Annotated[str, "The User-Agent header of the sign-in."]
    current: Annotated[bool, "Whether the request was sent in this session."]


class SessionList(TypedDict):
    """The caller's sessions, the last used first."""

    results: Annotated[list[Session], "The sessions."]
    next: Annotated[str | None, "Always null: the list has one page."]
