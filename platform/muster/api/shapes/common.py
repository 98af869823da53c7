"""Shapes that several resources share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from muster.common.errors import unknown_key

if TYPE_CHECKING:
    _Serializer = serializers.Serializer[Any]
else:
    _Serializer = serializers.Serializer


class Shape(_Serializer):
    """The fields of an object in a body or an answer; a body with any other key is refused."""

    def to_internal_value(self, data: Any) -> Any:
        """The values of a body.

        Raises:
            ValidationError: some fields are wrong, or a key is not one of the fields.
        """
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            unknown = {str(key)[:100]: [unknown_key(str(key), known)] for key in data if key not in known}
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


class Choice(serializers.ChoiceField):
    """One of some values; the refusal of another value lists them."""

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, **options)
        listed = ", ".join(str(value) for value in self.choices)
        self.error_messages["invalid_choice"] = f"write one of {listed}"


Text = serializers.CharField
Integer = serializers.IntegerField
Number = serializers.FloatField
Flag = serializers.BooleanField
Moment = serializers.DateTimeField


def values(enum: Any) -> list[tuple[str, str]]:
    """The members of an enum as the choices of a field, as pairs of value and name."""
    return [(member.value, member.name) for member in enum]


class FieldErrorShape(Shape):
    """One wrong field: its dotted name and what is wrong with it."""

    field = Text(allow_blank=True, help_text="The dotted name of the field; empty for the body as a whole.")
    message = Text(help_text="What is wrong with it.")

    class Meta:
        ref_name = "FieldError"


class Problem(Shape):
    """A problem document (RFC 9457)."""

    type = Text(help_text="A URI that identifies the kind of problem.")
    title = Text(help_text="The kind of problem in words.")
    status = Integer(help_text="The HTTP status of the answer.")
    detail = Text(allow_blank=True, help_text="What happened in this case.")
    errors = FieldErrorShape(many=True, help_text="One entry for each wrong field.")  # type: ignore[assignment]
