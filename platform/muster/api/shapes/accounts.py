"""The caller, sessions and tokens."""

from __future__ import annotations

from rest_framework import serializers

from muster.accounts.scopes import Scope
from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.tenants.roles import Role


class Credentials(Shape):
    """A name and a password."""

    username = Text(max_length=150)
    password = Text(max_length=4096, trim_whitespace=False)


class NewPassword(Shape):
    """The present password, and the one to have in its place."""

    current = Text(max_length=4096, trim_whitespace=False)
    new = Text(max_length=4096, trim_whitespace=False)


class MyTenant(Shape):
    """A tenant that the caller belongs to."""

    name = Text()
    role = Choice(choices=values(Role))


class Me(Shape):
    """The caller, and what they may use."""

    username = Text()
    email = Text(allow_blank=True)
    is_operator = Flag()
    tenants = MyTenant(many=True)
    vcs = serializers.ListField(child=Text())
    default_vc = Text(allow_null=True)


class NewToken(Shape):
    """A token to be made."""

    name = Text(max_length=100)
    expires_in = Text(
        required=False,
        max_length=40,
        help_text="Such as 12h or 30d, at most 366d; 30d by default. A token made by a token ends no later than that.",
    )
    scopes = serializers.ListField(
        required=False,
        child=Choice(choices=values(Scope)),
        allow_empty=False,
        help_text="read, submit, manage, admin; read and submit by default, and read always.",
    )
    survives_password_change = Flag(required=False, default=False)


class TokenChanges(Shape):
    """What can be changed of a token."""

    survives_password_change = Flag(
        help_text="Whether it stays when the password changes. A request with a token cannot set it to true."
    )


class Token(Shape):
    """A token, without its secret."""

    id = Integer()
    name = Text()
    prefix = Text()
    created_at = Moment()
    expires_at = Moment()
    last_used_at = Moment(allow_null=True)
    scopes = serializers.ListField(child=Choice(choices=values(Scope)))
    survives_password_change = Flag()


class TokenWithSecret(Token):
    """A new token with its secret, which is shown this once only."""

    token = Text()


class TokenList(Shape):
    """The caller's tokens that are not revoked, newest first."""

    results = Token(many=True)
    next = Text(allow_null=True)


class Session(Shape):
    """A browser in which the caller is signed in."""

    id = Integer()
    created_at = Moment()
    last_used_at = Moment(help_text="Accurate to a minute.")
    address = Text(allow_null=True, help_text="The IP address that the user signed in from.")
    user_agent = Text(allow_blank=True, help_text="The User-Agent header of the sign-in.")
    current = Flag(help_text="Whether the request was sent in this session.")


class SessionList(Shape):
    """The caller's sessions, the last used first."""

    results = Session(many=True)
    next = Text(allow_null=True)


class Health(Shape):
    """Whether the process runs."""

    status = Choice(choices=[("ok", "ok")])


UP_OR_DOWN = [("up", "up"), ("down", "down")]


class Readiness(Shape):
    """Whether requests can be served. Without Redis everything works, with longer delays."""

    status = Choice(choices=[(name, name) for name in ("ready", "degraded", "unavailable")])
    postgres = Choice(choices=UP_OR_DOWN)
    redis = Choice(choices=UP_OR_DOWN)
