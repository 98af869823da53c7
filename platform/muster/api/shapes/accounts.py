"""The caller, sessions and tokens."""

from __future__ import annotations

from rest_framework import serializers

from muster.accounts.scopes import Scope
from muster.api.shapes.common import Choice, Flag, Integer, Moment, Shape, Text, values
from muster.tenants.roles import Role


class Credentials(Shape):
    """A name and a password."""

    username = Text(max_length=150, help_text="The name of the user.")
    password = Text(max_length=4096, trim_whitespace=False, help_text="The password of the user.")


class NewPassword(Shape):
    """The current password, and the one to have in its place."""

    current = Text(max_length=4096, trim_whitespace=False, help_text="The current password.")
    new = Text(max_length=4096, trim_whitespace=False, help_text="The new password.")


class NewEmail(Shape):
    """Where the caller's mail is to go, and the current password."""

    email = Text(max_length=254, allow_blank=True, help_text="The new mail address; empty for none.")
    current = Text(max_length=4096, trim_whitespace=False, help_text="The current password.")


class MyTenant(Shape):
    """A tenant that the caller belongs to."""

    name = Text(help_text="The name of the tenant.")
    role = Choice(
        choices=values(Role), help_text="The role of the caller; a `manager` may also act on other members' jobs."
    )


class Me(Shape):
    """The caller, and what they may use."""

    username = Text(help_text="The name of the user.")
    email = Text(allow_blank=True, help_text="The mail address of the user; empty if there is none.")
    is_operator = Flag(help_text="Whether the user is an operator of the cluster.")
    tenants = MyTenant(many=True, help_text="The tenants that the user is a member of, by name.")
    vcs = serializers.ListField(child=Text(), help_text="The names of the virtual clusters that the user may see.")
    default_vc = Text(
        allow_null=True,
        help_text=("The virtual cluster of jobs whose spec names none; null if the user's tenants have none."),
    )


class NewToken(Shape):
    """A token to be made."""

    name = Text(max_length=100, help_text="What the token is for, to recognize it in the list.")
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
    survives_password_change = Flag(
        required=False,
        default=False,
        help_text="Whether it stays valid when the password changes; a token can set it only if it has it itself.",
    )


class TokenChanges(Shape):
    """What can be changed of a token."""

    survives_password_change = Flag(
        help_text="Whether it stays when the password changes. A request with a token cannot set it to true."
    )


class Token(Shape):
    """A token, without its secret."""

    id = Integer(help_text="The id of the token.")
    name = Text(help_text="What the token is for.")
    prefix = Text(help_text="The first characters of the secret.")
    created_at = Moment(help_text="When the token was made.")
    expires_at = Moment(help_text="When the token expires.")
    last_used_at = Moment(allow_null=True, help_text="When a request last used the token; null if none has.")
    scopes = serializers.ListField(child=Choice(choices=values(Scope)), help_text="What the token may be used for.")
    survives_password_change = Flag(help_text="Whether the token stays valid when the password changes.")


class TokenWithSecret(Token):
    """A new token with its secret, which is shown this once only."""

    token = Text(help_text="The secret, for the Authorization header.")


class TokenList(Shape):
    """The caller's tokens that are not revoked, newest first."""

    results = Token(many=True, help_text="The tokens.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class Session(Shape):
    """A browser in which the caller is signed in."""

    id = Integer(help_text="The id of the session.")
    created_at = Moment(help_text="When the user signed in.")
    last_used_at = Moment(help_text="Accurate to a minute.")
    address = Text(allow_null=True, help_text="The IP address that the user signed in from.")
    user_agent = Text(allow_blank=True, help_text="The User-Agent header of the sign-in.")
    current = Flag(help_text="Whether the request was sent in this session.")


class SessionList(Shape):
    """The caller's sessions, the last used first."""

    results = Session(many=True, help_text="The sessions.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class Health(Shape):
    """Whether the process runs."""

    status = Choice(choices=[("ok", "ok")], help_text="Always `ok`; a process that does not run does not answer.")


UP_OR_DOWN = [("up", "up"), ("down", "down")]


class Readiness(Shape):
    """Whether requests can be served. Without Redis everything works, with longer delays."""

    status = Choice(
        choices=[(name, name) for name in ("ready", "degraded", "unavailable")],
        help_text="`ready`; `degraded` without Redis; `unavailable` without Postgres.",
    )
    postgres = Choice(choices=UP_OR_DOWN, help_text="Whether the platform reaches Postgres.")
    redis = Choice(choices=UP_OR_DOWN, help_text="Whether the platform reaches Redis.")
