"""Bodies of requests about sessions, tokens and passwords."""

from rest_framework import serializers

from muster.accounts.scopes import Scope
from muster.api.fields import Choice, Flag, Shape, Text, values


class Credentials(Shape):
    """A name and a password."""

    username = Text(max_length=150, help_text="The name of the user.")
    password = Text(max_length=4096, trim_whitespace=False, help_text="The password of the user.")


class NewPassword(Shape):
    """The current password and the new one."""

    current = Text(max_length=4096, trim_whitespace=False, help_text="The current password.")
    new = Text(max_length=4096, trim_whitespace=False, help_text="The new password.")


class NewEmail(Shape):
    """The caller's new mail address, and the current password."""

    email = Text(max_length=254, allow_blank=True, help_text="The new mail address; empty for none.")
    current = Text(max_length=4096, trim_whitespace=False, help_text="The current password.")


class NewToken(Shape):
    """A token to be made."""

    name = Text(max_length=100, help_text="Its purpose, to recognize it in the list.")
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
    """Changes of a token."""

    survives_password_change = Flag(
        help_text="Whether it stays when the password changes. A request with a token cannot set it to true."
    )
